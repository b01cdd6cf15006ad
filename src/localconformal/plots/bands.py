"""Bands of intervals over one feature; and methods side by side, with coverage by region."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.columns import LABEL
from localconformal.metrics import coverage, mean_length, share_infinite
from localconformal.metrics.intervals import (
    check_one_level,
    is_covered,
    is_empty,
    open_end,
    tied_lengths,
)
from localconformal.plots import _axes as art
from localconformal.quantiles import Array, weighted_quantile
from localconformal.text import say_number, say_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ORACLE = "true quantiles"
_LINE, _BARS, _BINS = "line", "bars", "bins"
#: Jumps of a quarter of the deviation along x; with few rows a smooth curve also has a large ratio.
_MOST_ROUGH, _FEWEST_ROWS = 0.1, 20
_MAX_BARS, _MAX_BINS, _ROWS_PER_BIN = 150, 40, 25
#: Rows of a comparison drawn as points: more would hide the band. Coverage counts every row.
_COMPARED_POINTS = 500


def plot_bands(
    X: Any,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    *,
    oracle: ArrayLike | None = None,
    colours: Sequence[str] | None = None,
    max_points: int = art.MAX_POINTS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the rows, the band of each method and the true quantiles over one feature.

    With a single method the rows outside its band are marked. Each label, or each number if there
    are only a few different ones, has a strip of the axis, with rows from the shortest interval (of
    the first method) to the longest; rows without a number are not drawn. If bounds jump from row
    to row because they depend on more than this feature, up to 150 rows are drawn as bars; with
    more, the band shows the medians of the bounds in at most 40 bins of x.

    The frame has one row per method and drawn row: method, x, position (on the axis, in days for
    times), y, lower, upper, covered, shape ("line", "bars" or "bins"), band_lower, band_upper (as
    drawn).

    Parameters
    ----------
    X : array of shape (n,) or (n, 1), series, or frame of one column
        Numbers, times or labels.
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    oracle : array of shape (n, 2), default=None
        The true quantiles at the rows of X, if known; no method may be called "true quantiles".
    colours : list of str, default=None
        One per method; None uses the library's own.
    max_points, random_state : int
        Most rows drawn; if there are more, a random sample with this seed.
    ax : matplotlib axes, default=None

    Examples
    --------
    >>> ax, frame = plot_bands([0.0, 1.0], [5.0, 6.0], {"a": [[4, 7], [5, 5.5]]})
    >>> frame["covered"].tolist()
    [True, False]
    """
    art.check_packages("plot_bands")
    named, response = _check_bands(y, bands, oracle), np.asarray(y, dtype=np.float64)
    feature = art.read_feature(X, len(response))
    known = np.flatnonzero(~np.isnan(feature.positions()))
    rows = known[art.drawn_rows(len(known), max_points, random_state)]
    frame = _frame_of_rows(feature.take(rows), response, named, rows)
    ax = art.make_axes(ax)
    _draw_bands(ax, frame, dict(zip(bands, colours or art.method_colours(len(bands)), strict=True)))
    art.name_axes(ax, "", "y")
    art.dress_axis(ax, feature)
    art.add_legend(ax, loc="best")
    odd = [(name, art.say_odd(intervals)) for name, intervals in named.items()]
    said = [f"{art.plain(name)}: {text}" if len(odd) > 1 else text for name, text in odd if text]
    some = art.say_drawn(len(rows), len(known))
    art.caption(ax, [art.say_lost(len(response) - len(known)), some, _say_shapes(frame), *said])
    return ax, frame


def _check_bands(y: ArrayLike, bands: Mapping[str, ArrayLike], oracle: Any) -> dict[str, Array]:
    """The bands by name, the true quantiles last; all checked."""
    if not bands:
        raise ValueError("bands: got none; expected the intervals of at least one method.")
    if oracle is not None and _ORACLE in bands:
        got = f"bands: got a method called {_ORACLE!r}, which is the name of oracle"
        raise ValueError(f"{got}; rename the method, or leave oracle out.")
    named = {**bands, **({} if oracle is None else {_ORACLE: oracle})}
    return {name: check_one_level(y, intervals)[1] for name, intervals in named.items()}


