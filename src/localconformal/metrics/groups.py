"""Coverage of parts: of groups of rows, of strata of the length, of each level; exact bands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.columns import as_labels
from localconformal.frames import make_frame
from localconformal.metrics._check import check_levels, check_pair, each_level, number_or_array
from localconformal.metrics.coverage import binomial_band, is_covered
from localconformal.metrics.size import lengths, tied_lengths
from localconformal.quantiles import Array


@dataclass(frozen=True, eq=False)
class GroupCoverage:
    """Coverage of each of G groups.

    Attributes
    ----------
    group : array of shape (G,)
        Labels, sorted; what is missing is the last, None, NaN or NaT.
    n : array of shape (G,)
        Rows of the group.
    coverage : array of shape (G,)
    gap : array of shape (G,)
        coverage - confidence_level: negative where the group is covered too rarely.
    lower, upper : array of shape (G,)
        Exact binomial band of the coverage. Each holds with its probability on its own: among
        20 groups of 95 % bands, expect one to miss.
    confidence_level : float
    """

    group: NDArray[Any]
    n: NDArray[np.intp]
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    confidence_level: float

    def frame(self) -> Any:
        """One row per group (pandas)."""
        return make_frame(asdict(self), None)


def group_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike,
    confidence_level: float | ArrayLike = 0.9,
    *,
    probability: float = 0.95,
) -> GroupCoverage | list[GroupCoverage]:
    """Coverage, gap and exact binomial band of each group.

    The bands hold for groups that were chosen before looking at ``y_true``, on rows that
    neither trained nor calibrated the intervals.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    groups : array of shape (n,)
        Labels of any kind; missing ones of whatever kind are one group. Labels of mixed kinds are
        told apart by their text.
    confidence_level : float or array of shape (L,), default=0.9
    probability : float, default=0.95
        With which each band holds.

    Returns
    -------
    GroupCoverage
        A list, one per level, for intervals of shape (n, 2, L).

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> result = group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> result.coverage, result.n
    (array([1. , 0.5]), array([2, 2]))
    """

    def of_level(y: Array, bounds: Array, level: float) -> GroupCoverage:
        labels, codes = group_codes(groups, len(y))
        counted = _count_groups(codes, is_covered(y, bounds), level, probability)
        return GroupCoverage(labels, **counted)

    return each_level(of_level, y_true, intervals, confidence_level)


def coverage_gap(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike | None = None,
    confidence_level: float | ArrayLike = 0.9,
    *,
    weighted: bool = False,
) -> float | Array:
    """Mean over groups of |coverage - confidence_level|; 0 is ideal, and noise adds to it.

    Without groups it is |coverage - confidence_level|, by which a search finds intervals that
    cover what they should: the `coverage` itself is highest for the widest.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    groups : array of shape (n,), default=None
        None is one group of all rows.
    confidence_level : float or array of shape (L,), default=0.9
    weighted : bool, default=False
        Groups count by their rows, instead of equally.

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"], 0.75)
    0.25
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, confidence_level=0.75)
    0.0
    """

    def of_level(y: Array, bounds: Array, level: float) -> float:
        _, codes = group_codes(np.zeros(len(y)) if groups is None else groups, len(y))
        counted = _count_groups(codes, is_covered(y, bounds), level)
        weights = counted["n"] if weighted else None
        return float(np.average(np.abs(counted["gap"]), weights=weights))

    return number_or_array(each_level(of_level, y_true, intervals, confidence_level))


def _count_groups(
    codes: NDArray[np.intp], covered: NDArray[np.bool_], level: float, probability: float = 0.95
) -> dict[str, Any]:
    """Rows, coverage, gap and band of the groups 0, 1, ..., none of which is empty."""
    n = np.bincount(codes)
    hits = np.bincount(codes[covered], minlength=len(n))
    lower, upper = binomial_band(hits, n, probability)
    return {
        "n": n,
        "coverage": hits / n,
        "gap": hits / n - level,
        "lower": lower,
        "upper": upper,
        "confidence_level": level,
    }


def group_codes(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels (G,), sorted, and the position of each row's label among them (n,).

    All that is missing (None, NaN, NaT, pandas.NA) is one label, the last: None among texts.
    """
    given = np.asarray(groups)
    if given.shape != (n,):
        raise ValueError(
            f"groups have shape {given.shape}; ({n},) was expected, one label for each row."
        )
    if given.dtype.kind in "US" and not isinstance(groups, np.ndarray):
        # NumPy makes texts of what is missing in a list of texts.
        given = np.array(list(groups), dtype=object)  # type: ignore[arg-type]
    if given.dtype.kind != "O":
        return np.unique(given, return_inverse=True)
    named = as_labels(given)
    missing = np.array([label is None for label in named], dtype=bool)
    texts = named[~missing].astype(np.str_)
    labels, place = np.unique(texts, return_inverse=True)
    codes = np.full(n, len(labels), dtype=np.intp)
    codes[~missing] = place
    return (np.array([*labels.tolist(), None], dtype=object) if missing.any() else labels), codes


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

    def of_level(y: Array, bounds: Array, level: float) -> SizeStratifiedCoverage:
        length = tied_lengths(bounds)
        codes = size_bins(length, n_bins)
        shortest = np.full(codes.max() + 1, np.inf)
        longest = np.zeros_like(shortest)
        np.minimum.at(shortest, codes, length)
        np.maximum.at(longest, codes, length)
        counted = _count_groups(codes, is_covered(y, bounds), level, probability)
        return SizeStratifiedCoverage(shortest, longest, **counted)

    return each_level(of_level, y_true, intervals, confidence_level)


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

    def of_level(y: Array, bounds: Array) -> float:
        codes = size_bins(tied_lengths(bounds), n_bins)
        hits = np.bincount(codes, weights=is_covered(y, bounds))
        return float((hits / np.bincount(codes)).min())

    return number_or_array(each_level(of_level, y_true, intervals))


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


