"""The charts of a page, as plain data that its script draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit import Audit, Cell, Comparison, Difference, Summary
from localconformal.audit.cells import ALPHA
from localconformal.metrics import CoverageLengthCurve
from localconformal.metrics.intervals import is_covered, tied_lengths
from localconformal.plots._axes import drawn_rows
from localconformal.quantiles import Array
from localconformal.text import say_number, say_rows, shorten

#: Characters of a name in a chart, and of a text in a table.
NARROW, _WIDE = 56, 120
UNDER, OVER, _WITHIN = "under", "over", "within"
#: What stands before the words for a part, by its kind; those told first come first.
KINDS = {"rules": "Rule: ", "groups": "Group: ", "slab": "Slab: ", "sizes": "Interval "}
KINDS["features"] = "Bin: "
#: Metric -> what it is called; coverage is in points of a hundred, as on the rest of the page.
METRIC_NAMES = {"interval_score": "interval score", "length": "length"}
METRIC_NAMES["coverage"] = "coverage, in points"
#: Features, and parts of one; methods; weights.
_MAX_OPTIONS, _MAX_PARTS, MAX_METHODS, _MAX_WEIGHTS = 60, 40, 60, 10
#: Rows in the charts of errors, of intervals and of predictions; bars; levels.
_MAX_POINTS, _MAX_INTERVALS, _MAX_PREDICTED, _MAX_BARS, _MAX_LEVELS = 1_500, 120, 200, 40, 200
#: Axes end at this quantile; the few rows beyond stand at the edge, and are counted.
_EDGE = 0.995
_READING = (
    "All rows, and the part of each kind that covers worst. The mark is the coverage, the bar its "
    "exact 95 % band; in colour where it is off by more than chance, for all that was looked at."
)


def short(text: Any, width: int = _WIDE) -> str:
    """Text from data on one line, and not endless."""
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
    """The same of a rule or a cell, for the number of parts looked at."""
    return _state(region.gap, region.adjusted_p_value)


def _overall_state(summary: Summary) -> str:
    """The same of all rows, for which the draw of the calibration rows is chance too."""
    level = summary.confidence_level
    is_chance = summary.is_explained or summary.lower <= level <= summary.upper
    return _state(summary.coverage - level, float(is_chance))


def _chart(kind: str, title: str, lead: str, columns: Any, **more: Any) -> dict[str, Any]:
    """A chart of columns, or of one of several (label, columns) to choose from."""
    several = columns if isinstance(columns, list) else [("", columns)]
    options = [{"label": label, "columns": one} for label, one in several]
    return {"kind": kind, "title": title, "lead": lead, "options": options, **more}


def _forest(title: str, lead: str, level: float, columns: Any, **more: Any) -> dict[str, Any]:
    return _chart("forest", title, lead, columns, **{"reference": level, "share": True, **more})


def _columns(rows: Iterable[tuple[str, Any, str]], value: str = "coverage") -> dict[str, Any]:
    """Of (label, what has this value with a band, state)."""
    labels, told, states = map(list, zip(*rows, strict=True))
    columns = {"label": [short(label, NARROW) for label in labels], "rows": [r.n for r in told]}
    for name, field in (("value", value), ("lower", "lower"), ("upper", "upper")):
        columns[name] = [getattr(r, field) for r in told]
    return {**columns, "state": states}


def _cell_columns(cells: Iterable[Cell]) -> dict[str, Any]:
    return _columns((cell.label, cell, region_state(cell)) for cell in cells)


def all_charts(
    audit: Audit,
    rows: tuple[Array, Array] | None,
    y_pred: ArrayLike | None,
    curve: CoverageLengthCurve | None,
    comparison: Comparison | None,
    seed: int,
) -> dict[str, Any]:
    """Name -> chart, those that can be drawn; rows are (y, bounds)."""
    charts = {"glance": _glance_chart(audit), **_part_charts(audit), **_slab_chart(audit)}
    if rows is not None:
        charts |= _row_charts(*rows, seed)
    if rows is not None and y_pred is not None:
        charts["predictions"] = _predictions_chart(*rows, np.asarray(y_pred), seed)
    if curve is not None:
        charts["curve"] = _curve_chart(curve)
    return charts if comparison is None else charts | _comparison_charts(comparison)


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
        lead += f" The box around all rows is what {say_calibration(summary)} explains."
        more["expected"] = [summary.expected_lower, summary.expected_upper]
    return _forest("At a glance", lead, level, _columns(rows), **more)


def _part_charts(audit: Audit) -> dict[str, Any]:
    level, charts = audit.summary.confidence_level, {}
    if cells := audit.groups:
        lead = "Is every group covered alike?"
        charts["groups"] = _forest("Coverage by group", lead, level, **_choice("Groups", cells))
    if cells := audit.features:
        lead = "Is coverage the same all along a feature? Those that are off most come first."
        choice = _choice("Feature", cells)
        charts["features"] = _forest("Coverage by feature", lead, level, **choice)
    if cells := audit.sizes:
        lead = "From the shortest to the longest: are long and short intervals covered alike?"
        charts["sizes"] = _forest("Coverage by length", lead, level, _cell_columns(cells))
    return charts


def _choice(name: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """What the rows are parted by, the most significant first, each with its parts in order."""
    by: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda one: one.p_value):
        by.setdefault(cell.by, []).append(cell)
    options, notes = [], []
    for label, parts in list(by.items())[:_MAX_OPTIONS]:
        shown = sorted(parts[:_MAX_PARTS], key=lambda cell: cell.position)
        options.append((short(label, NARROW), _cell_columns(shown)))
    if len(by) > _MAX_OPTIONS:
        notes.append(f"The {_MAX_OPTIONS} of {len(by):,} that are off most can be chosen.")
    if any(len(parts) > _MAX_PARTS for parts in by.values()):
        notes.append(f"Of more than {_MAX_PARTS} parts, those that are off most are shown.")
    return {"columns": options, "choose": name, "note": " ".join(notes)}


def _slab_chart(audit: Audit) -> dict[str, Any]:
    """The weights of its direction, where there are several."""
    weights = zip(audit.slab.columns, audit.slab.direction, strict=True)
    used = sorted(((n, w) for n, w in weights if w != 0), key=lambda one: -abs(one[1]))
    if len(used) < 2:
        return {}
    names, largest = zip(*used[:_MAX_WEIGHTS], strict=True)
    columns = {"label": [short(name, NARROW) for name in names], "weight": largest}
    note = f"The {_MAX_WEIGHTS} largest of {len(used):,}." if len(used) > _MAX_WEIGHTS else ""
    lead = "Of the features in units of their standard deviation."
    return {"slab": _chart("bars", "Weights of its direction", lead, columns, note=note)}


def _comparison_charts(comparison: Comparison) -> dict[str, Any]:
    shown = comparison.methods[:MAX_METHODS]
    columns = _columns((m.name, m.summary, _overall_state(m.summary)) for m in shown)
    band, each = "On the same rows, with the exact 95 % band", "row by row"
    if comparison.splits:
        band, each = "The mean over splits, with its 95 % interval", "split by split"
    lead, level = f"{band}; the dashed line is the target.", shown[0].summary.confidence_level
    charts = {"methods": _forest("Coverage of each method", lead, level, columns)}
    if not (paired := paired_in_points(comparison)):
        return charts
    apart = [_WITHIN if one.lower <= 0 <= one.upper else "apart" for one in paired]
    told = [(one.method, one, state) for one, state in zip(paired, apart, strict=True)]
    options = []
    for metric, name in METRIC_NAMES.items():
        rows = [row for row in told if row[1].metric == metric]
        options.append((name, _columns(rows[:MAX_METHODS], "difference")))
    lead = (
        f"Each method less {short(paired[0].reference)}, {each}, with the 95 % confidence "
        "interval of the mean difference; lower scores and lengths are better."
    )
    more: dict[str, Any] = {"choose": "Metric", "share": False, "note": ""}
    charts["differences"] = _forest("Differences between methods", lead, 0.0, options, **more)
    return charts


def paired_in_points(comparison: Comparison) -> list[Difference]:
    """Differences from the best method, those of coverage in points."""
    found, fields = list(comparison.paired()), ("difference", "error", "lower", "upper")
    for i, row in enumerate(found):
        if row.metric == "coverage":
            found[i] = replace(row, **{field: 100 * getattr(row, field) for field in fields})
    return found


def _curve_chart(curve: CoverageLengthCurve) -> dict[str, Any]:
    n = len(curve.confidence_level)
    kept = np.unique(np.linspace(0, n - 1, min(n, _MAX_LEVELS)).astype(int))
    names = ("confidence_level", "coverage", "lower", "upper", "mean_length")
    columns = {name: getattr(curve, name)[kept] for name in names}
    lead = "Coverage observed at each confidence level, with its 95 % band; on the dashed line "
    lead += "they are equal."
    note = f"{len(kept)} of {n:,} levels." if len(kept) < n else ""
    title = "Does the coverage match the level asked for?"
    return _chart("curve", title, lead, columns, note=note)


def _row_charts(y: Array, bounds: Array, seed: int) -> dict[str, Any]:
    """Length distribution, length against error and sorted intervals, those that can be drawn."""
    covered, length = is_covered(y, bounds), tied_lengths(bounds)
    finite = np.flatnonzero(np.isfinite(bounds).all(axis=1) & np.isfinite(length))
    charts = {"intervals": _sorted_intervals(y, bounds, covered, length, seed)}
    left_out = _say_if_any("Infinite, and left out", len(y) - len(finite))
    if len(finite) and np.ptp(length[finite]) > 0:
        charts["lengths"] = _length_histogram(length[finite], covered[finite], len(y), left_out)
    if not len(finite):
        return charts
    rows = finite[drawn_rows(len(finite), _MAX_POINTS, seed)]
    columns = {"length": length[rows], "error": np.abs(y[rows] - bounds[rows].mean(axis=1))}
    ends = {name: float(np.quantile(values, _EDGE)) for name, values in columns.items()}
    outside = np.any([values > ends[name] for name, values in columns.items()], axis=0)
    beyond = _say_if_any("Beyond the axes, at their edge", int(outside.sum()))
    charts["errors"] = _chart(
        "scatter",
        "Are intervals longer where errors are larger?",
        "Each row by the length of its interval and the distance of y from its centre. Rows above "
        "the line, where the error is half the length, are missed.",
        {**columns, "covered": covered[rows]},
        note=f"{_say_drawn(len(rows), len(y), seed)}{beyond}{left_out}",
        ends=list(ends.values()),
    )
    return charts


def _length_histogram(
    length: Array, covered: NDArray[np.bool_], n: int, left_out: str
) -> dict[str, Any]:
    top = float(np.quantile(length, _EDGE))
    # Where nearly all are of one length, that quantile is the shortest too.
    top = top if top > length.min() else float(length.max())
    edges = np.linspace(length.min(), top, _MAX_BARS + 1)
    inside, columns = np.minimum(length, top), {"from": edges[:-1], "to": edges[1:]}
    for name, rows in (("covered", covered), ("missed", ~covered)):
        columns[name] = np.histogram(inside[rows], edges)[0]
    lead = "Rows by the length of their interval; in colour those that it misses."
    n_longer = int(np.sum(length > top))
    longer = _say_if_any(f"Longer than {say_number(top)}, in the last bar", n_longer)
    note = f"All {say_rows(n)}.{longer}{left_out}"
    return _chart("histogram", "How long the intervals are", lead, columns, note=note)


def _sorted_intervals(
    y: Array, bounds: Array, covered: NDArray[np.bool_], length: Array, seed: int
) -> dict[str, Any]:
    """A sample of intervals, the shortest first; as they came where they are of one length."""
    rows = drawn_rows(len(y), _MAX_INTERVALS, seed)
    rows = rows[np.argsort(length[rows], kind="stable")]
    lower, upper = bounds[rows].T
    with np.errstate(invalid="ignore"):
        centre = lower / 2 + upper / 2
    endless = ~np.isfinite(centre)
    around = _say_if_any("Infinite, so drawn around y", int(endless.sum()))
    centre = np.where(endless, y[rows], centre)
    away = np.abs(np.concatenate([lower, upper, y[rows]]) - np.tile(centre, 3))
    tied = np.isfinite(length[0]) and bool((length == length[0]).all())
    columns = {"row": rows, "lower": lower, "upper": upper, "y": y[rows], "centre": centre}
    return _chart(
        "intervals",
        "Intervals, all of one length" if tied else "Intervals, the shortest first",
        "Each line is the interval of one row, drawn around its centre; each dot is its y.",
        {**columns, "covered": covered[rows]},
        note=f"{_say_drawn(len(rows), len(y), seed)}{around}",
        end=float(np.quantile(away[np.isfinite(away)], _EDGE)),
        order=f"rows, {'as they came' if tied else 'the shortest interval first'}",
    )


def _predictions_chart(y: Array, bounds: Array, y_pred: Array, seed: int) -> dict[str, Any]:
    rows, n = drawn_rows(len(y), _MAX_PREDICTED, seed), len(y)
    y, y_pred, bounds = y[rows], y_pred[rows], bounds[rows]
    finite = bounds[np.isfinite(bounds)]
    # The axis leaves out a few bounds at either end, but no prediction and no y.
    reach = np.quantile(finite, [1.0 - _EDGE, _EDGE]) if len(finite) else finite
    seen = np.concatenate([y, y_pred, reach])
    columns: dict[str, Any] = {"row": rows, "predicted": y_pred, "observed": y}
    columns |= {"lower": bounds[:, 0], "upper": bounds[:, 1], "covered": is_covered(y, bounds)}
    lead = "Each line is the interval of one row, at its prediction; each dot is its y. On the "
    lead += "dashed line they are equal."
    ends = {"across": [y_pred.min(), y_pred.max()], "ends": [seen.min(), seen.max()]}
    note = _say_drawn(len(rows), n, seed)
    return _chart("predictions", "Predicted and observed", lead, columns, note=note, **ends)


def _say_drawn(drawn: int, n: int, seed: int) -> str:
    if drawn == n:
        return f"All {say_rows(n)}."
    return f"{drawn:,} of {say_rows(n)}, drawn at random with seed {seed}."


def _say_if_any(what: str, n: int) -> str:
    """A further sentence of a note, where there are such rows."""
    return f" {what}: {say_rows(n)}." if n else ""
