"""The charts of a page, as plain data that its script draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit import Audit, Cell, Comparison, Summary
from localconformal.audit.cells import ALPHA
from localconformal.audit.compare import METRICS
from localconformal.metrics.intervals import is_covered, open_end, tied_lengths
from localconformal.plots._axes import drawn_rows
from localconformal.quantiles import Array
from localconformal.text import say_rows, shorten

#: Characters of a name in a chart, and of a text in a table.
NARROW, _WIDE = 56, 120
UNDER, OVER, _WITHIN = "under", "over", "within"
#: Prefix of the text of a part, by its kind, in the order of the page.
KINDS = {"rules": "Rule: ", "groups": "Group: ", "slab": "Slab: ", "sizes": "Interval "}
KINDS["features"] = "Bin: "
#: Features, and parts of one; methods; rows in the charts of errors, intervals and predictions.
_MAX_OPTIONS, _MAX_PARTS, MAX_METHODS = 60, 40, 60
_MAX_POINTS, _MAX_INTERVALS, _MAX_PREDICTED = 1_500, 120, 200
#: Axes end at this quantile; the few rows beyond are drawn at the edge, and counted.
_EDGE = 0.995
_READING = (
    "All rows, and the part of each kind that covers worst. The mark is the coverage, the bar its "
    "exact 95 % band; coloured if it is off by more than chance, adjusted for all parts tested."
)


def short(text: Any, width: int = _WIDE) -> str:
    """Text from data on one line, and of limited length."""
    return shorten(" ".join(str(text).split()), width)


def say_calibration(summary: Summary) -> str:
    """The calibration set, by its size."""
    return f"a calibration set of {say_rows(summary.n_calibration)}"


def _state(gap: float, p_value: float) -> str:
    """Is a coverage below the target, or above it, by more than chance?"""
    if not p_value <= ALPHA:
        return _WITHIN
    return UNDER if gap < 0 else OVER


def region_state(region: Any) -> str:
    """The same for a rule or a cell, adjusted for the number of parts tested."""
    return _state(region.gap, region.adjusted_p_value)


def _overall_state(summary: Summary) -> str:
    """The same for all rows, where the draw of the calibration rows also counts as chance."""
    level = summary.confidence_level
    is_chance = summary.is_explained or summary.lower <= level <= summary.upper
    return _state(summary.coverage - level, float(is_chance))


def _chart(kind: str, title: str, lead: str, columns: Any, **more: Any) -> dict[str, Any]:
    """A chart of columns, or of several (label, columns) to choose from."""
    several = columns if isinstance(columns, list) else [("", columns)]
    options = [{"label": label, "columns": one} for label, one in several]
    return {"kind": kind, "title": title, "lead": lead, "options": options, **more}


def _forest(title: str, lead: str, level: float, columns: Any, **more: Any) -> dict[str, Any]:
    return _chart("forest", title, lead, columns, **{"reference": level, "share": True, **more})


def _columns(rows: Iterable[tuple[str, Any, str]], value: str = "coverage") -> dict[str, Any]:
    """Columns from rows of (label, object with this value and a band, state)."""
    labels, told, states = map(list, zip(*rows, strict=True))
    columns = {"label": [short(label, NARROW) for label in labels], "rows": [r.n for r in told]}
    for name, field in (("value", value), ("lower", "lower"), ("upper", "upper")):
        columns[name] = [getattr(r, field) for r in told]
    return {**columns, "state": states}


def all_charts(
    audit: Audit, rows: tuple[Array, Array, Any] | None, comparison: Comparison | None, seed: int
) -> dict[str, Any]:
    """Name -> chart, for all that can be drawn; rows are (y, bounds, predictions or None)."""
    charts = {"glance": _glance_chart(audit), **_part_charts(audit)}
    if rows is not None:
        charts |= _row_charts(*rows, seed)
    return charts if comparison is None else charts | _differences_chart(comparison)


def _glance_chart(audit: Audit) -> dict[str, Any]:
    """All rows, and the part of each kind that covers least."""
    summary, slab = audit.summary, audit.slab
    level = summary.confidence_level
    rows: list[tuple[str, Any, str]] = [("All rows", summary, _overall_state(summary))]
    for part in ("rules", "groups", "features", "sizes"):
        if tested := getattr(audit, part):
            worst = min(tested, key=lambda one: (region_state(one) != UNDER, one.gap))
            rows.append((f"{KINDS[part]}{worst.text}", worst, region_state(worst)))
    if slab.n:
        beyond = _state(slab.coverage - level, audit.slab_p_value)
        rows.append((f"{KINDS['slab']}{audit.slab_text}", slab, beyond))
    lead, more = _READING, {}
    if summary.n_calibration:
        lead += f" The box around all rows is the range expected for {say_calibration(summary)}."
        more["expected"] = [summary.expected_lower, summary.expected_upper]
    return _forest("At a glance", lead, level, _columns(rows), **more)


def _part_charts(audit: Audit) -> dict[str, Any]:
    level, charts = audit.summary.confidence_level, {}
    for part, by, lead in (
        ("groups", "group", "Is every group covered equally?"),
        ("features", "feature", "Is coverage constant along a feature? The worst come first."),
        ("sizes", "length", "From the shortest to the longest: are all lengths covered equally?"),
    ):
        if cells := getattr(audit, part):
            choice = _choice(by.capitalize(), cells)
            charts[part] = _forest(f"Coverage by {by}", lead, level, **choice)
    return charts


def _choice(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the rows are divided by, the most significant first, each with its parts in order."""
    by: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda one: one.p_value):
        by.setdefault(cell.by, []).append(cell)
    options, notes = [], []
    for label, parts in list(by.items())[:_MAX_OPTIONS]:
        shown = sorted(parts[:_MAX_PARTS], key=lambda cell: cell.position)
        columns = _columns((cell.label, cell, region_state(cell)) for cell in shown)
        options.append((short(label, NARROW), columns))
    if len(by) > _MAX_OPTIONS:
        notes.append(f"Only the {_MAX_OPTIONS} of {len(by):,} that are furthest off can be chosen.")
    if any(len(parts) > _MAX_PARTS for parts in by.values()):
        notes.append(f"Of more than {_MAX_PARTS} parts, those furthest off are shown.")
    return {"columns": options, "choose": name, "note": " ".join(notes)}


