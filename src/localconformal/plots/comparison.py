"""Methods side by side: each one's band above, its coverage by region below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics import coverage, mean_length
from localconformal.plots.bands import one_feature, plot_bands
from localconformal.plots.regions import plot_regions
from localconformal.plots.style import FAINT, INK, method_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rows drawn as points: more of them hide the band. Coverage counts every row.
MAX_POINTS = 500


def plot_comparison(
    figure: Figure,
    X: ArrayLike,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    edges: ArrayLike,
    *,
    oracle: ArrayLike | None = None,
    confidence_level: float = 0.9,
    title: str = "",
) -> tuple[Any, Any]:
    """Draw one column a method: its band over one feature, and its coverage by region.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Made by the caller with ``layout="constrained"``.
    X : array of shape (n,) or (n, 1)
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    edges : array of shape (R + 1,)
        Ends of the regions.
    oracle : array of shape (n, 2), default=None
        The true quantiles, where they are known.
    confidence_level : float, default=0.9
    title : str, default=""

    Returns
    -------
    tuple of pandas.DataFrame
        Of `plot_bands` and of `plot_regions`, over all methods.
    """
    import pandas as pd

    x, y = one_feature(X), np.asarray(y, dtype=np.float64)
    shown = slice(0, MAX_POINTS)
    truth = None if oracle is None else np.asarray(oracle)[shown]
    axes = figure.subplots(
        2, len(bands), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1)
    )
    drawn, counted = [], []
    for column, (name, colour) in enumerate(
        zip(bands, method_colours(len(bands))[::-1], strict=True)
    ):
        intervals = np.asarray(bands[name], dtype=np.float64)
        above, below = axes[:, column]
        one = {name: intervals[shown]}
        drawn.append(plot_bands(above, x[shown], y[shown], one, oracle=truth, colours=[colour]))
        counted.append(
            plot_regions(
                below,
                x,
                y,
                {name: intervals},
                edges,
                confidence_level=confidence_level,
                colours=[colour],
            )
        )
        _head(above, name, colour, y, intervals)
    _label(axes, np.asarray(edges, dtype=np.float64), confidence_level)
    if title:
        figure.suptitle(title, fontsize=14, fontweight="bold", color=INK, x=0.01, ha="left")
    return pd.concat(drawn, ignore_index=True), pd.concat(counted, ignore_index=True)


def _head(ax: Axes, name: str, colour: str, y: Any, intervals: Any) -> None:
    """The method's name, and its two numbers, above its panel."""
    summary = f"covers {coverage(y, intervals):.1%}   mean length {mean_length(y, intervals):.2f}"
    ax.set_title(name, fontsize=12, fontweight="bold", color=colour, loc="left", pad=20)
    ax.annotate(summary, (0, 1), (0, 6), "axes fraction", "offset points", color=INK, fontsize=10)


def _label(axes: Any, edges: Any, confidence_level: float) -> None:
    first, last = axes[0, 0], axes[0, -1]
    first.set_ylabel("y", color=INK)
    axes[1, 0].set_ylabel("coverage\nby region, %", color=INK)
    ticks = sorted({axes[1, 0].get_ylim()[0], confidence_level})
    axes[1, 0].set_yticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    for ax in axes[1]:
        ax.set_xticks(edges)
        ax.set_xlabel("x", color=INK)
    for ax in axes[0]:
        ax.tick_params(bottom=False)
        for edge in edges[1:-1]:
            ax.axvline(edge, color=FAINT, lw=0.6, zorder=0)
    handles, labels = last.get_legend_handles_labels()
    kept = [(h, label) for h, label in zip(handles, labels, strict=True)][1:]
    first.legend(
        *zip(*kept, strict=True), loc="upper left", frameon=False, fontsize=9, labelcolor=INK
    )
