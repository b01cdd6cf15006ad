"""A fitted estimator in a notebook: what it promises, its parts, and what the fit cost."""

from __future__ import annotations

from html import escape
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

_CELL = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;font-weight:normal"


def card(model: Any) -> str:
    """A small HTML table; empty before the model is fitted."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return ""
    rows = "".join(
        f'<tr><th style="{_CELL};white-space:nowrap;opacity:.7">{escape(name)}</th>'
        f'<td style="{_CELL}">{escape(text)}</td></tr>'
        for name, text in _facts(model).items()
        if text
    )
    return f'<table style="margin-top:6px;border-collapse:collapse">{rows}</table>'


def _facts(model: Any) -> dict[str, str]:
    """Name -> sentence."""
    promise, *noted = str(model.guarantee_).splitlines()
    # The two sides of a score may share one law.
    laws = dict.fromkeys(repr(law) for law in model.law_.laws)
    counts, seconds = model.fit_report_["rows"], model.fit_report_["seconds"]
    used = [f"{count:,} {name}" for name, count in counts.items() if count]
    spent = [f"{name} {time:.2g} s" for name, time in seconds.items()]
    return {
        "Promise": promise,
        "": " ".join(noted),
        "Score": type(model.score_).__name__,
        "Law": ", ".join(laws) or "none",
        "Rows": ", ".join(used),
        "Time": ", ".join(spent),
    }