def _frame_of_rows(
    feature: art.Feature, y: Array, named: Mapping[str, Array], rows: NDArray[np.intp]
) -> Any:
    """The frame of these rows of y and the intervals; the feature already has only these."""
    import pandas as pd

    position = feature.positions(tied_lengths(next(iter(named.values())))[rows])
    order = np.argsort(position, kind="stable")
    y, position, parts = y[rows[order]], position[order], []
    shared = {"x": feature.values[order], "position": position, "y": y}
    for name, intervals in named.items():
        bounds = intervals[rows[order]]
        shape, band = _band_shape(position, bounds, feature.kind == LABEL)
        own = {"lower": bounds[:, 0], "upper": bounds[:, 1], "covered": is_covered(y, bounds)}
        drawn = {"shape": shape, "band_lower": band[:, 0], "band_upper": band[:, 1]}
        parts.append(pd.DataFrame({"method": name, **shared, **own, **drawn}))
    return pd.concat(parts, ignore_index=True)


def _say_shapes(frame: Any) -> str:
    """A sentence on bands that are medians in bins, if there are any."""
    if not (frame["shape"] == _BINS).any():
        return ""
    return (
        "If intervals depend on more than this feature, the band shows the medians of the bounds "
        "in bins, and a row outside the band may still be in its own interval."
    )


def _draw_bands(ax: Axes, frame: Any, colours: Mapping[str, str]) -> None:
    limits = art.extent(frame[["y", "lower", "upper"]].to_numpy())
    for name, colour in colours.items():
        band = frame[frame["method"] == name]
        _draw_band(ax, band, limits, art.plain(name), True, color=colour, lw=1.1)
    ideal = frame[frame["method"] == _ORACLE]
    if len(ideal) and _ORACLE not in colours:
        _draw_band(ax, ideal, limits, _ORACLE, False, color=art.INK, lw=1.3, ls=art.IDEAL)
    rows = frame[frame["method"] == frame["method"].iloc[0]]
    missed = ~rows["covered"] & (len(colours) == 1)
    x, y = rows["position"], rows["y"]
    ax.scatter(x[~missed], y[~missed], s=5, color=art.POINT, alpha=0.55, lw=0, zorder=1)
    if len(colours) == 1:
        ax.scatter(x[missed], y[missed], s=9, color=art.MISS, lw=0, zorder=3, label="missed")
    if np.isinf(frame[["lower", "upper"]].to_numpy()).any():
        ax.set_ylim(*limits)
    art.clean(ax)


def _draw_band(ax: Axes, band: Any, limits: Any, label: str, shade: bool, **line: Any) -> None:
    """A line through the rows, or a bar per row."""
    x = band["position"].to_numpy()
    lower, upper = art.drawable(band[["band_lower", "band_upper"]].to_numpy(), *limits).T
    if band["shape"].iloc[0] != _BARS:
        if shade:
            ax.fill_between(x, lower, upper, color=line["color"], alpha=0.22, lw=0)
        ax.plot(x, lower, **line)
        ax.plot(x, upper, label=label, **line)
    elif shade:
        ax.vlines(x, lower, upper, lw=1.4, label=label, color=line["color"], alpha=0.4)
    else:
        look = {"ls": "", "marker": "_", "ms": 4, "color": line["color"], "alpha": 0.9}
        ax.plot(x, lower, label=label, **look)
        ax.plot(x, upper, **look)


def _band_shape(position: Array, bounds: Array, is_label: bool) -> tuple[str, Array]:
    """How the rows are drawn, and the ends of the band at each (n, 2); rows in order of x."""
    if not is_label and len(position) > 1 and not _is_rough(bounds):
        return _LINE, bounds
    if not is_label and len(position) > _MAX_BARS:
        return _BINS, _median_bounds(position, bounds)
    return _BARS, bounds


