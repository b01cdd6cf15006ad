"""Charts of the rows themselves: lengths, errors, and a sample of intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit import Audit
from localconformal.audit.inputs import check_one_level
from localconformal.metrics import CoverageLengthCurve
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.quantiles import Array
from localconformal.report.plain import say_rows_that
from localconformal.text import say_number, say_rows, say_share

MAX_POINTS, MAX_INTERVALS, MAX_BARS, MAX_LEVELS = 1_500, 120, 40, 200
#: Axes end here; the few rows beyond stand at the edge, and are counted.
EDGE = 0.995


def check_rows(audit: Audit, y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y (n,) and bounds (n, 2), those that were audited."""
    y_checked, bounds = check_one_level(y, intervals)
    n, share = len(y_checked), float(is_covered(y_checked, bounds).mean())
    if n != audit.summary.n or not np.isclose(share, audit.summary.coverage):
        raise ValueError(
            f"y and intervals have {say_rows(n)}, {say_share(share)} of them covered; the audit's "
            f"{say_rows(audit.summary.n)}, {say_share(audit.summary.coverage)} of them covered, "
            "were expected: pass what was audited."
        )
    return y_checked, bounds


def row_charts(y: Array, bounds: Array, seed: int) -> dict[str, Any]:
    """Length distribution, length against error and sorted intervals, those that can be drawn."""
    covered, length = is_covered(y, bounds), tied_lengths(bounds)
    finite = np.flatnonzero(np.isfinite(bounds).all(axis=1) & np.isfinite(length))
    charts = {"intervals": sorted_intervals(y, bounds, covered, length, seed)}
    if len(finite) and np.ptp(length[finite]) > 0:
        charts["lengths"] = length_histogram(length, covered, finite)
    if len(finite):
        charts["errors"] = error_scatter(y, bounds, covered, length, finite, seed)
    return charts


def one_option(kind: str, title: str, lead: str, note: str, columns: Any) -> dict[str, Any]:
    """A chart of one set of columns."""
    options = [{"label": "", "columns": columns}]
    return {"kind": kind, "title": title, "lead": lead, "note": note, "options": options}


def draw(rows: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """At most so many of the rows, drawn with a seed, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def say_drawn(drawn: int, n: int, seed: int) -> str:
    """What part of the rows a chart shows."""
    if drawn == n:
        return f"All {say_rows(n)}."
    return f"{drawn:,} of {say_rows(n)}, drawn at random with seed {seed}."


def say_left_out(n: int) -> str:
    """Of rows that have no place on a chart of lengths."""
    said = ("with an infinite bound is left out", "with infinite bounds are left out")
    return say_rows_that(n, *said) if n else ""


def length_histogram(
    length: Array, covered: NDArray[np.bool_], finite: NDArray[np.intp]
) -> dict[str, Any]:
    """How many intervals are how long, covered and missed."""
    known = length[finite]
    top = float(np.quantile(known, EDGE))
    # Where nearly all are of one length, that quantile is the shortest too.
    top = top if top > known.min() else float(known.max())
    edges = np.linspace(known.min(), top, MAX_BARS + 1)
    inside = np.minimum(known, top)
    hit = covered[finite]
    notes = [f"All {say_rows(len(length))}."]
    if beyond := int(np.sum(known > top)):
        verb = "is" if beyond == 1 else "are"
        notes.append(f"{say_rows(beyond)} longer than {say_number(top)} {verb} in the last bar.")
    notes.append(say_left_out(len(length) - len(known)))
    return one_option(
        "histogram",
        "How long the intervals are",
        "Rows by the length of their interval; in colour those that it misses.",
        " ".join(filter(None, notes)),
        {
            "from": edges[:-1],
            "to": edges[1:],
            "covered": np.histogram(inside[hit], edges)[0],
            "missed": np.histogram(inside[~hit], edges)[0],
        },
    )


def error_scatter(
    y: Array,
    bounds: Array,
    covered: NDArray[np.bool_],
    length: Array,
    finite: NDArray[np.intp],
    seed: int,
) -> dict[str, Any]:
    """Distance of y from the centre against length: above the line, a row is missed."""
    rows = draw(finite, MAX_POINTS, seed)
    length = length[rows]
    error = np.abs(y[rows] - bounds[rows].mean(axis=1))
    ends = [float(np.quantile(values, EDGE)) for values in (length, error)]
    beyond = int(np.sum((length > ends[0]) | (error > ends[1])))
    notes = [say_drawn(len(rows), len(y), seed)]
    if beyond:
        stands = ("beyond the axes stands at their edge", "beyond the axes stand at their edge")
        notes.append(say_rows_that(beyond, *stands))
    notes.append(say_left_out(len(y) - len(finite)))
    chart = one_option(
        "scatter",
        "Are intervals longer where errors are larger?",
        "Each row by the length of its interval and the distance of y from its centre. Rows above "
        "the line, where the error is half the length, are missed.",
        " ".join(filter(None, notes)),
        {"length": length, "error": error, "covered": covered[rows]},
    )
    return {**chart, "ends": ends}


def sorted_intervals(
    y: Array, bounds: Array, covered: NDArray[np.bool_], length: Array, seed: int
) -> dict[str, Any]:
    """A sample of intervals, the shortest first; as they came where they are of one length."""
    rows = draw(np.arange(len(y)), MAX_INTERVALS, seed)
    rows = rows[np.argsort(length[rows], kind="stable")]
    lower, upper = bounds[rows].T
    with np.errstate(invalid="ignore"):
        centre = lower / 2 + upper / 2
    endless = int(np.sum(~np.isfinite(centre)))
    centre = np.where(np.isfinite(centre), centre, y[rows])
    away = np.abs(np.concatenate([lower, upper, y[rows]]) - np.tile(centre, 3))
    known = away[np.isfinite(away)]
    tied = np.isfinite(length[0]) and bool((length == length[0]).all())
    notes = [say_drawn(len(rows), len(y), seed)]
    if endless:
        none = "with an infinite bound has no centre, and is seen from y"
        several = "with infinite bounds have no centre, and are seen from y"
        notes.append(say_rows_that(endless, none, several))
    chart = one_option(
        "intervals",
        "Intervals, all of one length" if tied else "Intervals, the shortest first",
        "Each line is the interval of one row, seen from its centre; each dot is its y.",
        " ".join(notes),
        {
            "row": rows,
            "lower": lower,
            "upper": upper,
            "y": y[rows],
            "centre": centre,
            "covered": covered[rows],
        },
    )
    order = "as they came" if tied else "the shortest interval first"
    return {**chart, "end": float(np.quantile(known, EDGE)), "order": f"rows, {order}"}


def curve_chart(curve: CoverageLengthCurve) -> dict[str, Any]:
    """Coverage over levels."""
    n = len(curve.confidence_level)
    kept = np.unique(np.linspace(0, n - 1, min(n, MAX_LEVELS)).astype(int))
    names = ("confidence_level", "coverage", "lower", "upper", "mean_length")
    return one_option(
        "curve",
        "Is what is asked for what is got?",
        "Coverage observed at each confidence level, with its 95 % band; on the dashed line they "
        "are equal.",
        f"{len(kept)} of {n:,} levels." if len(kept) < n else "",
        {name: getattr(curve, name)[kept] for name in names},
    )
