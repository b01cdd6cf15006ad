"""How wide intervals are, and width and misses in one proper score."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics._check import check_intervals, check_pair
from localconformal.quantiles import Array


def mean_length(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Mean of upper - lower; +inf as soon as one interval is infinite.

    Examples
    --------
    >>> mean_length(None, [[0.0, 1.0], [0.0, 3.0]])
    2.0
    """
    bounds = check_intervals(intervals)
    length = (bounds[:, 1] - bounds[:, 0]).mean(axis=0)
    return float(length) if length.ndim == 0 else np.asarray(length)


def interval_score(
    y_true: ArrayLike, intervals: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """Mean Winkler score: length + (2 / alpha) (distance by which y falls outside).

    Lower is better; its minimiser is the interval of the alpha/2 and 1 - alpha/2 quantiles.

    Examples
    --------
    >>> interval_score([2.0], [[0.0, 1.0]], confidence_level=0.5)
    5.0
    """
    y, bounds = check_pair(y_true, intervals)
    lower, upper = bounds[:, 0], bounds[:, 1]
    alpha = 1.0 - np.asarray(confidence_level, dtype=np.float64)
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    score = (upper - lower + 2.0 / alpha * outside).mean(axis=0)
    return float(score) if score.ndim == 0 else np.asarray(score)
