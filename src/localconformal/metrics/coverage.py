"""Share of rows inside their interval, and the band it should lie in."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import betabinom

from localconformal.metrics._check import check_pair, check_probability, number_or_array
from localconformal.quantiles import Array, conformal_rank


def coverage(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of rows with lower <= y <= upper; one number per level.

    Examples
    --------
    >>> coverage([0.0, 2.0], [[0.0, 1.0], [0.0, 1.0]])
    0.5
    """
    return number_or_array(is_covered(*check_pair(y_true, intervals)).mean(axis=0))


def is_covered(y: Array, bounds: Array) -> NDArray[np.bool_]:
    """Whether lower <= y <= upper, (n,) or (n, L), of a pair that was checked."""
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


def coverage_band(
    n_calibration: int, n_test: int, confidence_level: float, probability: float = 0.95
) -> tuple[float, float]:
    """Where the coverage of ``n_test`` new rows lies with this probability.

    Given its calibration set, split conformal prediction with continuous scores covers a new
    row with probability Beta(k, n + 1 - k), k = ceil((n + 1) tau); so the number of test rows
    covered is Beta-binomial.

    Examples
    --------
    >>> low, high = coverage_band(500, 1000, 0.9)
    >>> round(low, 3), round(high, 3)
    (0.866, 0.93)
    """
    if not 0.0 < confidence_level < 1.0 or n_calibration < 1 or n_test < 1:
        raise ValueError(
            f"got n_calibration={n_calibration}, n_test={n_test} and confidence_level="
            f"{confidence_level}; at least one row each and a level inside (0, 1) were expected."
        )
    tail = (1.0 - check_probability(probability)) / 2.0
    return _band(n_calibration, n_test, confidence_level, tail)


@lru_cache(maxsize=1024)
def _band(
    n_calibration: int, n_test: int, confidence_level: float, tail: float
) -> tuple[float, float]:
    """Remembered: the quantiles take milliseconds, and tables ask for the same ones."""
    k = conformal_rank(n_calibration, confidence_level)
    if k > n_calibration:
        return 1.0, 1.0
    law = betabinom(n_test, k, n_calibration + 1 - k)
    return float(law.ppf(tail)) / n_test, float(law.ppf(1.0 - tail)) / n_test
