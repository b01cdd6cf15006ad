"""The report as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from localconformal.audit import Audit, Comparison
from localconformal.audit.html import write_page
from localconformal.metrics import CoverageLengthCurve
from localconformal.report.render import render
from localconformal.report.summarise import GROUP_HINT, TITLE, summarise


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
    not there.

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
    return write_page(path, render(summary))
