"""What may be done to bounds: round them outward, uncross them, nest them.

Each step only enlarges the sets, so that coverage is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array


def round_up(a: Array, b: Array | float = 0.0) -> Array:
    """a + b, moved up by a few units in the last place of its terms.

    theta* is the score of a calibration row. On discrete data new rows have that very score, and
    fl(v - q) <= theta does not imply v <= fl(q + theta): such rows must not fall out by rounding.

    Examples
    --------
    >>> v, q = 0.1, 0.4
    >>> theta = v - q
    >>> bool(v <= q + theta), bool(v <= round_up(q, theta))
    (False, True)
    """
    total = np.asarray(a + b)
    slack = 4.0 * np.finfo(np.float64).eps * (np.abs(a) + np.abs(b))
    # An infinite sum has no last place, and its slack could turn it into NaN.
    return total + np.where(np.isfinite(total), slack, 0.0)


def crossed(intervals: Array) -> NDArray[np.bool_]:
    """Where lower > upper, that is, where the set is empty; (n, 2, L) -> (n, L)."""
    return intervals[:, 0] > intervals[:, 1]


def collapse_crossed(intervals: Array) -> Array:
    """Empty sets become the midpoint of their bounds: a point encloses the empty set.

    Examples
    --------
    >>> collapse_crossed(np.array([[[3.0], [1.0]]])).ravel()
    array([2., 2.])
    """
    row, level = np.nonzero(crossed(intervals))
    uncrossed = intervals.copy()
    # Halves first: a sum of huge bounds would overflow.
    uncrossed[row, :, level] = (0.5 * intervals[row, :, level]).sum(axis=1, keepdims=True)
    return uncrossed


def nest(intervals: Array, levels: Array) -> Array:
    """The hull of each interval and those of the lower levels; (n, 2, L), levels (L,).

    Examples
    --------
    >>> nest(np.array([[[0.0, 0.5], [2.0, 3.0]]]), np.array([0.5, 0.9]))[0]
    array([[0., 0.],
           [2., 3.]])
    """
    order = np.argsort(levels, kind="stable")
    nested = np.empty_like(intervals)
    nested[:, 0, order] = np.minimum.accumulate(intervals[:, 0, order], axis=1)
    nested[:, 1, order] = np.maximum.accumulate(intervals[:, 1, order], axis=1)
    return nested
