"""A band of the coverage that holds at all times at once, whatever the stream does.

Let q_t be the chance of row t to be covered given all before it, and k of the first t rows covered.
For every number a,

    exp(a k) / prod_i (1 + q_i (e^a - 1))

is a martingale, and the product is at most (1 + q (e^a - 1))^t with q the mean of q_1..q_t, since
the logarithm is concave. So the mixture of exp(a k) / (1 + q (e^a - 1))^t over a fixed grid of
a > 0 reaches 2 / delta ever with probability delta / 2 at most. It falls in q: those q where it is
below 2 / delta are the ones above a lower bound. Rows that are missed give the upper one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.quantiles import Array

#: The numbers a: for a handful of rows to hundreds of millions.
GRID = 2.0 ** np.arange(2.0, -12.0, -0.5)
HALVINGS = 50


def anytime_band(n_covered: ArrayLike, n: ArrayLike, probability: float) -> tuple[Array, Array]:
    """Lower and upper bounds of the mean chance to be covered: (m,), (m,); (0, 1) without rows.

    With at least this probability they hold at every row of the stream.

    Examples
    --------
    >>> low, high = anytime_band([0, 90, 9_000], [0, 100, 10_000], 0.95)
    >>> low.round(2), high.round(2)
    (array([0.  , 0.77, 0.89]), array([1.  , 0.97, 0.91]))
    """
    k, rows = np.asarray(n_covered, dtype=np.float64), np.asarray(n, dtype=np.float64)
    log_limit = np.log(2.0 / (1.0 - probability))
    return lower_bound(k, rows, log_limit), 1.0 - lower_bound(rows - k, rows, log_limit)


def lower_bound(k: Array, n: Array, log_limit: float) -> Array:
    """The largest q, by bisection, below which the mixture is at the limit: (m,)."""
    low, high = np.zeros(len(k)), np.ones(len(k))
    for _ in range(HALVINGS):
        q = (low + high) / 2.0
        reached = log_mixture(k, n, q) >= log_limit
        low, high = np.where(reached, q, low), np.where(reached, high, q)
    return np.where(log_mixture(k, n, np.zeros(len(k))) >= log_limit, low, 0.0)


def log_mixture(k: Array, n: Array, q: Array) -> Array:
    """Logarithm of the mean over the grid of exp(a k) / (1 + q (e^a - 1))^n: (m,)."""
    growth = np.log1p(q[:, None] * np.expm1(GRID))
    terms = GRID * k[:, None] - n[:, None] * growth
    largest = terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).mean(axis=1)))
