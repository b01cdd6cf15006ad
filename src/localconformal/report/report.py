"""The report as a page that needs nothing else, and as a file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from localconformal.audit import Audit, Comparison
from localconformal.io.files import write_whole
from localconformal.metrics import CoverageLengthCurve
from localconformal.report.content import GROUP_HINT, TITLE, summarise, typeset
from localconformal.text import (
    check_jinja2,
    render_template,
    say_band,
    say_number,
    say_p_value,
    say_share,
)

_SCRIPTS = ("draw.js", "charts.js", "page.js")
#: Parts of the page in their order, by their ids.
_TITLES = {
    "promise": "What is promised",
    "failures": "Where coverage fails",
    "excess": "Where coverage is higher than asked",
    "parts": "Every part tested",
    "model": "The point predictions",
    "charts-of-rows": "Charts",
    "slab": "The worst slab",
    "methods": "Methods compared",
    "making": "How the intervals were made",
    "data": "Data and versions",
    "notes": "Notes",
}


def write_report(
    audit: Audit,
    path: str | Path,
    *,
    model: Any = None,
    title: str = TITLE,
    comparison: Comparison | None = None,
    curve: CoverageLengthCurve | None = None,
    X: Any = None,
    y: ArrayLike | None = None,
    intervals: ArrayLike | None = None,
    y_pred: ArrayLike | None = None,
    random_state: int = 0,
    group_hint: str = GROUP_HINT,
) -> Path:
    """Write an audit as one HTML file that needs nothing else, and return its path.

    The page asks for nothing from the network, and its content security policy forbids it to.
    It is under 3 MB whatever the data, and the same for the same arguments. The file is whole or
    not there. It needs the extra ``report``.

    Parameters
    ----------
    audit : Audit
    path : str or Path
    model : fitted estimator, default=None
        What made the intervals: asked for its promise, how it was fitted, by how many rows it was
        calibrated, and for the intervals of X where none are given.
    title : str, default="How well do these intervals cover?"
        Above the headline, and of the browser's window.
    comparison : Comparison, default=None
    curve : CoverageLengthCurve, default=None
        Of `localconformal.metrics.coverage_length_curve`.
    X : array or frame of shape (n, d), default=None
    y : array of shape (n,), default=None
    intervals : array of shape (n, 2), default=None
        The rows that were audited, for the charts of lengths, errors and intervals; without
        intervals, or a model that gives them, these charts are left out.
    y_pred : array of shape (n,), default=None
        Point predictions of these rows: how good they are, and a chart of them. None asks the
        model, where it is asked for the intervals too; otherwise both are left out.
    random_state : int, default=0
        Seed of the rows drawn.
    group_hint : str, default="pass groups= to the audit"
        What to do for a table of groups, said where there are none.

    Returns
    -------
    Path

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from localconformal.audit import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> intervals = np.tile([0.05, 0.95], (200, 1))
    >>> path = f"{tempfile.mkdtemp()}/report.html"
    >>> page = write_report(audit(X, y, intervals), path, X=X, y=y, intervals=intervals)
    >>> page.stat().st_size < 3_000_000
    True
    """
    check_jinja2()
    summary = summarise(
        audit,
        model=model,
        title=title,
        comparison=comparison,
        curve=curve,
        X=X,
        y=y,
        intervals=intervals,
        y_pred=y_pred,
        random_state=random_state,
        group_hint=group_hint,
    )
    page = render(summary)
    return write_whole(Path(path), lambda part: part.write_text(page, encoding="utf-8"))


def render(summary: dict[str, Any]) -> str:
    """One self-contained page: style, script and data are inside, and nothing else is asked for.

    Parameters
    ----------
    summary : dict
        Of `summarise`.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from localconformal.audit import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> page = render(summarise(audit(X, y, np.tile([0.05, 0.95], (200, 1))), title="a < b"))
    >>> "<title>a &lt; b</title>" in page, "https://" in page
    (True, False)
    """
    style, script = _assets()
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    tools = (_place, _tight, say_band, say_number, say_p_value, say_share, typeset)
    return render_template(
        "report/templates/report.html.j2",
        **summary,
        policy=policy,
        style=style,
        script=script,
        titles=_titles(summary),
        **{tool.__name__.lstrip("_"): tool for tool in tools},
    )


def _titles(summary: dict[str, Any]) -> dict[str, str]:
    """Of the parts that there is something to say of."""
    present = {
        "excess": summary["failures"]["over"]["sentences"],
        "model": summary["predictions"],
        "methods": summary["comparison"],
        "notes": summary["notes"],
    }
    return {name: title for name, title in _TITLES.items() if present.get(name, True)}


@cache
def _assets() -> tuple[str, str]:
    """Style and script."""
    folder = files("localconformal.report") / "assets"
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return style, f'"use strict";\n(() => {{\n{script}\n}})();\n'


def _digest(text: str) -> str:
    """What the policy lets through: this text and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _tight(text: str) -> str:
    """No line begins with a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _place(share: float, low: float) -> str:
    """Where a share stands in the picture of a band, 150 pixels wide and from ``low`` to 1."""
    inside = (share - low) / max(1.0 - low, 1e-9)
    return f"{6 + 138 * min(max(inside, 0.0), 1.0):.1f}"
