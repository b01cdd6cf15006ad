"""Shapes of (y_true, intervals), checked once for every metric."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.quantiles import Array


def check_intervals(intervals: ArrayLike) -> Array:
    """Intervals as a float array, (n, 2) or (n, 2, L)."""
    bounds = np.asarray(intervals, dtype=np.float64)
    if bounds.ndim not in (2, 3) or bounds.shape[1] != 2:
        raise ValueError(
            f"intervals have shape {bounds.shape}; (n, 2) or (n, 2, L) was expected: stack lower "
            "and upper bounds along the second axis."
        )
    return bounds


def check_pair(y_true: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y, shaped to be compared with the bounds of each level, and intervals."""
    y, bounds = np.asarray(y_true, dtype=np.float64), check_intervals(intervals)
    if y.shape != bounds.shape[:1]:
        raise ValueError(
            f"y_true has shape {y.shape} and intervals {bounds.shape}; (n,) was expected for "
            "y_true, with as many rows as intervals."
        )
    if np.isnan(y).any():
        raise ValueError("y_true has NaN; numbers were expected: leave such rows out.")
    return y.reshape(y.shape + (1,) * (bounds.ndim - 2)), bounds
