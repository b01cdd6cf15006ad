"""Everything the page says, as plain data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.audit import Audit, Comparison
from localconformal.audit.accuracy import accuracy
from localconformal.audit.inputs import intervals_of
from localconformal.audit.sentences import summary_lines
from localconformal.metrics import CoverageLengthCurve
from localconformal.report.expectation import with_expected_band
from localconformal.report.making import data_facts, model_facts
from localconformal.report.methods import describe_comparison
from localconformal.report.plain import PARAGRAPH, TEXT, plain, short, typeset
from localconformal.report.points import check_rows, curve_chart, row_charts
from localconformal.report.predictions import describe_predictions, predictions_chart
from localconformal.report.regions import failures, glance_chart, part_charts
from localconformal.report.slab import describe_slab
from localconformal.report.words import headline, promise

TITLE = "How well do these intervals cover?"
GROUP_HINT = "pass groups= to the audit"
MAX_NOTES = 60
#: The charts of the page that are about rows, in their order.
CHARTS = ("groups", "features", "sizes", "lengths", "errors", "curve", "intervals")


def summarise(
    audit: Audit,
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
) -> dict[str, Any]:
    """The content of a report as numbers, texts, lists and dicts that JSON can say.

    NaN and infinities are the texts "NaN", "Infinity" and "-Infinity". The size is bounded
    whatever the number of rows, columns and groups: rows are counted or drawn with a seed, long
    tables and texts are cut, and what was cut is said.

    Parameters
    ----------
    audit : Audit
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
    dict

    Examples
    --------
    >>> import numpy as np
    >>> from localconformal.audit import audit
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> found = summarise(audit(X, y, np.tile([0.05, 0.95], (200, 1))))
    >>> found["headline"]["text"]
    '92.0 % of 200 rows lie in their interval. The target is 90 %.'
    """
    audit = with_expected_band(audit, model)
    charts = {"glance": glance_chart(audit), **part_charts(audit)}
    if intervals is None and model is not None and X is not None and y is not None:
        intervals = intervals_of(model, X, audit.summary.confidence_level)
        if y_pred is None and hasattr(model, "predict"):
            y_pred = model.predict(X)
    found = None
    if y is not None and intervals is not None:
        rows = check_rows(audit, y, intervals)
        charts |= row_charts(*rows, random_state)
        if y_pred is not None:
            found = accuracy(rows[0], y_pred)
            charts["predictions"] = predictions_chart(*rows, np.asarray(y_pred), random_state)
    if curve is not None:
        charts["curve"] = curve_chart(curve)
    slab = describe_slab(audit)
    compared = None if comparison is None else describe_comparison(comparison)
    if slab["chart"] is not None:
        charts["slab"] = slab["chart"]
    if compared is not None:
        charts |= compared.pop("charts")
    lines = summary_lines(audit.summary)
    summary = {
        "title": short(title, TEXT),
        "headline": headline(audit, found),
        "numbers": [(name, typeset(value), text) for name, value, text in lines],
        "guarantee": promise(audit, model),
        "failures": failures(audit, group_hint),
        "predictions": [] if found is None else describe_predictions(found),
        "charts": charts,
        "slab": slab["lines"],
        "comparison": compared,
        "making": model_facts(model),
        "facts": data_facts(audit, X, model, random_state),
        "notes": [short(note, PARAGRAPH) for note in audit.notes[:MAX_NOTES]],
    }
    content: dict[str, Any] = plain(summary)
    return content
