"""How wide intervals are, and width and misses in one proper score.

The length of an empty set (lower > upper, or both bounds at the same infinity) is 0. Infinite
lengths count as they are: a mean or median of finite lengths alone would praise a method for
giving up on the hard rows; `share_infinite` says how many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics._check import (
    check_intervals,
    check_levels,
    check_pair,
    number_or_array,
)
from localconformal.quantiles import Array

#: Lengths closer than this many units in the last place of their bounds differ by rounding.
ROUNDING = 32.0 * np.finfo(np.float64).eps


def mean_length(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Mean of upper - lower; +inf as soon as one interval is infinite.

    Examples
    --------
    >>> mean_length(None, [[0.0, 1.0], [0.0, 3.0]])
    2.0
    """
    return number_or_array(lengths(check_intervals(intervals)).mean(axis=0))


def median_length(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Median of upper - lower; +inf once half of the intervals are infinite.

    Examples
    --------
    >>> median_length(None, [[0.0, 1.0], [0.0, 3.0], [0.0, float("inf")]])
    3.0
    """
    return number_or_array(np.median(lengths(check_intervals(intervals)), axis=0))


def share_infinite(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of intervals of infinite length.

    Examples
    --------
    >>> share_infinite(None, [[0.0, 1.0], [0.0, float("inf")]])
    0.5
    """
    return number_or_array(np.isinf(lengths(check_intervals(intervals))).mean(axis=0))


def share_empty(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of intervals that hold no number: lower > upper, or both at the same infinity.

    Examples
    --------
    >>> share_empty(None, [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [3.0, 4.0]])
    0.25
    """
    return number_or_array(is_empty(check_intervals(intervals)).mean(axis=0))


def interval_score(
    y_true: ArrayLike, intervals: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """Mean Winkler score: length + (2 / alpha) (distance by which y falls outside).

    Lower is better; its minimiser is the interval of the alpha/2 and 1 - alpha/2 quantiles.
    Crossed bounds are scored as the two quantiles they stand for: their length counts as
    negative, and y misses one of them, or both. Infinite intervals score +inf.

    Examples
    --------
    >>> interval_score([2.0], [[0.0, 1.0]], confidence_level=0.5)
    5.0
    """
    y, bounds = check_pair(y_true, intervals)
    lower, upper = bounds[:, 0], bounds[:, 1]
    alpha = 1.0 - check_levels(confidence_level, bounds)
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    # Both bounds at one infinity: the miss counts, and the length is undefined.
    length = np.subtract(upper, lower, out=np.zeros_like(upper), where=upper != lower)
    score = np.where(np.isinf(outside), np.inf, length) + 2.0 / alpha * outside
    return number_or_array(score.mean(axis=0))


def is_empty(bounds: Array) -> NDArray[np.bool_]:
    """Which intervals hold no real number; (n, 2) -> (n,), (n, 2, L) -> (n, L)."""
    lower, upper = bounds[:, 0], bounds[:, 1]
    return (lower > upper) | (lower == np.inf) | (upper == -np.inf)


def lengths(bounds: Array) -> Array:
    """upper - lower, 0 for empty sets; (n, 2) -> (n,), (n, 2, L) -> (n, L)."""
    lower, upper = bounds[:, 0], bounds[:, 1]
    return np.subtract(upper, lower, out=np.zeros_like(upper), where=upper > lower)


def tied_lengths(bounds: Array) -> Array:
    """Lengths (n,) of (n, 2), those that differ by the rounding of their bounds made equal.

    Intervals mu(x) +- q are of one length, and upper - lower is not: its last digits would be
    taken for a difference by whatever ranks or standardises lengths.

    Examples
    --------
    >>> mu = np.array([0.1, 0.7, 1234.5])
    >>> bounds = np.stack([mu - 0.3, mu + 0.3], axis=1)
    >>> len(set(lengths(bounds))), len(set(tied_lengths(bounds)))
    (3, 1)
    """
    length = lengths(bounds)
    finite = np.flatnonzero(np.isfinite(length))
    if len(finite) == 0:
        return length
    order = finite[np.argsort(length[finite], kind="stable")]
    size = np.abs(bounds[order]).max(axis=1, where=np.isfinite(bounds[order]), initial=0.0)
    apart = np.diff(length[order]) > ROUNDING * np.maximum(size[1:], size[:-1])
    first = np.maximum.accumulate(np.where(np.append(True, apart), np.arange(len(apart) + 1), 0))
    length[order] = length[order][first]
    return length