def _is_rough(bounds: Array) -> bool:
    """Whether a line through these bounds (n, 2), in the order of x, would be a zigzag.

    Von Neumann's ratio, sum (b_i+1 - b_i)^2 / sum (b_i - mean b)^2, is 2 on average if b has
    nothing to do with x, and near 0 if it is a smooth function of x.

    >>> x = np.linspace(0, 1, 200)
    >>> _is_rough(np.stack([x, x + 1], axis=1)), _is_rough(np.stack([x, x % 0.02], axis=1))
    (False, True)
    """
    judged = bounds if (end := open_end(bounds)) is None else bounds[:, [1 - end]]
    ends = judged[np.isfinite(judged).all(axis=1)].T
    if ends.shape[1] < _FEWEST_ROWS:
        return False
    # In units of the largest: squares of large numbers overflow.
    ends = ends / (np.abs(ends).max() or 1.0)
    jumps = np.square(np.diff(ends)).sum(axis=1)
    spread = np.square(ends - ends.mean(axis=1, keepdims=True)).sum(axis=1)
    return bool((jumps > _MOST_ROUGH * spread).any())


def _median_bounds(position: Array, bounds: Array) -> Array:
    """Medians of both bounds (n, 2) in bins between quantiles, without empty intervals."""
    n_bins = min(_MAX_BINS, len(position) // _ROWS_PER_BIN)
    edges = np.unique(np.quantile(position, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    bins = np.searchsorted(edges, position, side="left")
    medians, held = np.full_like(bounds, np.nan), ~is_empty(bounds)
    for code in np.unique(bins[held]):
        found = bounds[(rows := bins == code) & held].T
        medians[rows] = [weighted_quantile(end, np.ones(len(end)), 0.5) for end in found]
    return medians


def plot_comparison(
    X: ArrayLike,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    edges: ArrayLike,
    *,
    oracle: ArrayLike | None = None,
    confidence_level: float = 0.9,
    title: str = "",
) -> tuple[NDArray[Any], Any]:
    """Draw a column per method: its band over one feature, and its coverage by region.

    The axes are an array of shape (2, methods); ``frame.loc["bands"]`` has the columns of
    `plot_bands` for the first 500 rows, ``frame.loc["regions"]`` has method, left, right, rows and
    coverage (NaN if no rows), over all rows that are in a region.

    Parameters
    ----------
    X, y, bands, oracle
        As in `plot_bands`; X of numbers.
    edges : array of shape (R + 1,)
        The regions are [edges_r, edges_r+1), the last one closed.
    confidence_level : float, default=0.9
        Drawn as a line.
    title : str, default=""

    Examples
    --------
    >>> axes, frame = plot_comparison([0, 1], [5, 6], {"a": [[4, 7], [4, 5]]}, [0, 1])
    >>> frame.loc["regions", "coverage"].tolist()
    [0.5]
    """
    art.check_packages("plot_comparison")
    import pandas as pd
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.4 + 3.2 * len(bands), 5.4), layout="constrained")
    axes = figure.subplots(
        2, len(bands), squeeze=False, sharex=True, sharey="row", height_ratios=(3, 1)
    )
    X, y, bands = np.asarray(X), np.asarray(y, dtype=np.float64), dict(bands)
    regions, feature, drawn = _regions_frame(X, y, bands, edges), art.read_feature(X, len(y)), []
    shown = np.flatnonzero(~np.isnan(feature.positions()))[:_COMPARED_POINTS]
    colours = art.method_colours(len(bands))[::-1]
    for (above, below), name, colour in zip(axes.T, bands, colours, strict=True):
        own = {name: bands[name]}
        drawn.append(_frame_of_rows(feature.take(shown), y, _check_bands(y, own, oracle), shown))
        _draw_bands(above, drawn[-1], {name: colour})
        _draw_regions(below, regions[regions["method"] == name], colour, confidence_level)
        length = f"mean length {say_number(float(mean_length(y, bands[name])))}"
        length = length if open_end(np.asarray(bands[name])) is None else "one-sided"
        summary = f"covers {say_share(float(coverage(y, bands[name])))}   {length}"
        if (infinite := float(share_infinite(y, bands[name]))) > 0:
            summary += f"   {say_share(infinite)} infinite"
        bold: dict[str, Any] = {"fontsize": 12, "fontweight": "bold", "color": colour}
        above.set_title(art.plain(name), loc="left", pad=20, **bold)
        place: tuple[Any, ...] = ((0, 1), (0, 6), "axes fraction", "offset points")
        above.annotate(summary, *place, color=art.INK, fontsize=10)
    # On an axis from zero, bars of 85 % and 95 % would look the same.
    axes[1, 0].set_ylim(0.5 if regions["coverage"].min() > 0.5 else 0.0, 1.04)
    _label(axes, np.asarray(edges, dtype=np.float64), confidence_level)
    parts = {"bands": pd.concat(drawn), "regions": regions}
    art.caption(axes[1, 0], [_say_shapes(parts["bands"])], n_panels=len(bands))
    if title:
        figure.suptitle(title, fontsize=14, fontweight="bold", color=art.INK, x=0.01, ha="left")
    return axes, pd.concat(parts, names=["panel", "row"])


def _regions_frame(X: Any, y: Array, bands: Mapping[str, ArrayLike], edges: ArrayLike) -> Any:
    """Rows and coverage of each region, method by method."""
    import pandas as pd

    column, cuts, records = art.read_one_column(X, len(y)), np.asarray(edges, dtype=np.float64), []
    if column.kind == LABEL:
        raise ValueError("X: got labels; expected numbers: use plot_feature_coverage for labels.")
    x = column.numbers
    for name, bounds in _check_bands(y, bands, None).items():
        for left, right in pairwise(cuts):
            rows = (x >= left) & ((x < right) | ((x == right) & (right == cuts[-1])))
            share = coverage(y[rows], bounds[rows]) if rows.any() else np.nan
            records.append((name, left, right, int(rows.sum()), share))
    return pd.DataFrame(records, columns=["method", "left", "right", "rows", "coverage"])


def _draw_regions(ax: Axes, bars: Any, colour: str, level: float) -> None:
    """The coverage of one method as bars, in per cent, and the level as a line."""
    width, centre = bars["right"] - bars["left"], (bars["left"] + bars["right"]) / 2.0
    ax.bar(centre, bars["coverage"], width=0.79 * width, color=colour, alpha=0.85)
    for x, height in zip(centre, bars["coverage"], strict=True):
        text = "no rows" if np.isnan(height) else f"{100 * height:.0f}"
        style: dict[str, Any] = {"ha": "center", "fontsize": 9, "fontweight": "bold"}
        style["color"] = art.INK if np.isnan(height) else "white"
        # At the foot of the bar, where no line crosses it.
        ax.text(x, 0.07, text, transform=ax.get_xaxis_transform(), **style)
    ax.axhline(level, color=art.INK, lw=1.0, ls=art.IDEAL)
    art.clean(ax)


def _label(axes: Any, edges: Any, confidence_level: float) -> None:
    first, last = axes[0, 0], axes[0, -1]
    first.set_ylabel("y", color=art.INK)
    axes[1, 0].set_ylabel("coverage\nby region, %", color=art.INK)
    ticks = sorted({axes[1, 0].get_ylim()[0], confidence_level})
    axes[1, 0].set_yticks(ticks, [f"{100 * tick:g}" for tick in ticks])
    for above, below in axes.T:
        below.set_xticks(edges)
        below.set_xlabel("x", color=art.INK)
        above.tick_params(bottom=False)
        for edge in edges[1:-1]:
            above.axvline(edge, color=art.FAINT, lw=0.6, zorder=0)
    # Without the method itself, which the panel's title names.
    handles, labels = (found[1:] for found in last.get_legend_handles_labels())
    first.legend(handles, labels, loc="upper left", frameon=False, fontsize=9, labelcolor=art.INK)
