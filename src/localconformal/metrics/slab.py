"""Worst-slab coverage with hold-out (Cauchois et al., 2021; Romano et al., 2020).

A slab is {x: a <= v'x <= b} that holds at least a share delta of the rows. The slab that covers
worst is found on one part of the rows and its coverage reported on the other: the minimum over
slabs of the very rows it was found on is far below the level even for perfect intervals, the
more so the fewer the rows.

Finding it, for n rows sorted along v, means the segment of least mean among those of at least
k rows. Instead of all O(n^2) segments: with m the least mean seen so far, the segment that
minimises sum(c) - m (rows) takes one running maximum, and is below 0 exactly when some segment
has a lesser mean; m becomes the mean of that segment, and so on until nothing is below 0
(Dinkelbach, 1967). This is exact, and three or four passes are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.columns import LABEL, Column, read_columns
from localconformal.metrics.intervals import binomial_band, each_level, is_covered
from localconformal.quantiles import Array
from localconformal.rows import make_frame

_FIND_SHARE = 0.25
#: A slab is not found better with more rows than these, only more slowly.
MAX_FIND_ROWS = 10_000
#: Labels with an indicator of their own; those left have none.
_MAX_INDICATORS = 20
#: Projected values closer than this, in standard deviations, are equal.
_TIE = 1e-12
#: Entries of one block of (directions, rows), to bound the memory.
_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class WorstSlab:
    """The slab found, and its coverage on rows that did not find it; a float of that coverage.

    ``coverage``, with its exact binomial band ``lower`` to ``upper``, is that of the ``n``
    held-out rows in the slab; NaN where there are none. ``found_coverage``, of the ``found_n``
    rows that found it, is biased low. The slab is low <= v'x <= high, with v = ``direction`` (d,)
    of unit length and x standardised ``columns``: names, x0, x1, ... of an array, ``name=label``
    for the indicator of a label; ``source`` is the position in X behind each. Along one column it
    runs, in its own unit, from center + scale * low to center + scale * high.
    """

    coverage: float
    lower: float
    upper: float
    n: int
    found_coverage: float
    found_n: int
    direction: Array
    low: float
    high: float
    columns: tuple[str, ...]
    source: NDArray[np.intp]
    center: Array
    scale: Array

    def __float__(self) -> float:
        return self.coverage

    def frame(self) -> Any:
        """Columns by their weight in the direction, the largest first (pandas)."""
        order = np.argsort(-np.abs(self.direction), kind="stable")
        names = [self.columns[j] for j in order]
        return make_frame({"column": names, "weight": self.direction[order]}, None)


def worst_slab_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    X: Any,
    *,
    delta: float = 0.1,
    n_directions: int = 1000,
    probability: float = 0.95,
    random_state: int = 0,
) -> WorstSlab | list[WorstSlab]:
    """Coverage of the worst slab, found on a quarter of the rows, reported on the others.

    Intervals with coverage tau at every x have tau here too, within the band; MAPIE's and
    covmetrics' functions of this name report the rows that found the slab, and lie below.
    Directions are the columns themselves and random unit vectors. At most 10,000 rows find the
    slab; all others report.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    X : array or frame of shape (n, d), or columns that were read before
        Standardised here; missing values are at the mean, labels become indicators.
    delta : float, default=0.1
        Least share of the finding rows in a slab.
    n_directions : int, default=1000
    probability : float, default=0.95
        With which the band holds.
    random_state : int, default=0
        Seed of the directions and of the split.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(4000, 2)), rng.normal(size=4000)
    >>> y[X[:, 0] > 0.8] *= 2.0
    >>> slab = worst_slab_coverage(y, np.tile([-2.0, 2.0], (4000, 1)), X)
    >>> slab.upper < 0.85
    True
    """
    if not 0.0 < delta <= 1.0 or n_directions < 0:
        raise ValueError(
            f"got delta={delta} and n_directions={n_directions}; expected a share in (0, 1] and "
            "0 or more directions."
        )

    def of_level(y: Array, bounds: Array) -> WorstSlab:
        points, described = _standardised(read_columns(X, len(y)))
        inside, rng = is_covered(y, bounds), np.random.default_rng(random_state)
        directions = _draw_directions(points.shape[1], n_directions, rng)
        order = rng.permutation(len(y))
        n_find = min(int(np.ceil(_FIND_SHARE * len(y))), MAX_FIND_ROWS)
        find, report = order[:n_find], order[n_find:]
        v, low, high = find_slab(points[find], inside[find], directions, delta)
        found, held = (inside[r][in_slab(points[r], v, low, high)] for r in (find, report))
        lower, upper = binomial_band(int(held.sum()), len(held), probability)
        share = float(held.mean()) if len(held) else float("nan")
        counted = share, float(lower), float(upper), len(held), float(found.mean()), len(found)
        return WorstSlab(*counted, v, low, high, *described)

    return each_level(of_level, y_true, intervals)


def _standardised(columns: list[Column]) -> tuple[Array, tuple[Any, ...]]:
    """Points (n, d) of mean 0 and variance 1; the name, source, center and scale of each column.

    Missing values are at the mean, 0, and so is every value of a constant column.
    """
    found: list[tuple[str, int, Array]] = []
    for j, column in enumerate(columns):
        values = column.numbers
        if column.kind != LABEL or column.is_flag:
            found.append((column.name, j, values))
            continue
        for code, label in enumerate(column.labels[:_MAX_INDICATORS]):
            is_it = np.where(np.isnan(values), np.nan, values == code)
            found.append((f"{column.name}={label}", j, is_it))
    found = found or [(columns[0].name, 0, np.zeros(len(columns[0].numbers)))]
    names, source, given = zip(*found, strict=True)
    points, center, scale = zip(*map(_standardise, given), strict=True)
    described = names, np.array(source), np.array(center), np.array(scale)
    return np.stack(points, axis=1), described


def _standardise(column: Array) -> tuple[Array, float, float]:
    """(column - mean) / standard deviation over what is known, 0 where it is not; mean and sd."""
    known = np.isfinite(column)
    result = np.zeros_like(column)
    if not known.any():
        return result, 0.0, 0.0
    # In units of its largest entry: squares of huge numbers would overflow.
    unit = float(np.abs(column[known]).max()) or 1.0
    scaled = column[known] / unit
    mean = float(scaled.mean())
    centred = scaled - mean
    spread = float(np.sqrt(np.mean(centred**2)))
    if spread > 1e-12:
        result[known] = centred / spread
    return result, unit * mean, unit * spread


def _draw_directions(d: int, n_directions: int, rng: np.random.Generator) -> Array:
    """The d axes, and random unit vectors where there is more than one axis; (M, d)."""
    if d == 1:
        return np.ones((1, 1))
    drawn = rng.standard_normal((n_directions, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.concatenate([np.eye(d), drawn])


def in_slab(points: Array, v: Array, low: float, high: float) -> NDArray[np.bool_]:
    """Which rows lie in the slab."""
    projected = points @ v
    return (projected >= low - _TIE) & (projected <= high + _TIE)


def find_slab(
    points: Array, covered: NDArray[np.bool_], directions: Array, delta: float
) -> tuple[Array, float, float]:
    """v (d,), a, b of the slab that covers worst; points (n, d), directions (M, d).

    Of slabs that cover equally badly, one along the first d directions is taken: the columns.
    """
    n, d = points.shape
    fewest = max(1, int(np.ceil(delta * n)))
    best, found = np.inf, (directions[0], -np.inf, np.inf)
    step = max(1, _BLOCK // n)
    starts = [*range(0, d, step), *range(d, len(directions), step)]
    for start, end_of_block in pairwise([*starts, len(directions)]):
        block = directions[start:end_of_block]
        projected = block @ points.T
        order = np.argsort(projected, axis=1)
        projected = np.take_along_axis(projected, order, axis=1)
        breaks = np.ones((len(block), n + 1), dtype=bool)
        breaks[:, 1:-1] = np.diff(projected, axis=1) > _TIE
        mean, first, end, which = _worst_segment(covered[order], fewest, breaks, best)
        if mean < best:
            best = mean
            found = (block[which], projected[which, first], projected[which, end - 1])
    return found[0], float(found[1]), float(found[2])


def _worst_segment(
    covered: NDArray[np.bool_], fewest: int, breaks: NDArray[np.bool_], known: float = np.inf
) -> tuple[float, int, int, int]:
    """Least mean of a segment of ``fewest`` entries of one row, its start, end and row.

    ``covered`` is (M, n); ``breaks`` (M, n + 1) says where a segment may begin and end, which is
    not between equal projections; only a mean below ``known`` is looked for.
    """
    n = covered.shape[1]
    sums = np.concatenate([np.zeros((len(covered), 1)), np.cumsum(covered, axis=1)], axis=1)
    best = (known, 0, n, 0)
    # 2 is above every mean: the first pass then finds some segment.
    target = min(known, 2.0)
    while True:
        excess = sums - target * np.arange(n + 1)
        start = np.where(breaks, excess, -np.inf)[:, : n + 1 - fewest]
        end = np.where(breaks, excess, np.inf)[:, fewest:]
        below = end - np.maximum.accumulate(start, axis=1)
        row, last = np.unravel_index(np.argmin(below), below.shape)
        # Sums are whole numbers and targets fractions of n: a true improvement is above 1e-9.
        if not below[row, last] < -1e-9:
            return best
        first, stop = int(np.argmax(start[row, : last + 1])), int(last) + fewest
        target = float((sums[row, stop] - sums[row, first]) / (stop - first))
        best = (target, first, stop, int(row))