def _differences_chart(comparison: Comparison) -> dict[str, Any]:
    if not (paired := comparison.paired()):
        return {}
    options = []
    for metric in METRICS:
        told = [one for one in paired if one.metric == metric][:MAX_METHODS]
        apart = [_WITHIN if one.lower <= 0 <= one.upper else "apart" for one in told]
        names = [one.method for one in told]
        columns = _columns(zip(names, told, apart, strict=True), "difference")
        options.append((metric.replace("_", " "), columns))
    each = "split by split" if comparison.splits else "row by row"
    lead = (
        f"Each method minus {short(paired[0].reference)}, {each}, with the 95 % confidence "
        "interval of the mean difference; lower scores and lengths are better."
    )
    more: dict[str, Any] = {"choose": "Metric", "share": False, "note": ""}
    return {"differences": _forest("Differences between methods", lead, 0.0, options, **more)}


def _row_charts(y: Array, bounds: Array, y_pred: Any, seed: int) -> dict[str, Any]:
    """Predictions, length against error and sorted intervals, as far as they can be drawn."""
    covered, length = is_covered(y, bounds), tied_lengths(bounds)
    finite = np.flatnonzero(np.isfinite(bounds).all(axis=1) & np.isfinite(length))
    charts = {"intervals": _sorted_intervals(y, bounds, covered, length, seed)}
    if y_pred is not None:
        charts["predictions"] = _predictions(y, bounds, y_pred, seed)
    left_out = _say_if_any("Infinite and left out", len(y) - len(finite))
    if not len(finite):
        return charts
    rows = finite[drawn_rows(len(finite), _MAX_POINTS, seed)]
    columns = {"length": length[rows], "error": np.abs(y[rows] - bounds[rows].mean(axis=1))}
    ends = {name: float(np.quantile(values, _EDGE)) for name, values in columns.items()}
    outside = np.any([values > ends[name] for name, values in columns.items()], axis=0)
    beyond = _say_if_any("Beyond the axes, drawn at the edge", int(outside.sum()))
    charts["errors"] = _chart(
        "scatter",
        "Are intervals longer where errors are larger?",
        "Each dot is a row: the length of its interval, and the distance of y from its centre. "
        "Rows above the line, where the error is half the length, are missed.",
        {**columns, "covered": covered[rows]},
        note=f"{_say_drawn(len(rows), len(y), seed)}{beyond}{left_out}",
        ends=list(ends.values()),
    )
    return charts


