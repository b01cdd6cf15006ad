"""Every interval in a line, sorted; and length against error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics import coverage
from localconformal.metrics.correlation import check_prediction, length_error_corr
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.metrics.stratified import size_bins
from localconformal.plots._axes import (
    IDEAL,
    INK,
    MAIN,
    MAX_POINTS,
    MISS,
    POINT,
    SECOND,
    add_legend,
    caption,
    check_packages,
    clean,
    drawable,
    drawn_rows,
    extent,
    make_axes,
    name_axes,
    one_level,
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
    max_points : int, default=400
        Rows drawn, at random if there are more.
    random_state : int, default=0
        Seed of that draw.
    ax : matplotlib axes, default=None
        None makes a figure.

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
    response, bounds = one_level(y, intervals)
    if by not in (LENGTH, PREDICTION):
        raise ValueError(f"by is {by!r}; 'length' or 'prediction' was expected.")
    rows = drawn_rows(len(response), max_points, random_state)
    frame = sorted_frame(response, bounds, centres(response, bounds, y_pred), rows, by)
    ax = make_axes(ax)
    draw_sorted(ax, frame, by)
    covered = say_share(float(coverage(response, bounds)))
    told = f"{covered} of {len(response):,} rows are covered."
    caption(ax, [told, say_drawn(len(rows), len(response)), *say_order(bounds, by, y_pred)])
    return ax, frame


def say_order(bounds: Array, by: str, y_pred: ArrayLike | None) -> list[str]:
    """What the order and the centre hide: lengths that are all one, intervals without a centre."""
    length = tied_lengths(bounds)
    tied = by == LENGTH and len(length) > 1 and np.isfinite(length[0]) and len(set(length)) == 1
    infinite = "drawn to the edge"
    if by == LENGTH and y_pred is None:
        infinite += " and seen from y, for want of a centre"
    return [
        "All intervals are of one length: rows stand as given." if tied else "",
        say_odd(bounds, infinite),
    ]


def centres(y: Array, bounds: Array, y_pred: ArrayLike | None) -> Array:
    """Predictions (n,): those given, else the centres of the intervals, else y."""
    if y_pred is not None:
        return check_prediction(y_pred, len(y))
    finite = np.isfinite(bounds).all(axis=1)
    centre = y.copy()
    centre[finite] = bounds[finite].mean(axis=1)
    return centre


def sorted_frame(y: Array, bounds: Array, prediction: Array, rows: Any, by: str) -> Any:
    """The frame of these rows, sorted."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "row": rows,
            "y": y[rows],
            "prediction": prediction[rows],
            "lower": bounds[rows, 0],
            "upper": bounds[rows, 1],
            "length": tied_lengths(bounds)[rows],
            "covered": is_covered(y[rows], bounds[rows]),
        }
    )
    return frame.sort_values(by, kind="stable", ignore_index=True)


def draw_sorted(ax: Axes, frame: Any, by: str) -> None:
    """Intervals as lines, y as points."""
    base = frame["prediction"].to_numpy() if by == LENGTH else np.zeros(len(frame))
    y = frame["y"].to_numpy() - base
    bounds = frame[["lower", "upper"]].to_numpy() - base[:, None]
    low, high = extent(y, bounds)
    cut, rank = drawable(bounds, low, high), np.arange(1, len(frame) + 1)
    covered = frame["covered"].to_numpy()
    width = float(np.clip(350.0 / len(frame), 0.5, 3.0))
    for inside, colour, label in ((covered, MAIN, "covered"), (~covered, MISS, "missed")):
        if inside.any():
            ax.vlines(rank[inside], *cut[inside].T, color=colour, lw=width, alpha=0.45)
            marker, size = ("o", 6) if label == "covered" else ("X", 26)
            shown = INK if label == "covered" else MISS
            ax.scatter(
                rank[inside], y[inside], s=size, marker=marker, color=shown, lw=0, zorder=3,
                label=f"y, {label}",
            )  # fmt: skip
    ax.set_ylim(low, high)
    ax.set_xlim(0.0, len(frame) + 1.0)
    ax.locator_params(axis="x", integer=True)
    clean(ax)
    name_axes(ax, f"rows, sorted by {by}", "y - prediction" if by == LENGTH else "y")
    add_legend(ax, loc="lower left", ncols=2, bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)


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
    max_points : int, default=5000
        Rows drawn, at random if there are more; the curves are those of all rows.
    random_state : int, default=0
        Seed of that draw.
    ax : matplotlib axes, default=None
        None makes a figure.

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
    response, bounds = one_level(y, intervals)
    finite = np.isfinite(bounds).all(axis=1)
    error = np.abs(response - centres(response, bounds, y_pred))[finite]
    length, covered = tied_lengths(bounds)[finite], is_covered(response, bounds)[finite]
    rows = drawn_rows(len(error), max_points, random_state)
    frame = error_frame(length, error, covered, rows, confidence_level)
    ax = make_axes(ax)
    draw_errors(ax, frame, confidence_level)
    found = float(length_error_corr(response, bounds, y_pred))
    said = "undefined" if np.isnan(found) else f"{found:.2f}"
    odd = say_odd(bounds, infinite="and left out").replace("and not drawn", "of length 0")
    caption(
        ax, [f"Correlation of length and error: {said}.", say_drawn(len(rows), len(error)), odd]
    )
    return ax, frame


