"""Every interval in a line, sorted; and length against error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.audit import check_one_level
from localconformal.metrics import coverage
from localconformal.metrics.conditional import check_prediction, length_error_corr
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.groups import size_bins
from localconformal.metrics.size import tied_lengths
from localconformal.plots._axes import (
    IDEAL,
    INK,
    MAIN,
    MAX_POINTS,
    MISS,
    POINT,
    SECOND,
    caption,
    check_packages,
    drawable,
    drawn_rows,
    extent,
    finish,
    make_axes,
    say_drawn,
    say_odd,
)
from localconformal.quantiles import Array, weighted_quantile
from localconformal.text import say_level, say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTH, PREDICTION = "length", "prediction"
ROW, MEAN, QUANTILE = "row", "mean", "quantile"
MAX_BINS, FEWEST_ROWS = 10, 20


def plot_sorted(
    y: ArrayLike,
    intervals: ArrayLike,
    *,
    by: str = "length",
    y_pred: ArrayLike | None = None,
    max_points: int = 400,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw each row's interval as a line and its y as a point, rows sorted, missed rows marked.

    Sorted by length, intervals and y are drawn relative to the prediction: the fan shows how far
    lengths differ; intervals of one length, up to rounding, stand as they were given. Sorted by
    prediction they are drawn as they are.

    Parameters
    ----------
    y : array of shape (n,)
    intervals : array of shape (n, 2)
    by : "length" or "prediction", default="length"
    y_pred : array of shape (n,), default=None
        Point predictions; None is the centre of each interval. An infinite interval has no
        centre: its row then stands at y.
    max_points, random_state : int
        Rows drawn, at random with this seed if there are more.
    ax : matplotlib axes, default=None

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        One row for each row drawn, in their order: row (its place in y), y, prediction, lower,
        upper, length, covered.

    Examples
    --------
    >>> ax, frame = plot_sorted([0.5, 3.0, 1.0], [[0, 3], [0, 2], [0, 1]])
    >>> frame["row"].tolist(), frame["covered"].tolist()
    ([2, 1, 0], [True, False, True])
    """
    check_packages("plot_sorted")
    response, bounds = check_one_level(y, intervals)
    if by not in (LENGTH, PREDICTION):
        raise ValueError(f"by is {by!r}; 'length' or 'prediction' was expected.")
    import pandas as pd

    rows, length = drawn_rows(len(response), max_points, random_state), tied_lengths(bounds)
    columns = {
        "row": rows,
        "y": response[rows],
        "prediction": _centres(response, bounds, y_pred)[rows],
        "lower": bounds[rows, 0],
        "upper": bounds[rows, 1],
        "length": length[rows],
        "covered": is_covered(response[rows], bounds[rows]),
    }
    frame = pd.DataFrame(columns).sort_values(by, kind="stable", ignore_index=True)
    ax = make_axes(ax)
    _draw_sorted(ax, frame, by)
    said = [
        f"{say_share(float(coverage(response, bounds)))} of {len(response):,} rows are covered."
    ]
    said.append(say_drawn(len(rows), len(response)))
    if by == LENGTH and len(length) > 1 and np.isfinite(length[0]) and len(set(length)) == 1:
        said.append("All intervals are of one length: rows stand as given.")
    centred = by != LENGTH or y_pred is not None
    where = "" if centred else " and seen from y, for want of a centre"
    caption(ax, [*said, say_odd(bounds, f"drawn to the edge{where}")])
    return ax, frame


def _centres(y: Array, bounds: Array, y_pred: ArrayLike | None) -> Array:
    """Predictions (n,): those given, else the centres of the intervals, else y."""
    if y_pred is not None:
        return check_prediction(y_pred, len(y))
    finite = np.isfinite(bounds).all(axis=1)
    centre = y.copy()
    centre[finite] = bounds[finite].mean(axis=1)
    return centre