def _sorted_intervals(
    y: Array, bounds: Array, covered: NDArray[np.bool_], length: Array, seed: int
) -> dict[str, Any]:
    """A sample of intervals, the shortest first; in input order if all have the same length."""
    rows = drawn_rows(len(y), _MAX_INTERVALS, seed)
    rows = rows[np.argsort(length[rows], kind="stable")]
    lower, upper = bounds[rows].T
    with np.errstate(invalid="ignore"):
        centre = lower / 2 + upper / 2
    endless = ~np.isfinite(centre)
    one_sided = open_end(bounds) is not None
    why = "With one bound" if one_sided else "Infinite"
    around = _say_if_any(f"{why}, so drawn around y", int(endless.sum()))
    centre = np.where(endless, y[rows], centre)
    away = np.abs(np.concatenate([lower, upper, y[rows]]) - np.tile(centre, 3))
    tied = bool((length == length[0]).all()) and (one_sided or np.isfinite(length[0]))
    of_one = "One-sided intervals" if one_sided else "Intervals, all of the same length"
    columns = {"row": rows, "lower": lower, "upper": upper, "y": y[rows], "centre": centre}
    return _chart(
        "intervals",
        of_one if tied else "Intervals, shortest first",
        "Each line is the interval of one row, drawn around its centre; each dot is its y.",
        {**columns, "covered": covered[rows]},
        note=f"{_say_drawn(len(rows), len(y), seed)}{around}",
        end=float(np.quantile(away[np.isfinite(away)], _EDGE)),
        order=f"rows, {'in input order' if tied else 'shortest interval first'}",
    )


def _predictions(y: Array, bounds: Array, y_pred: Any, seed: int) -> dict[str, Any]:
    rows = drawn_rows(len(y), _MAX_PREDICTED, seed)
    predicted, observed, lower, upper = np.column_stack([y_pred, y, bounds])[rows].T
    # The axis may leave out a few bounds at either end, but no prediction and no y.
    finite = bounds[np.isfinite(bounds)]
    reach = np.quantile(finite, [1.0 - _EDGE, _EDGE]) if len(finite) else finite
    seen = np.concatenate([predicted, observed, reach])
    low, high = float(seen.min()), float(seen.max())
    outside = np.stack([lower < low, upper > high])
    if (end := open_end(bounds)) is not None:
        outside[end] = False
    beyond = _say_if_any("Cut at the edge", int(outside.any(axis=0).sum()))
    columns = {"row": rows, "predicted": predicted, "observed": observed, "lower": lower}
    return _chart(
        "predictions",
        "Predicted and observed",
        "Each line is one row's interval, each dot its y; on the dashed line y equals the "
        "prediction.",
        {**columns, "upper": upper, "covered": is_covered(y, bounds)[rows]},
        note=f"{_say_drawn(len(rows), len(y), seed)}{beyond}",
        ends=[low, high],
    )


def _say_drawn(drawn: int, n: int, seed: int) -> str:
    if drawn == n:
        return f"All {say_rows(n)}."
    return f"{drawn:,} of {say_rows(n)}, drawn at random with seed {seed}."


def _say_if_any(what: str, n: int) -> str:
    """A further sentence of a note, if there are such rows."""
    return f" {what}: {say_rows(n)}." if n else ""
