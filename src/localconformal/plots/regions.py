"""Coverage by region of a feature: where a marginal guarantee is kept, and where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.columns import LABEL
from localconformal.metrics import coverage
from localconformal.plots.bands import check_bands
from localconformal.plots.canvas import (
    add_legend,
    caption,
    make_axes,
    name_axes,
    plain,
)
from localconformal.plots.extra import needs
from localconformal.plots.feature import numbers_of, read_one_column
from localconformal.plots.style import IDEAL, INK, clean, in_percent, method_colours
from localconformal.text import say_level, say_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@needs("matplotlib", "pandas")
def plot_regions(
    X: Any,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    edges: ArrayLike,
    *,
    confidence_level: float = 0.9,
    colours: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw each method's coverage in each region as bars, in per cent, and the level as a line.

    Parameters
    ----------
    X : array of shape (n,) or (n, 1), series, or frame of one column
        Numbers; rows outside every region, and missing values, are not counted.
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    edges : array of shape (R + 1,)
        The regions are [edges_r, edges_r+1), the last one closed.
    confidence_level : float, default=0.9
    colours : list of str, default=None
        One a method; None takes the library's own.
    ax : matplotlib axes, default=None
        None makes a figure.

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        What is drawn: see `regions_frame`.

    Examples
    --------
    >>> intervals = {"a": [[0, 1], [0, 1]]}
    >>> ax, frame = plot_regions([0.2, 1.2], [0.5, 3.0], intervals, [0, 1, 2])
    >>> frame["coverage"].tolist()
    [1.0, 0.0]
    """
    frame = regions_frame(X, y, bands, edges)
    chosen = method_colours(len(bands)) if colours is None else colours
    ax = make_axes(ax)
    draw_regions(ax, frame, dict(zip(bands, chosen, strict=True)), confidence_level)
    n = len(np.asarray(y))
    name_axes(ax, plain(read_one_column(X, n).name), "coverage, %")
    if len(bands) > 1:
        add_legend(ax, loc="lower left", ncols=3, bbox_to_anchor=(0.0, 1.0), borderaxespad=0.0)
    caption(ax, describe(frame[frame["method"] == next(iter(bands))], n, confidence_level))
    return ax, frame


def draw_regions(ax: Axes, frame: Any, colours: Mapping[str, str], level: float) -> None:
    """The bars of a frame of `regions_frame`, side by side in their region, and the level."""
    share = 0.82 / len(colours)
    for position, (name, colour) in enumerate(colours.items()):
        bars = frame[frame["method"] == name]
        width = bars["right"] - bars["left"]
        centre = bars["left"] + width * (0.09 + share * (position + 0.5))
        look: dict[str, Any] = {"color": colour, "alpha": 0.85, "label": plain(name)}
        ax.bar(centre, bars["coverage"], width=width * share * 0.96, **look)
        for x, height in zip(centre, bars["coverage"], strict=True):
            _write(ax, x, height)
    ax.axhline(level, color=INK, lw=1.0, ls=IDEAL)
    # From zero, bars of 85 % and 95 % look the same.
    ax.set_ylim(0.5 if frame["coverage"].min() > 0.5 else 0.0, 1.04)
    in_percent(ax.yaxis)
    clean(ax)


def describe(regions: Any, n: int, level: float) -> list[str]:
    """What the bars rest on, of the regions of one method."""
    fewest, most, inside = (int(regions["rows"].agg(how)) for how in ("min", "max", "sum"))
    rows = f"{fewest:,} to {most:,} rows" if fewest < most else say_rows(most)
    said = [f"Dashed: the level, {say_level(level)}. Each region has {rows}."]
    if inside < n:
        said.append(f"{n - inside:,} of {n:,} rows are in no region, or missing.")
    return said


def _write(ax: Axes, x: float, share: float) -> None:
    """A number at the foot of a bar, where no line crosses it."""
    text, colour = ("no rows", INK) if np.isnan(share) else (f"{100 * share:.0f}", "white")
    foot = ax.get_xaxis_transform()
    ax.text(x, 0.07, text, transform=foot, ha="center", color=colour, fontsize=9, fontweight="bold")


@needs("pandas")
def regions_frame(X: Any, y: ArrayLike, bands: Mapping[str, ArrayLike], edges: ArrayLike) -> Any:
    """The data of `plot_regions`: columns method, left, right, rows, coverage (NaN if no rows).

    Examples
    --------
    >>> regions_frame([0.2, 2.0], [0.5, 3.0], {"a": [[0, 1], [0, 1]]}, [0, 1, 2])["rows"].tolist()
    [1, 1]
    """
    import pandas as pd

    named = check_bands(y, bands, None)
    column = read_one_column(X, len(next(iter(named.values()))))
    if column.kind == LABEL:
        raise ValueError(
            f"{column.name} has labels; numbers were expected for regions between edges: use "
            "plot_feature_coverage."
        )
    x, y = numbers_of(column), np.asarray(y, dtype=np.float64)
    cuts = np.asarray(edges, dtype=np.float64)
    region = np.searchsorted(cuts, x, side="right") - 1
    region[x == cuts[-1]] = len(cuts) - 2
    records = []
    for name, bounds in named.items():
        for r, (left, right) in enumerate(pairwise(cuts)):
            inside = region == r
            share = coverage(y[inside], bounds[inside]) if inside.any() else np.nan
            records.append((name, left, right, int(inside.sum()), share))
    return pd.DataFrame(records, columns=["method", "left", "right", "rows", "coverage"])
