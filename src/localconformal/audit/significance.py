"""Is a coverage off its target by more than chance, when many are looked at?"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from localconformal.quantiles import Array


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
