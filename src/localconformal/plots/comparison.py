"""Methods side by side: each one's band above, its coverage by region below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics import coverage, mean_length, share_infinite
from localconformal.plots.bands import bands_frame, draw_bands, say_shapes
from localconformal.plots.canvas import caption, plain
from localconformal.plots.extra import needs
from localconformal.plots.regions import draw_regions, regions_frame
from localconformal.plots.style import FAINT, INK, method_colours
from localconformal.text import say_number, say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Rows drawn as points: more of them hide the band. Coverage counts every row.
MAX_POINTS = 500


@needs("matplotlib", "pandas")
def plot_comparison(
    X: ArrayLike,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    edges: ArrayLike,
    *,
    oracle: ArrayLike | None = None,
    confidence_level: float = 0.9,
    title: str = "",
    figure: Figure | None = None,
) -> tuple[NDArray[Any], Any]:
    """Draw one column a method: its band over one feature, and its coverage by region.

    Parameters
    ----------
    X : array of shape (n,) or (n, 1)
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    edges : array of shape (R + 1,)
        Ends of the regions.
    oracle : array of shape (n, 2), default=None
        The true quantiles, where they are known.
    confidence_level : float, default=0.9
    title : str, default=""
    figure : matplotlib.figure.Figure, default=None
        Made by the caller with ``layout="constrained"``; None makes one.

    Returns
    -------
    axes : array of axes, of shape (2, methods)
    frame : pandas.DataFrame
        What is drawn: ``frame.loc["bands"]`` has the columns of `bands_frame` for the first 500
        rows, ``frame.loc["regions"]`` those of `regions_frame` for all.

    Examples
    --------
    >>> axes, frame = plot_comparison([0, 1], [5, 6], {"a": [[4, 7], [4, 5]]}, [0, 1])
    >>> frame.loc["regions", "coverage"].tolist()
    [0.5]
    """
    import pandas as pd
    from matplotlib.figure import Figure

    if figure is None:
        figure = Figure(figsize=(1.5 + 3.2 * len(bands), 5.4), layout="constrained")
    axes = figure.subplots(
        2, len(bands), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1)
    )
    drawn, counted = [], []
    for column, (name, colour) in enumerate(
        zip(bands, method_colours(len(bands))[::-1], strict=True)
    ):
        above, below = axes[:, column]
        drawn.append(_first_rows(X, y, name, bands[name], oracle))
        draw_bands(above, drawn[-1], {name: colour})
        counted.append(regions_frame(X, y, {name: bands[name]}, edges))
        draw_regions(below, counted[-1], {name: colour}, confidence_level)
        _head(above, name, colour, y, bands[name])
    _label(axes, np.asarray(edges, dtype=np.float64), confidence_level)
    bands_drawn = pd.concat(drawn)
    caption(axes[1, 0], [say_shapes(bands_drawn)], n_panels=len(bands))
    if title:
        figure.suptitle(title, fontsize=14, fontweight="bold", color=INK, x=0.01, ha="left")
    parts = {"bands": bands_drawn, "regions": pd.concat(counted)}
    return axes, pd.concat(parts, names=["panel", "row"])


def _first_rows(X: Any, y: ArrayLike, name: str, intervals: ArrayLike, oracle: Any) -> Any:
    """The frame of the rows that are drawn."""
    shown = slice(0, MAX_POINTS)
    truth = None if oracle is None else np.asarray(oracle)[shown]
    return bands_frame(
        np.asarray(X)[shown], np.asarray(y)[shown], {name: np.asarray(intervals)[shown]}, truth
    )


def _head(ax: Axes, name: str, colour: str, y: Any, intervals: Any) -> None:
    """The method's name, and its two numbers, above its panel."""
    summary = f"covers {say_share(float(coverage(y, intervals)))}   mean length "
    summary += say_number(float(mean_length(y, intervals)))
    infinite = share_infinite(y, intervals)
    summary += f"   {say_share(float(infinite))} infinite" if infinite > 0 else ""
    ax.set_title(plain(name), fontsize=12, fontweight="bold", color=colour, loc="left", pad=20)
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
