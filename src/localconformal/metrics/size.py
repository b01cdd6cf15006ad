"""How wide intervals are, width and misses in one proper score, and the score of whole laws.

The length of an empty set (lower > upper, or both bounds at the same infinity) is 0. Infinite
lengths count as they are: a mean or median of finite lengths alone would praise a method for
giving up on the hard rows; `share_infinite` says how many there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.frames import check_unmasked
from localconformal.metrics._check import check_intervals, check_levels, check_pair, number_or_array
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


def crps(y_true: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean CRPS of discrete predictive laws: lower is better, the true law is best.

    With the law of row i putting mass w_j on x_j, in O(k log k) by sorting,

        CRPS = sum_j w_j |x_j - y| - 1/2 sum_jk w_j w_k |x_j - x_k|
             = 2 sum_j w_j (x_j - y) (1{y < x_j} - W_j + w_j / 2),

    W_j being the running sum of the weights in the order of x. It is in the unit of y; a law
    at one point has its absolute error as CRPS.

    Parameters
    ----------
    y_true : array of shape (n,)
    values : array of shape (n, k)
        Draws from each row's law, or its quantiles at the midpoints of k equal steps of level.
    weights : array of shape (n, k) or (k,), default=None
        Mass of each value, divided by its sum in a row; None is equal weights.

    Returns
    -------
    float
        +inf as soon as one law has mass at infinity.

    Examples
    --------
    >>> crps([0.0], [[3.0]])
    3.0
    >>> crps([0.0, 0.0], [[-1.0, 1.0], [1.0, 1.0]])
    0.75
    """
    y, x, w = _check_laws(y_true, values, weights)
    order = np.argsort(x, axis=1, kind="stable")
    x, w = np.take_along_axis(x, order, axis=1), np.take_along_axis(w, order, axis=1)
    lost = np.any(np.isinf(x) & (w > 0.0), axis=1)
    # Infinite values without mass add nothing, and neither do those at y.
    distance = np.where(np.isinf(x), 0.0, x - y[:, None])
    share = (distance > 0.0) - np.cumsum(w, axis=1) + w / 2.0
    scores = 2.0 * np.sum(w * distance * share, axis=1)
    return float(np.mean(np.where(lost, np.inf, scores)))


def _check_laws(
    y_true: ArrayLike, values: ArrayLike, weights: ArrayLike | None
) -> tuple[Array, Array, Array]:
    """y (n,), values and weights (n, k) of sum one, or refused."""
    check_unmasked(y_true, "y_true")
    y, x = np.asarray(y_true, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if y.ndim != 1 or x.ndim != 2 or len(x) != len(y) or x.size == 0:
        raise ValueError(
            f"y_true has shape {y.shape} and values {x.shape}; (n,) and (n, k) were expected, "
            "with at least one value per row."
        )
    if not np.all(np.isfinite(y)) or np.isnan(x).any():
        raise ValueError(
            "y_true has NaN or infinity, or values have NaN; numbers were expected: leave such "
            "rows out."
        )
    w = np.ones_like(x) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape not in (x.shape, x.shape[1:]):
        raise ValueError(
            f"weights have shape {w.shape}; {x.shape} or {x.shape[1:]} was expected, as values "
            "have."
        )
    w = np.broadcast_to(w, x.shape)
    total = w.sum(axis=1, keepdims=True)
    if not np.all(np.isfinite(w) & (w >= 0.0)) or not np.all(total > 0.0):
        raise ValueError(
            "weights are negative, not finite, or all zero in some row; masses were expected."
        )
    return y, x, w / total
