"""Coverage and length over levels: is what is asked for what is got, and at what price?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.frames import make_frame
from localconformal.metrics._check import check_levels, check_pair
from localconformal.metrics.binomial import binomial_band
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import lengths
from localconformal.quantiles import Array


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
