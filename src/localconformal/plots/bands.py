"""Intervals over one feature: the data, each method's band, the true quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.plots.band_shape import BARS, BINS, band_shape
from localconformal.plots.canvas import (
    add_legend,
    caption,
    drawable,
    extent,
    make_axes,
    name_axes,
    plain,
    say_odd,
)
from localconformal.plots.extra import needs
from localconformal.plots.feature import NOT_A_STRIP, Feature, dress_axis, read_feature
from localconformal.plots.rows import MAX_POINTS, drawn_rows, one_level, say_drawn
from localconformal.plots.style import IDEAL, INK, MISS, POINT, clean, method_colours
from localconformal.quantiles import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ORACLE = "true quantiles"


@needs("matplotlib", "pandas")
def plot_bands(
    X: Any,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    *,
    oracle: ArrayLike | None = None,
    colours: Sequence[str] | None = None,
    max_points: int = MAX_POINTS,
    random_state: int = 0,
    ax: Axes | None = None,
) -> tuple[Axes, Any]:
    """Draw the rows, the band of each method and the true quantiles over one feature.

    With a single method the rows outside its band are marked. Labels, missing values and numbers
    of which there are only a few have a strip of the axis each, where rows stand from the shortest
    interval (of the first method) to the longest.

    A band is a line through the rows where its bounds are smooth in x. Where they jump from row
    to row, since they depend on more than this feature, up to 150 rows have a bar each; of more,
    the band is the median of the bounds in at most 40 bins of x, and the caption says so.

    Parameters
    ----------
    X : array of shape (n,) or (n, 1), series, or frame of one column
        Numbers, times or labels.
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    oracle : array of shape (n, 2), default=None
        The true quantiles at the rows of X, where they are known; no method may have this name.
    colours : list of str, default=None
        One a method; None takes the library's own.
    max_points : int, default=5000
        Rows drawn, at random if there are more.
    random_state : int, default=0
        Seed of that draw.
    ax : matplotlib axes, default=None
        None makes a figure.

    Returns
    -------
    ax : matplotlib axes
    frame : pandas.DataFrame
        What is drawn, one row for each method and row drawn: see `bands_frame`.

    Examples
    --------
    >>> ax, frame = plot_bands([0.0, 1.0], [5.0, 6.0], {"a": [[4, 7], [5, 5.5]]})
    >>> frame["covered"].tolist()
    [True, False]
    """
    named, response = check_bands(y, bands, oracle), np.asarray(y, dtype=np.float64)
    feature = read_feature(X, len(response))
    rows = drawn_rows(len(response), max_points, random_state)
    frame = frame_of_rows(feature.take(rows), response, named, rows)
    colours = method_colours(len(bands)) if colours is None else colours
    ax = make_axes(ax)
    draw_bands(ax, frame, dict(zip(bands, colours, strict=True)))
    name_axes(ax, "", "y")
    dress_axis(ax, feature)
    add_legend(ax, loc="best")
    odd = [(name, say_odd(intervals)) for name, intervals in named.items()]
    said = [f"{plain(name)}: {text}" if len(odd) > 1 else text for name, text in odd if text]
    caption(ax, [say_drawn(len(rows), len(response)), say_shapes(frame), *said])
    return ax, frame


@needs("pandas")
def bands_frame(
    X: Any, y: ArrayLike, bands: Mapping[str, ArrayLike], oracle: ArrayLike | None = None
) -> Any:
    """The data of `plot_bands`: method, x, position, y, lower, upper, covered, strip and the band.

    ``position`` is the place on the axis, in ascending order: that of x where it is a number
    (days since 1970 where it is a time), and within the strip of a label or of missing values.
    ``strip`` is the number of that strip, -1 for rows at their number. ``shape`` is how the band
    of the method is drawn there: "line" or "bars" at ``lower`` and ``upper``, or "bins", a line at
    the medians ``band_lower`` and ``band_upper`` of the bounds of a bin (the bounds otherwise).

    Examples
    --------
    >>> bands_frame([1.0, 0.0], [6.0, 5.0], {"a": [[5, 5.5], [4, 7]]})["x"].tolist()
    [0.0, 1.0]
    """
    named, response = check_bands(y, bands, oracle), np.asarray(y, dtype=np.float64)
    feature = read_feature(X, len(response))
    return frame_of_rows(feature, response, named, np.arange(len(response)))


def check_bands(
    y: ArrayLike, bands: Mapping[str, ArrayLike], oracle: ArrayLike | None
) -> dict[str, Array]:
    """The bands by name, the true quantiles last; all checked."""
    if not bands:
        raise ValueError("bands are empty; at least one method's intervals were expected.")
    if oracle is not None and ORACLE in bands:
        raise ValueError(
            f"bands have a method called {ORACLE!r}, the name of oracle; another was expected: "
            "rename the method, or leave out one of the two."
        )
    named = {**bands, **({} if oracle is None else {ORACLE: oracle})}
    return {name: one_level(y, intervals)[1] for name, intervals in named.items()}


def frame_of_rows(
    feature: Feature, y: Array, named: Mapping[str, Array], rows: NDArray[np.intp]
) -> Any:
    """The frame of these rows of y and the intervals, of which the feature has only these."""
    import pandas as pd

    position = feature.positions(tied_lengths(next(iter(named.values())))[rows])
    order = np.argsort(position, kind="stable")
    chosen, numbered = rows[order], feature.strip[order] == NOT_A_STRIP
    parts = []
    for name, bounds in named.items():
        shape, band = band_shape(position[order], bounds[chosen], numbered)
        columns = {
            "method": name,
            "x": feature.values[order],
            "position": position[order],
            "y": y[chosen],
            "lower": bounds[chosen, 0],
            "upper": bounds[chosen, 1],
            "covered": is_covered(y[chosen], bounds[chosen]),
            "strip": feature.strip[order],
            "shape": shape,
            "band_lower": band[:, 0],
            "band_upper": band[:, 1],
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def say_shapes(frame: Any) -> str:
    """A sentence on bands that are medians in bins, if there are any."""
    binned = frame[frame["shape"] == BINS]
    if len(binned) == 0:
        return ""
    names = [plain(name, 24) for name in binned["method"].unique()]
    whose = "" if len(names) == frame["method"].nunique() else f" of {' and '.join(names)}"
    return (
        f"Intervals{whose} depend on more than this feature: their band has the medians of the "
        "bounds in bins of it, and a row outside it may lie in its own interval."
    )


def draw_bands(ax: Axes, frame: Any, colours: Mapping[str, str]) -> None:
    """The bands, the true quantiles and the rows of a frame of `bands_frame`."""
    low, high = extent(*(frame[column].to_numpy() for column in ("y", "lower", "upper")))
    for name, colour in colours.items():
        band = frame[frame["method"] == name]
        draw_band(ax, band, low, high, plain(name), color=colour, lw=1.1)
    ideal = frame[frame["method"] == ORACLE]
    if len(ideal) and ORACLE not in colours:
        draw_band(ax, ideal, low, high, ORACLE, shade=False, color=INK, lw=1.3, ls=IDEAL)
    draw_rows(ax, frame, mark_misses=len(colours) == 1)
    if np.isinf(frame[["lower", "upper"]].to_numpy()).any():
        ax.set_ylim(low, high)
    clean(ax)


def draw_band(
    ax: Axes, band: Any, low: float, high: float, label: str, shade: bool = True, **line: Any
) -> None:
    """A line through the rows that are joined; a bar for each of the others."""
    x = band["position"].to_numpy()
    lower, upper = drawable(band[["band_lower", "band_upper"]].to_numpy(), low, high).T
    joined = (band["shape"] != BARS).to_numpy()
    name: str | None = label
    if joined.any():
        if shade:
            ax.fill_between(
                x[joined], lower[joined], upper[joined], color=line["color"], alpha=0.22, lw=0
            )
        ax.plot(x[joined], lower[joined], **line)
        ax.plot(x[joined], upper[joined], label=name, **line)
        name = None
    if not joined.all():
        look = {"color": line["color"], "alpha": 0.4 if shade else 0.9}
        bar = x[~joined], lower[~joined], upper[~joined]
        if shade:
            ax.vlines(*bar, lw=1.4, label=name or "", **look)
        else:
            for ends in bar[1:]:
                ax.plot(bar[0], ends, ls="", marker="_", ms=4, label=name, **look)
                name = None


def draw_rows(ax: Axes, frame: Any, mark_misses: bool) -> None:
    """The rows as points."""
    rows = frame[frame["method"] == frame["method"].iloc[0]]
    inside = rows[rows["covered"]] if mark_misses else rows
    ax.scatter(inside["position"], inside["y"], s=5, color=POINT, alpha=0.55, lw=0, zorder=1)
    if mark_misses:
        missed = rows[~rows["covered"]]
        ax.scatter(missed["position"], missed["y"], s=9, color=MISS, lw=0, zorder=3, label="missed")
