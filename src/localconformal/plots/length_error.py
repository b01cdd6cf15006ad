"""Length against error: are intervals longer where the model errs more?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics.correlation import length_error_corr
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.metrics.stratified import size_bins
from localconformal.plots.canvas import (
    add_legend,
    caption,
    make_axes,
    name_axes,
    say_odd,
)
from localconformal.plots.extra import needs
from localconformal.plots.rows import MAX_POINTS, drawn_rows, one_level, say_drawn
from localconformal.plots.sorted_intervals import centres
from localconformal.plots.style import IDEAL, INK, MAIN, MISS, POINT, SECOND, clean
from localconformal.quantiles import Array, weighted_quantile
from localconformal.text import say_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROW, MEAN, QUANTILE = "row", "mean", "quantile"
MAX_BINS, FEWEST_ROWS = 10, 20


@needs("matplotlib", "pandas")
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