def error_frame(
    length: Array, error: Array, covered: NDArray[np.bool_], rows: Any, level: float
) -> Any:
    """Rows that are drawn, then the bins of all rows; empty where every interval is infinite."""
    import pandas as pd

    drawn = {
        "kind": ROW,
        "length": length[rows],
        "error": error[rows],
        "n": 1,
        "coverage": covered[rows].astype(np.float64),
    }
    parts = [pd.DataFrame(drawn)]
    if len(length):
        n_bins = int(np.clip(len(length) // FEWEST_ROWS, 1, MAX_BINS))
        parts.append(binned_errors(length, error, covered, size_bins(length, n_bins), level))
    return pd.concat(parts, ignore_index=True)


def binned_errors(
    length: Array, error: Array, covered: NDArray[np.bool_], bins: Any, level: float
) -> Any:
    """Mean and quantile of the errors in each bin."""
    import pandas as pd

    records = []
    for code in range(bins.max() + 1):
        rows = bins == code
        errors, n = error[rows], int(rows.sum())
        quantile = float(weighted_quantile(errors, np.ones(n), level))
        for kind, value in ((MEAN, errors.mean()), (QUANTILE, quantile)):
            records.append((kind, length[rows].mean(), value, n, covered[rows].mean()))
    frame = pd.DataFrame(records, columns=["kind", "length", "error", "n", "coverage"])
    return frame.sort_values("kind", kind="stable")


def draw_errors(ax: Axes, frame: Any, level: float) -> None:
    """Points, curves, and the line that parts covered rows from missed ones."""
    rows = frame[frame["kind"] == ROW]
    for inside, colour, size, label in ((1.0, POINT, 6, None), (0.0, MISS, 12, "missed")):
        part = rows[rows["coverage"] == inside]
        if len(part):
            ax.scatter(
                part["length"], part["error"], s=size, color=colour, alpha=0.5, lw=0, label=label,
                marker="o" if inside else "X",
            )  # fmt: skip
    curves = (
        (MEAN, MAIN, "o", "mean error"),
        (QUANTILE, SECOND, "s", f"{say_level(level)} quantile"),
    )
    for kind, colour, marker, label in curves:
        bins = frame[frame["kind"] == kind]
        if len(bins):
            ax.plot(bins["length"], bins["error"], color=colour, marker=marker, ms=4.5, label=label)
    longest = float(frame["length"].max()) if len(frame) else 0.0
    longest, shortest = longest or 1.0, float(frame["length"].min()) if len(frame) else 0.0
    room = 0.04 * (longest - shortest) or 0.1 * longest
    ends = np.array([max(shortest - room, 0.0), longest + room])
    ax.plot(ends, ends / 2.0, color=INK, lw=1.0, ls=IDEAL, label="length / 2")
    ax.set_xlim(*ends)
    ax.set_ylim(bottom=0.0)
    clean(ax)
    name_axes(ax, "length", "error, |y - prediction|")
    add_legend(ax, loc="upper left")
