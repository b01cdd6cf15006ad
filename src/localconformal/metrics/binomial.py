"""Exact bands of a share of independent rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from localconformal.metrics._check import check_probability, number_or_array
from localconformal.quantiles import Array


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
    tail = (1.0 - check_probability(probability)) / 2.0
    # Beta(0, .) and Beta(., 0) stand at 0 and at 1; the maxima only keep betaincinv defined.
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), rows - k + 1, tail), 0.0)
    upper = np.where(k < rows, betaincinv(k + 1, np.maximum(rows - k, 1), 1.0 - tail), 1.0)
    return number_or_array(lower), number_or_array(upper)
