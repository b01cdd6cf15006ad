"""Every interval in a line, sorted: how lengths differ, and which rows are missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics import coverage
from localconformal.metrics.correlation import check_prediction
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.plots.canvas import (
    add_legend,
    caption,
    drawable,
    extent,
    make_axes,
    name_axes,
    say_odd,
)
from localconformal.plots.extra import needs
from localconformal.plots.rows import drawn_rows, one_level, say_drawn
from localconformal.plots.style import INK, MAIN, MISS, clean
from localconformal.quantiles import Array
from localconformal.text import say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTH, PREDICTION = "length", "prediction"


@needs("matplotlib", "pandas")
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
