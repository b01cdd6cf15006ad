"""Is a coverage off its target by more than chance, when many are looked at?"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc
from scipy.stats import hypergeom

from localconformal.quantiles import Array

#: What is called significant.
ALPHA = 0.05


def coverage_p_values(n_covered: ArrayLike, n: ArrayLike, confidence_level: float) -> Array:
    """Exact two-sided p-values of "the coverage is confidence_level", one a count.

    With K ~ Binomial(n, tau) they are 2 min(P(K <= k), P(K >= k)), at most 1. Of the two-sided
    binomial tests this is the one that agrees with `binomial_band`: it is below 0.05 exactly when
    the 95 % band leaves tau out.

    Parameters
    ----------
    n_covered, n : int or array of ints
    confidence_level : float

    Returns
    -------
    array

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


def is_off(n_covered: int, n: int, confidence_level: float) -> bool:
    """Whether the coverage of all rows is off the target at ``ALPHA``."""
    return bool(coverage_p_values(n_covered, n, confidence_level) < ALPHA)


def rest_p_values(n_covered: ArrayLike, n: ArrayLike, all_covered: int, n_all: int) -> Array:
    """Exact two-sided p-values of "covered as the other rows are", one a count.

    Given that ``all_covered`` of all ``n_all`` rows are, k of n is then hypergeometric, whatever
    the coverage that the rows share; the smaller tail is doubled, as in `coverage_p_values`.
    Without other rows the p-value is 1.

    Parameters
    ----------
    n_covered, n : int or array of ints
        Of a part of the rows.
    all_covered, n_all : int

    Returns
    -------
    array

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


def stands_out(part: Any) -> bool:
    """Whether a rule, cell or failure is beyond the other rows too, on its side of the target."""
    return bool(part.adjusted_rest_p_value <= ALPHA and part.gap * part.rest_gap > 0)


def holm(p_values: ArrayLike) -> Array:
    """p-values adjusted by Holm's method, in the order given.

    Sorted ascending, p_(i) of m becomes max over j <= i of (m - j + 1) p_(j), at most 1. To call
    significant what is below alpha then errs at all, even once, with probability alpha at most,
    whatever the dependence. Bins of many features hold the same rows, so that nothing is known of
    theirs. Benjamini and Yekutieli's method also bears any dependence, but keeps a weaker promise
    (a share of the findings may be false), and asks more of the first finding than Holm does.

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
