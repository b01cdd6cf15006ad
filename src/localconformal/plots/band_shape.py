"""How a band is drawn over numbers: a line where it is smooth, bars or bins where it is not.

Intervals that depend on other features jump from row to row along this one, and a line through
them all is a solid zigzag. The ratio of von Neumann tells: with bounds b_i in the order of x,

    sum (b_i+1 - b_i)^2 / sum (b_i - mean b)^2

is 2 on average where b has nothing to do with x, and near 0 where it is a smooth function of x.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.metrics.size import is_empty
from localconformal.quantiles import Array, weighted_quantile

LINE, BARS, BINS = "line", "bars", "bins"
#: A tenth: jumps of a quarter of the deviation along x.
MOST_ROUGH = 0.1
#: Below so many rows a smooth curve has a large ratio too, and its zigzag can be read.
FEWEST_ROWS = 20
#: More bars than this hide one another.
MAX_BARS = 150
MAX_BINS, ROWS_PER_BIN = 40, 25


def band_shape(
    position: Array, bounds: Array, numbered: NDArray[np.bool_]
) -> tuple[NDArray[np.object_], Array]:
    """How each row is drawn (n,), and the ends of the band there (n, 2); rows in order of x.

    Rows that are not at a number, and a single one that is, are bars.
    """
    shape = np.full(len(position), BARS, dtype=object)
    rows = np.flatnonzero(numbered)
    if len(rows) < 2:
        return shape, bounds
    if not is_rough(bounds[rows]):
        shape[rows] = LINE
    elif len(rows) > MAX_BARS:
        shape[rows] = BINS
        bounds = bounds.copy()
        bounds[rows] = median_bounds(position[rows], bounds[rows])
    return shape, bounds


def is_rough(bounds: Array) -> bool:
    """Whether a line through these bounds (n, 2), in the order of x, would be a zigzag.

    Examples
    --------
    >>> x = np.linspace(0, 1, 200)
    >>> is_rough(np.stack([x, x + 1], axis=1)), is_rough(np.stack([x, x % 0.02], axis=1))
    (False, True)
    """
    ends = bounds[np.isfinite(bounds).all(axis=1)].T
    if ends.shape[1] < FEWEST_ROWS:
        return False
    # In units of the largest: squares of large numbers overflow.
    ends = ends / (np.abs(ends).max() or 1.0)
    jumps = np.square(np.diff(ends)).sum(axis=1)
    spread = np.square(ends - ends.mean(axis=1, keepdims=True)).sum(axis=1)
    return bool((jumps > MOST_ROUGH * spread).any())


def median_bounds(position: Array, bounds: Array) -> Array:
    """The medians of the lower and of the upper bounds in the bin of each row (n, 2).

    Bins lie between quantiles of the position, equal ones together; empty intervals do not count.
    """
    n_bins = min(MAX_BINS, len(position) // ROWS_PER_BIN)
    edges = np.unique(np.quantile(position, np.linspace(0.0, 1.0, n_bins + 1)[1:-1]))
    bins = np.searchsorted(edges, position, side="left")
    medians = np.full_like(bounds, np.nan)
    held = ~is_empty(bounds)
    for code in np.unique(bins[held]):
        rows = bins == code
        found = bounds[rows & held].T
        medians[rows] = [weighted_quantile(end, np.ones(len(end)), 0.5) for end in found]
    return medians
