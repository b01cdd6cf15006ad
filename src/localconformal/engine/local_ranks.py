"""Localized conformal prediction (Guan): which scores of a new row are accepted.

Every row i, calibration or new, has a law of its own: the scores of all n + 1 rows, weighted by
H(X_i, .). The local rank of i is the mass of its law strictly below its own score. A score v of
the new row x is accepted while fewer than (1 - alpha)(n + 1) calibration rows have a smaller
local rank than v has at x. The n + 1 ranks are exchangeable whatever H is, hence the coverage.

Why no search over v is needed
------------------------------
Calibration scores stand in order, V_1 <= .. <= V_n < V_{n+1} = inf; l(k) of them are below V_k.

::

    once           a_i = sum of the first l(i) of H(X_i, X_j), b_i = their sum        O(n^2)
    at x           u_i = H(X_i, x), h_j = H(x, X_j), N_i = b_i + u_i
                   t1_i = (a_i + u_i) / N_i     rank of row i while v is below V_i
                   t2_i = a_i / N_i             and from there on
                   T_k = (h_1 + .. + h_l(k)) / (h_1 + .. + h_n + 1)
                                                rank of v between the score before V_k and V_k
    v up to V_k    #{i <= l(k) : t2_i < T_k} + #{i > l(k) : t1_i < T_k} rows are below

As v grows T_k grows and t1 drops to t2, row by row: the count never falls, and the largest k
that is accepted is found by bisection. It takes log n passes over numbers in a row, and no sort.
The threshold is V_k; the interval is closed, as the hull of what is accepted.

Rounding
--------
Ranks that are equal must not count as smaller, and which of two equal sums comes out larger is
chance. A sum of n non-negative numbers, divided by another, is off by a factor within
1 +- (n + 2) eps. So a row is counted only if t < (1 - g) T - tiny with g = (2 n + 16) eps (and
the least normal number for masses that underflow): then its rank is smaller in exact
arithmetic too. Counts can only be too small and sets too large, by ties that are none by a
part in 10^12. Ranks made of equal weights differ by far more; so H = 1 gives exactly the
conformal quantile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array, conformal_rank

_Kernel = Callable[[Any, Any], Array]
#: Pairs of rows held at once: 8 MB an array.
_CHUNK = 2**20
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class LocalRanks:
    """Calibration rows, ready to answer thresholds at any level; made by `rank_locally`.

    Parameters
    ----------
    kernel : callable
        (m rows, n others) -> H(row_i, other_j), (m, n), in [0, 1] and 1 for a row with itself.
    rows : array of n entries
        What the kernel needs of each calibration row, in the order of scores.
    scores : array of shape (n + 1,)
        Sorted; the last is +inf.
    below : array of shape (n + 1,)
        l(k): how many scores are strictly below each.
    under, total : array of shape (n,)
        a and b.
    symmetric : bool
        Whether H(x, x') = H(x', x).
    """

    kernel: _Kernel
    rows: Any
    scores: Array
    below: NDArray[np.int64]
    under: Array
    total: Array
    symmetric: bool

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.total)

    def thresholds(self, rows: Any, levels: Array) -> Array:
        """Largest accepted score at each of m rows: levels (L,) -> (m, L); +inf where all are.

        ``rows`` has what the kernel needs of each.
        """
        # A level so low that its rank is 0 is answered by the smallest score, as by cq.
        most = np.array([max(1, conformal_rank(self.n, level)) - 1 for level in levels])
        accepted = np.empty((len(rows), len(levels)), dtype=np.int64)

        shrink = 1.0 - (2 * self.n + 16) * np.finfo(np.float64).eps
        for part in _chunks(len(rows), self.n):
            from_row = self.kernel(rows[part], self.rows)
            to_row = from_row if self.symmetric else self.kernel(self.rows, rows[part]).T
            mass = self.total + to_row
            before, after = (self.under + to_row) / mass, self.under / mass
            sums = _running_sums(from_row)
            masses = sums / (sums[:, -1:] + 1.0) * shrink - _TINY
            for l, allowed in enumerate(most):
                accepted[part, l] = self._last_accepted(before, after, masses, allowed)
        return self.scores[accepted]

    def _last_accepted(self, before: Array, after: Array, masses: Array, allowed: int) -> Any:
        """Largest k that each of m rows accepts where so many rows may be below: (m,)."""
        m, place = len(masses), np.arange(self.n)
        low, high = np.zeros(m, dtype=np.int64), np.full(m, self.n + 1)
        # All rows of the chunk need the same number of steps, up to one, which is idle.
        while (high - low > 1).any():
            k = (low + high) // 2
            start = self.below[k]
            rank = np.where(place < start[:, None], after, before)
            count = np.count_nonzero(rank < masses[np.arange(m), start][:, None], axis=1)
            low, high = np.where(count <= allowed, k, low), np.where(count <= allowed, high, k)
        return low


def rank_locally(kernel: _Kernel, rows: Any, scores: Array, *, symmetric: bool) -> LocalRanks:
    """Set up n calibration rows, given in the order of their scores: O(n^2) pairs, in chunks.

    Examples
    --------
    >>> ranks = rank_locally(
    ...     lambda x, others: np.exp(-np.abs(np.subtract.outer(x, others))),
    ...     np.array([0.0, 5.0, 0.1, 5.1]),
    ...     np.array([1.0, 2.0, 3.0, 4.0]),
    ...     symmetric=True,
    ... )
    >>> ranks.thresholds(np.array([0.0, 5.0]), np.array([0.5]))
    array([[3.],
           [4.]])
    """
    n = len(scores)
    below = np.append(np.searchsorted(scores, scores, side="left"), n).astype(np.int64)
    under, total = np.empty(n), np.empty(n)

    for part in _chunks(n, n):
        sums = _running_sums(kernel(rows[part], rows))
        under[part], total[part] = sums[np.arange(len(sums)), below[part]], sums[:, -1]
    return LocalRanks(kernel, rows, np.append(scores, np.inf), below, under, total, symmetric)


def _chunks(m: int, n: int) -> list[slice]:
    """m rows against n, a bounded number of pairs at a time."""
    step = max(1, _CHUNK // max(1, n))
    return [slice(start, min(start + step, m)) for start in range(0, m, step)]


def _running_sums(weights: Array) -> Array:
    """0, w_1, w_1 + w_2, ...: (m, n) -> (m, n + 1); one after the other, in any batch."""
    sums = np.zeros((len(weights), weights.shape[1] + 1))
    np.cumsum(weights, axis=1, out=sums[:, 1:])
    return sums