@dataclass(frozen=True, eq=False)
class CoverageLengthCurve:
    """Coverage and length of L levels, in ascending order of the level.

    Attributes
    ----------
    confidence_level : array of shape (L,)
    coverage : array of shape (L,)
    gap : array of shape (L,)
        coverage - confidence_level.
    lower, upper : array of shape (L,)
        Exact binomial band of the coverage, given the intervals.
    mean_length, median_length : array of shape (L,)
        +inf as `mean_length` and `median_length` say.
    """

    confidence_level: Array
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    mean_length: Array
    median_length: Array

    def frame(self) -> Any:
        """One row per level (pandas)."""
        return make_frame(asdict(self), None)


def coverage_length_curve(
    y_true: ArrayLike,
    intervals: ArrayLike,
    confidence_level: ArrayLike,
    *,
    probability: float = 0.95,
) -> CoverageLengthCurve:
    """Coverage with its band, mean and median length, for each level.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2, L)
        As ``predict_interval(X, confidence_level=levels)`` gives them.
    confidence_level : array of shape (L,)
    probability : float, default=0.95
        With which the band of each level holds.

    Examples
    --------
    >>> intervals = np.array([[[0.4, 0.0], [0.6, 1.0]]] * 4)
    >>> curve = coverage_length_curve([0.5, 0.5, 0.1, 0.8], intervals, [0.5, 0.9])
    >>> curve.coverage, curve.median_length.round(1)
    (array([0.5, 1. ]), array([0.2, 1. ]))
    """
    y, bounds = check_pair(y_true, intervals)
    bounds = bounds.reshape(len(y), 2, -1)
    levels = check_levels(confidence_level, bounds)
    order = np.argsort(levels, kind="stable")
    levels, bounds = levels[order], bounds[:, :, order]
    hits, length = is_covered(y.reshape(-1, 1), bounds).sum(axis=0), lengths(bounds)
    lower, upper = binomial_band(hits, len(y), probability)
    return CoverageLengthCurve(
        confidence_level=levels,
        coverage=hits / len(y),
        gap=hits / len(y) - levels,
        lower=np.asarray(lower),
        upper=np.asarray(upper),
        mean_length=length.mean(axis=0),
        median_length=np.median(length, axis=0),
    )
