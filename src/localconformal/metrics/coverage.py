"""Share of rows inside their interval; exact bands and tests of such shares."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv
from scipy.stats import betabinom, hypergeom

from localconformal.metrics._check import check_pair, number_or_array
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
    tail = _tail(probability)
    return _band(n_calibration, n_test, confidence_level, tail)


def _tail(probability: float) -> float:
    """What a band leaves out on either side."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability is {probability}; a number in (0, 1) was expected.")
    return (1.0 - probability) / 2.0


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


def binomial_band(
    n_covered: ArrayLike, n: ArrayLike, probability: float = 0.95
) -> tuple[float | Array, float | Array]:
    """Exact (Clopper-Pearson) band of the coverage behind ``n_covered`` of ``n`` rows.

    With k of n rows covered and t = (1 - probability) / 2, it runs from the t-quantile of
    Beta(k, n - k + 1) to the (1 - t)-quantile of Beta(k + 1, n - k), and holds the true coverage
    with at least this probability, whatever n. Without rows it is (0, 1).

    Parameters
    ----------
    n_covered, n : int or array of ints
        Counts, not shares.
    probability : float, default=0.95

    Returns
    -------
    lower, upper : float or array

    Examples
    --------
    >>> low, high = binomial_band(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.824, 0.951)
    >>> binomial_band(0, 0)
    (0.0, 1.0)
    """
    k, rows = np.broadcast_arrays(np.asarray(n_covered), np.asarray(n))
    if not all(np.issubdtype(counts.dtype, np.integer) for counts in (k, rows)):
        raise ValueError(
            f"n_covered is of type {k.dtype} and n of {rows.dtype}; whole numbers were expected: "
            "pass how many rows are covered, not their share."
        )
    if not np.all((k >= 0) & (k <= rows)):
        raise ValueError(f"n_covered is {k} and n is {rows}; 0 <= n_covered <= n was expected.")
    tail = _tail(probability)
    # Beta(0, .) and Beta(., 0) stand at 0 and at 1; the maxima only keep betaincinv defined.
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), rows - k + 1, tail), 0.0)
    upper = np.where(k < rows, betaincinv(k + 1, np.maximum(rows - k, 1), 1.0 - tail), 1.0)
    return number_or_array(lower), number_or_array(upper)


def coverage_p_values(n_covered: ArrayLike, n: ArrayLike, confidence_level: float) -> Array:
    """Exact two-sided p-values of "the coverage is confidence_level", one for each count.

    With K ~ Binomial(n, tau) they are 2 min(P(K <= k), P(K >= k)), at most 1. Of the two-sided
    binomial tests this is the one that agrees with `binomial_band`: it is below 0.05 exactly when
    the 95 % band leaves tau out.

    Examples
    --------
    >>> coverage_p_values([90, 80], 100, 0.9).round(4)
    array([1.   , 0.004])
    """
    k, rows = (np.asarray(counts, dtype=np.float64) for counts in (n_covered, n))
    # The incomplete beta function is the tail of a binomial law; the maxima keep it defined.
    at_most = betainc(np.maximum(rows - k, 1.0), k + 1.0, 1.0 - confidence_level)
    at_least = betainc(np.maximum(k, 1.0), rows - k + 1.0, confidence_level)
    at_most, at_least = np.where(k < rows, at_most, 1.0), np.where(k > 0, at_least, 1.0)
    return np.minimum(1.0, 2.0 * np.minimum(at_most, at_least))


def rest_p_values(n_covered: ArrayLike, n: ArrayLike, all_covered: int, n_all: int) -> Array:
    """Exact two-sided p-values of "covered as the other rows are", one for each count.

    Given that ``all_covered`` of all ``n_all`` rows are, k of n is then hypergeometric, whatever
    the coverage that the rows share; the smaller tail is doubled, as in `coverage_p_values`.
    Without other rows the p-value is 1.

    Examples
    --------
    >>> rest_p_values([80, 70], 100, 800, 1000).round(3)
    array([1.   , 0.016])
    """
    k, rows = (np.asarray(counts, dtype=np.int64) for counts in (n_covered, n))
    law = hypergeom(n_all, all_covered, rows)
    return np.minimum(1.0, 2.0 * np.minimum(law.cdf(k), law.sf(k - 1)))


def rest_gaps(n_covered: ArrayLike, n: ArrayLike, all_covered: int, n_all: int) -> Array:
    """Coverage of each part less that of the other rows; NaN where there are none.

    Examples
    --------
    >>> rest_gaps([8, 9], [10, 20], 9, 20)
    array([0.7, nan])
    """
    k, rows = (np.asarray(counts, dtype=np.float64) for counts in (n_covered, n))
    others = np.where(rows < n_all, n_all - rows, np.nan)
    return k / rows - (all_covered - k) / others


def holm(p_values: ArrayLike) -> Array:
    """p-values adjusted by Holm's method, in the order given.

    Sorted ascending, p_(i) of m becomes max over j <= i of (m - j + 1) p_(j), at most 1. To call
    significant what is below alpha then errs at all, even once, with probability alpha at most,
    whatever the dependence: bins of many features hold the same rows.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted[order] = np.minimum(1.0, stepped)
    return adjusted
