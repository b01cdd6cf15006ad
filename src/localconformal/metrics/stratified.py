"""Coverage by the size of the intervals: are long and short ones covered alike?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.frames import make_frame
from localconformal.metrics._check import (
    check_levels,
    check_pair,
    one_number_or_all,
    one_or_all,
    split_levels,
)
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.groups import count_groups
from localconformal.metrics.size import tied_lengths
from localconformal.quantiles import Array


@dataclass(frozen=True, eq=False)
class SizeStratifiedCoverage:
    """Coverage of B bins of intervals, from the shortest to the longest.

    Attributes
    ----------
    shortest, longest : array of shape (B,)
        Lengths at the ends of the bin.
    n : array of shape (B,)
        Rows of the bin.
    coverage : array of shape (B,)
    gap : array of shape (B,)
        coverage - confidence_level.
    lower, upper : array of shape (B,)
        Exact binomial band of the coverage.
    confidence_level : float
    """

    shortest: Array
    longest: Array
    n: NDArray[np.intp]
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    confidence_level: float

    def frame(self) -> Any:
        """One row per bin (pandas)."""
        return make_frame(asdict(self), None)


def size_stratified_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float | ArrayLike = 0.9,
    *,
    n_bins: int = 5,
    probability: float = 0.95,
) -> SizeStratifiedCoverage | list[SizeStratifiedCoverage]:
    """Coverage within quantile bins of the length.

    Equal lengths stay together, in the bin of their middle row, so that bins may be fewer:
    intervals of one length are one bin. Infinite lengths are a bin of their own, the last.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    confidence_level : float or array of shape (L,), default=0.9
    n_bins : int, default=5
        Bins of the finite lengths, at most.
    probability : float, default=0.95
        With which the band of each bin holds.

    Returns
    -------
    SizeStratifiedCoverage
        A list, one per level, for intervals of shape (n, 2, L).

    Examples
    --------
    >>> intervals = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
    >>> result = size_stratified_coverage([0.5, 3.0, 1.0, 1.0], intervals, n_bins=2)
    >>> result.coverage, result.longest
    (array([0.5, 1. ]), array([2., 4.]))
    """
    y, bounds = check_pair(y_true, intervals)
    levels = check_levels(confidence_level, bounds)
    results = [
        _stratify(y.reshape(-1), part, level, n_bins, probability)
        for part, level in zip(split_levels(bounds), levels, strict=True)
    ]
    return one_or_all(results, bounds)


def size_stratified_coverage_score(
    y_true: ArrayLike, intervals: ArrayLike, *, n_bins: int = 5
) -> float | Array:
    """Coverage of the worst bin of `size_stratified_coverage`; the level is ideal.

    Being a minimum over bins it lies below the level by noise too; see the bands.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    n_bins : int, default=5

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> intervals = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
    >>> size_stratified_coverage_score([0.5, 3.0, 1.0, 1.0], intervals, n_bins=2)
    0.5
    """
    y, bounds = check_pair(y_true, intervals)
    worst = []
    for part in split_levels(bounds):
        codes, inside = size_bins(tied_lengths(part), n_bins), is_covered(y.reshape(-1), part)
        worst.append(float((np.bincount(codes, weights=inside) / np.bincount(codes)).min()))
    return one_number_or_all(worst, bounds)


def _stratify(
    y: Array, bounds: Array, level: float, n_bins: int, probability: float
) -> SizeStratifiedCoverage:
    """The table of one level; bounds (n, 2)."""
    length = tied_lengths(bounds)
    codes = size_bins(length, n_bins)
    shortest = np.full(codes.max() + 1, np.inf)
    longest = np.zeros_like(shortest)
    np.minimum.at(shortest, codes, length)
    np.maximum.at(longest, codes, length)
    counted = count_groups(codes, is_covered(y, bounds), level, probability)
    return SizeStratifiedCoverage(shortest, longest, **counted)


def size_bins(length: Array, n_bins: int) -> NDArray[np.intp]:
    """Bin of each length (n,), numbered 0, 1, ... without gaps.

    Without ties the bins are those of ``np.array_split`` of the sorted lengths.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins is {n_bins}; at least 1 was expected.")
    finite = np.isfinite(length)
    _, place, counts = np.unique(length[finite], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    in_each, rest = divmod(int(finite.sum()), n_bins)
    ends = np.cumsum(in_each + (np.arange(n_bins) < rest))
    bins = np.full(len(length), n_bins)
    bins[finite] = np.searchsorted(ends, middle, side="right")[place]
    return np.unique(bins, return_inverse=True)[1]