def _draw_sorted(ax: Axes, frame: Any, by: str) -> None:
    """Intervals as lines, y as points."""
    base = frame["prediction"].to_numpy() if by == LENGTH else np.zeros(len(frame))
    y = frame["y"].to_numpy() - base
    bounds = frame[["lower", "upper"]].to_numpy() - base[:, None]
    low, high = extent(y, bounds)
    cut, rank = drawable(bounds, low, high), np.arange(1, len(frame) + 1)
    covered = frame["covered"].to_numpy()
    width = float(np.clip(350.0 / len(frame), 0.5, 3.0))
    for chosen, line, point, size, marker, label in (
        (covered, MAIN, INK, 6, "o", "y, covered"),
        (~covered, MISS, MISS, 26, "X", "y, missed"),
    ):
        if chosen.any():
            ax.vlines(rank[chosen], *cut[chosen].T, color=line, lw=width, alpha=0.45)
            look: dict[str, Any] = {"color": point, "s": size, "marker": marker, "label": label}
            ax.scatter(rank[chosen], y[chosen], lw=0, zorder=3, **look)
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, len(frame) + 1.0)
    ax.locator_params(axis="x", integer=True)
    upwards = "y - prediction" if by == LENGTH else "y"
    above: dict[str, Any] = {"ncols": 2, "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.0}
    finish(ax, f"rows, sorted by {by}", upwards, loc="lower left", **above)


def plot_length_error(
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float = 0.9,
    *,
    y_pred: ArrayLike | None = None,
    max_points: int = MAX_POINTS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw |y - prediction| against length, with its mean and quantile in bins of the length.

    Intervals that adapt well have a quantile curve, at the confidence level, on the line
    error = length / 2; rows above that line are missed, where intervals are symmetric around
    the prediction. Infinite intervals are left out, as in
    `localconformal.metrics.length_error_corr`.

    Parameters
    ----------
    y : array of shape (n,)
    intervals : array of shape (n, 2)
    confidence_level : float, default=0.9
        Of the intervals, and of the quantile of the errors.
    y_pred : array of shape (n,), default=None
        Point predictions; None is the centre of each interval.
    max_points, random_state : int
        Rows drawn, at random with this seed if there are more; the curves are those of all rows.
    ax : matplotlib axes, default=None

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        kind ("row", or "mean" and "quantile" of a bin), length (the mean of the bin), error, n
        (rows), coverage (0 or 1 of a row).

    Examples
    --------
    >>> intervals = [[-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0]]
    >>> ax, frame = plot_length_error([0.5, -1.0, 1.5], intervals)
    >>> frame.loc[frame["kind"] == "row", "error"].tolist()
    [0.5, 1.0, 1.5]
    """
    check_packages("plot_length_error")
    response, bounds = check_one_level(y, intervals)
    finite = np.isfinite(bounds).all(axis=1)
    error = np.abs(response - _centres(response, bounds, y_pred))[finite]
    length, covered = tied_lengths(bounds)[finite], is_covered(response, bounds)[finite]
    rows = drawn_rows(len(error), max_points, random_state)
    frame = _error_frame(length, error, covered, rows, confidence_level)
    ax = make_axes(ax)
    _draw_errors(ax, frame, confidence_level)
    found = float(length_error_corr(response, bounds, y_pred))
    said = "undefined" if np.isnan(found) else f"{found:.2f}"
    odd = say_odd(bounds, infinite="and left out").replace("and not drawn", "of length 0")
    caption(
        ax, [f"Correlation of length and error: {said}.", say_drawn(len(rows), len(error)), odd]
    )
    return ax, frame


def _error_frame(
    length: Array, error: Array, covered: NDArray[np.bool_], rows: Any, level: float
) -> Any:
    """Rows that are drawn, then mean and quantile of the errors in bins of all rows."""
    import pandas as pd

    n_bins = int(np.clip(len(length) // FEWEST_ROWS, 1, MAX_BINS))
    # No bins where every interval is infinite.
    bins = size_bins(length, n_bins) if len(length) else np.full(1, -1)
    records = []
    for code in range(bins.max() + 1):
        inside = bins == code
        errors, n = error[inside], int(inside.sum())
        quantile = float(weighted_quantile(errors, np.ones(n), level))
        for kind, value in ((MEAN, errors.mean()), (QUANTILE, quantile)):
            records.append((kind, length[inside].mean(), value, n, covered[inside].mean()))
    drawn = {"length": length[rows], "error": error[rows], "n": 1, "coverage": covered[rows] + 0.0}
    binned = pd.DataFrame(records, columns=["kind", *drawn]).sort_values("kind", kind="stable")
    parts = [pd.DataFrame({"kind": ROW, **drawn}), binned]
    return pd.concat(parts[: 1 + bool(records)], ignore_index=True)


def _draw_errors(ax: Axes, frame: Any, level: float) -> None:
    """Points, curves, and the line that parts covered rows from missed ones."""
    rows = frame[frame["kind"] == ROW]
    for inside, colour, size, marker, label in (
        (1.0, POINT, 6, "o", None),
        (0.0, MISS, 12, "X", "missed"),
    ):
        part = rows[rows["coverage"] == inside]
        if len(part):
            look: dict[str, Any] = {"color": colour, "s": size, "marker": marker, "label": label}
            ax.scatter(part["length"], part["error"], alpha=0.5, lw=0, **look)
    curves = (
        (MEAN, MAIN, "o", "mean error"),
        (QUANTILE, SECOND, "s", f"{say_level(level)} quantile"),
    )
    for kind, colour, marker, label in curves:
        bins = frame[frame["kind"] == kind]
        if len(bins):
            ax.plot(bins["length"], bins["error"], color=colour, marker=marker, ms=4.5, label=label)
    shortest, longest = (float(getattr(frame["length"], end)()) for end in ("min", "max"))
    if len(frame) == 0:
        shortest, longest = 0.0, 0.0
    longest = longest or 1.0
    room = 0.04 * (longest - shortest) or 0.1 * longest
    ends = np.array([max(shortest - room, 0.0), longest + room])
    ax.plot(ends, ends / 2.0, color=INK, lw=1.0, ls=IDEAL, label="length / 2")
    ax.set_xlim(*ends)
    ax.set_ylim(bottom=0.0)
    finish(ax, "length", "error, |y - prediction|", loc="upper left")
