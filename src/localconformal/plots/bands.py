"""Intervals over one feature: the data, each method's band, the true quantiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics import coverage
from localconformal.plots.style import INK, MISS, POINT, clean, method_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ORACLE = "true quantiles"


def plot_bands(
    ax: Axes,
    X: ArrayLike,
    y: ArrayLike,
    bands: Mapping[str, ArrayLike],
    *,
    oracle: ArrayLike | None = None,
    colours: Sequence[str] | None = None,
) -> Any:
    """Draw the rows, the band of each method and the true quantiles over one feature.

    With a single method the rows outside its band are marked.

    Parameters
    ----------
    ax : matplotlib axes
    X : array of shape (n,) or (n, 1)
    y : array of shape (n,)
    bands : dict of name -> intervals of shape (n, 2)
    oracle : array of shape (n, 2), default=None
        The true quantiles at the rows of X, where they are known.
    colours : list of str, default=None
        One a method; None takes the library's own.

    Returns
    -------
    pandas.DataFrame
        What is drawn, one row for each method and row of X: see `bands_frame`.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> frame = plot_bands(Figure().subplots(), [0.0, 1.0], [5.0, 6.0], {"a": [[4, 7], [5, 5.5]]})
    >>> frame["covered"].tolist()
    [True, False]
    """
    frame = bands_frame(X, y, bands, oracle)
    colours = method_colours(len(bands)) if colours is None else colours
    for name, colour in zip(bands, colours, strict=True):
        band = frame[frame["method"] == name]
        ax.fill_between(band["x"], band["lower"], band["upper"], color=colour, alpha=0.22, lw=0)
        for edge in ("lower", "upper"):
            label = name if edge == "upper" else None
            ax.plot(band["x"], band[edge], color=colour, lw=1.1, label=label)
    if oracle is not None:
        ideal = frame[frame["method"] == ORACLE]
        for edge, label in (("lower", None), ("upper", ORACLE)):
            ax.plot(ideal["x"], ideal[edge], color=INK, lw=1.3, ls=(0, (4, 2)), label=label)
    _draw_rows(ax, frame, mark_misses=len(bands) == 1)
    clean(ax)
    return frame


def bands_frame(
    X: ArrayLike, y: ArrayLike, bands: Mapping[str, ArrayLike], oracle: ArrayLike | None = None
) -> Any:
    """The data of `plot_bands`: columns method, x, y, lower, upper, covered; x ascending.

    Examples
    --------
    >>> bands_frame([1.0, 0.0], [6.0, 5.0], {"a": [[5, 5.5], [4, 7]]})["x"].tolist()
    [0.0, 1.0]
    """
    import pandas as pd

    x, y = one_feature(X), np.asarray(y, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    named = {**bands, **({} if oracle is None else {ORACLE: oracle})}
    parts = []
    for name, intervals in named.items():
        coverage(y, intervals)  # checks the shapes
        lower, upper = np.asarray(intervals, dtype=np.float64)[order].T
        columns = {"method": name, "x": x[order], "y": y[order], "lower": lower, "upper": upper}
        parts.append(pd.DataFrame(columns))
    frame = pd.concat(parts, ignore_index=True)
    frame["covered"] = (frame["lower"] <= frame["y"]) & (frame["y"] <= frame["upper"])
    return frame


def one_feature(X: ArrayLike) -> np.ndarray[Any, np.dtype[np.float64]]:
    """X of shape (n,) or (n, 1) as (n,)."""
    x = np.asarray(X, dtype=np.float64)
    if x.ndim not in (1, 2) or x.size != len(x):
        raise ValueError(
            f"X has shape {x.shape}; one feature, (n,) or (n, 1), was expected: pass one column."
        )
    return x.reshape(len(x))


def _draw_rows(ax: Axes, frame: Any, mark_misses: bool) -> None:
    rows = frame[frame["method"] == frame["method"].iloc[0]]
    inside = rows[rows["covered"]] if mark_misses else rows
    ax.scatter(inside["x"], inside["y"], s=5, color=POINT, alpha=0.55, lw=0, zorder=1)
    if mark_misses:
        missed = rows[~rows["covered"]]
        ax.scatter(missed["x"], missed["y"], s=9, color=MISS, lw=0, zorder=3, label="missed")
