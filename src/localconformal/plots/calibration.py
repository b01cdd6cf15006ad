"""Coverage over levels: is what is asked for what is got, and what does it cost?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics import coverage_length_curve
from localconformal.plots.canvas import add_legend, caption, make_panels, name_axes
from localconformal.plots.extra import needs
from localconformal.plots.style import IDEAL, INK, MAIN, SECOND, clean, in_percent
from localconformal.text import say_level, say_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@needs("matplotlib", "pandas")
def plot_calibration(
    y: ArrayLike,
    intervals: ArrayLike,
    confidence_level: ArrayLike,
    *,
    probability: float = 0.95,
    ax: Any = None,
) -> tuple[list[Axes], Any]:
    """Draw the coverage observed against the level asked, with its band; and the length beside.

    Parameters
    ----------
    y : array of shape (n,)
    intervals : array of shape (n, 2, L)
        As ``predict_interval(X, confidence_level=levels)`` gives them.
    confidence_level : array of shape (L,)
    probability : float, default=0.95
        With which the band of each level holds, on its own.
    ax : pair of matplotlib axes, default=None
        None makes a figure.

    Returns
    -------
    ax : list of two matplotlib axes
    frame : pandas.DataFrame
        That of `localconformal.metrics.coverage_length_curve`, one row a level.

    Examples
    --------
    >>> intervals = np.array([[[0.4, 0.0], [0.6, 1.0]]] * 4)
    >>> (left, right), frame = plot_calibration([0.5, 0.5, 0.1, 0.8], intervals, [0.5, 0.9])
    >>> frame["coverage"].tolist()
    [0.5, 1.0]
    """
    frame = coverage_length_curve(y, intervals, confidence_level, probability=probability).frame()
    left, right = make_panels(ax, 2, (8.4, 4.0))
    draw_coverage(left, frame)
    draw_lengths(right, frame)
    level = frame["confidence_level"]
    off = int(((frame["lower"] > level) | (frame["upper"] < level)).sum())
    said = [
        f"Bars: exact {say_level(probability)} bands of {say_rows(len(np.asarray(y)))}, each on "
        f"its own; {off} of {len(frame)} do not hold their level."
    ]
    endless = int(np.isinf(frame["mean_length"]).sum())
    if endless:
        said.append(f"The mean length is infinite at {endless} of {len(frame)} levels (▲).")
    caption(left, said, n_panels=2)
    return [left, right], frame


def draw_coverage(ax: Axes, frame: Any) -> None:
    """Coverage with its bands, and the diagonal."""
    level = frame["confidence_level"]
    low = min(float(level.min()), float(frame["lower"].min()))
    ends = [max(low - 0.05, 0.0), 1.0]
    ax.plot(ends, ends, color=INK, lw=1.0, ls=IDEAL, label="as promised")
    ax.fill_between(level, frame["lower"], frame["upper"], color=MAIN, alpha=0.2, lw=0)
    ax.vlines(level, frame["lower"], frame["upper"], color=MAIN, lw=1.4, alpha=0.7)
    ax.plot(level, frame["coverage"], color=MAIN, marker="o", ms=4.5, lw=1.4, label="observed")
    ax.set_xlim(max(float(level.min()) - 0.05, 0.0), 1.0)
    ax.set_ylim(ends[0], 1.01)
    for axis in (ax.xaxis, ax.yaxis):
        in_percent(axis)
    clean(ax)
    name_axes(ax, "level asked, %", "coverage observed, %")
    add_legend(ax, loc="upper left")


def draw_lengths(ax: Axes, frame: Any) -> None:
    """Mean and median length; infinite means stand at the top."""
    level = frame["confidence_level"]
    styles = (("mean_length", MAIN, "-", "mean"), ("median_length", SECOND, ":", "median"))
    for column, colour, style, label in styles:
        finite = np.isfinite(frame[column])
        ax.plot(
            level[finite], frame.loc[finite, column], color=colour, ls=style, marker="o", ms=4.5,
            label=label,
        )  # fmt: skip
    endless = level[np.isinf(frame["mean_length"])]
    top = ax.get_xaxis_transform()
    if len(endless):
        ax.plot(endless, [0.98] * len(endless), "^", color=MAIN, ms=7, transform=top)
    if np.isfinite(frame[["mean_length", "median_length"]]).to_numpy().any():
        ax.set_ylim(0.0, 1.12 * ax.get_ylim()[1])
    ax.set_xlim(max(float(level.min()) - 0.05, 0.0), 1.0)
    in_percent(ax.xaxis)
    clean(ax)
    name_axes(ax, "level asked, %", "length")
    add_legend(ax, loc="upper left")
