"""A stream of scores and the evidence that it has changed, in a small state."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.quantiles import Array

Codes = NDArray[np.int64]
#: Column of the scores, and cell of the calibration: scores are ranked within these.
Part = tuple[int, str]

# ---- scores as whole numbers ---------------------------------------------------------------
# The grid consists of floating point numbers with 8 bits of mantissa. It does not depend on data,
# so a rounded score is still a function of its row, and ties are broken at random: p-values stay
# exact.

#: Steps between two powers of two; beyond the exponent of the smallest number, to keep the sign.
_STEPS, _BIAS = 256, 1_100
#: Shifts the grid away from round numbers: halfway between two of its points the last bit of a
#: prediction decides, and that depends on how many rows were predicted at once.
_TURN, _LARGEST = 0.5**0.5, np.finfo(np.float64).max


def grid_codes(scores: Array) -> Codes:
    """The nearest point of the grid, as an integer that increases with the score; same shape."""
    value = np.clip(scores, -_LARGEST, _LARGEST) * _TURN
    mantissa, exponent = np.frexp(np.abs(value))
    step = np.rint((mantissa - 0.5) * (2 * _STEPS)).astype(np.int64)
    size = (exponent.astype(np.int64) + _BIAS) * _STEPS + step
    return np.sign(value).astype(np.int64) * size


# ---- counts of scores, and p-values among them ------------------------------------------------


@dataclass
class Tally:
    """How often each point of the grid was seen; ``codes`` ascend, each once."""

    codes: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    counts: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def n(self) -> int:
        """Scores seen."""
        return int(self.counts.sum())

    def add(self, codes: Codes) -> None:
        """Count these too."""
        merged, place = np.unique(np.concatenate([self.codes, codes]), return_inverse=True)
        total = np.bincount(place[len(self.codes) :], minlength=len(merged))
        total[place[: len(self.codes)]] += self.counts
        self.codes, self.counts = merged, total

    def above(self, codes: Codes, side: Literal["left", "right"]) -> Codes:
        """How many were larger ("right"), or at least as large ("left"), than each: (m,)."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(below[-1] - below[np.searchsorted(self.codes, codes, side=side)])


def p_values(seen: Tally, codes: Codes, u: Array) -> Array:
    """p-value of each of m scores among those seen and its predecessors: (m,), inside (0, 1].

    With n scores before it, p = (#larger + u (#equal + 1)) / (n + 1). If all scores are
    exchangeable and u is uniform on (0, 1], independent of them, then the p-values are independent
    and uniform. It takes O(m^2).
    """
    earlier = np.tri(len(codes), k=-1, dtype=bool)
    larger = np.count_nonzero((codes > codes[:, None]) & earlier, axis=1)
    equal = np.count_nonzero((codes == codes[:, None]) & earlier, axis=1)
    seen_larger = seen.above(codes, "right")
    equal += seen.above(codes, "left") - seen_larger
    before = seen.n + np.arange(len(codes))
    return np.asarray((seen_larger + larger + u * (equal + 1)) / (before + 1))


# ---- the evidence against exchangeability --------------------------------------------------
# A betting function b >= 0 with integral 1 over [0, 1] multiplies the wealth by b(p). If p-values
# are independent and uniform, wealth that starts at 1 is a martingale, and ever reaches 1 / epsilon
# with probability at most epsilon (Ville's inequality). The wealth is shared between several bets,
# and a small part J of it is redistributed at every row from all of them to all of them (the simple
# jumper of Vovk et al.), so that a bet that lost during a quiet time is not broke when it is
# needed. That costs about J x n, in logarithms, over n quiet rows, so the wealth is also shared
# between several J. Small p-values are large scores. The bets:
#
# * step: the odds of p <= alpha, that is of a miss, have changed by a factor;
# * power, k p^(k - 1): scores have become larger (k < 1) or smaller (k > 1), mainly at the end;
# * slope, 1 + e (p - 1/2): the same, equally everywhere;
# * none, b = 1: waits.

#: Factors in the odds of a miss.
_ODDS = (0.25, 0.5, 1.5, 2.0, 3.0)
#: Parts of the wealth that move at every row: (J, 1).
_JUMPS = np.array([[1e-3], [1e-4], [1e-5]])
#: All bets; share of the one that waits, at the start and among what moves.
N_BETS, _WAITING = 11, 0.3
SHARES = np.array([_WAITING] + [(1.0 - _WAITING) / (N_BETS - 1)] * (N_BETS - 1))
_STAYING, _ARRIVING = 1.0 - _JUMPS, _JUMPS * SHARES


def bets(p: Array, alpha: Array) -> Array:
    """What each bet multiplies its wealth by: p (m, C) and alpha (C,) -> (m, C, K)."""
    columns = [np.ones(p.shape)]
    for odds in _ODDS:
        miss = odds * alpha / (odds * alpha + 1.0 - alpha)
        columns.append(np.where(p <= alpha, miss / alpha, (1.0 - miss) / (1.0 - alpha)))
    # Square roots, unlike powers, are the same to the last bit in any batch.
    root = np.sqrt(p)
    columns += [0.5 / root, 0.75 / np.sqrt(root), 1.5 * root]
    columns += [1.0 - (p - 0.5), 1.0 + (p - 0.5)]
    return np.stack(columns, axis=-1)


@dataclass
class Martingales:
    """Wealth after the p-values so far, for C sequences of them side by side.

    ``wealth`` (C, J, K) sums to 1 over J and bets; ``logs`` (C,) is the logarithm of the whole.
    """

    wealth: Array
    logs: Array

    @classmethod
    def start(cls, count: int) -> Martingales:
        """Wealth 1 for each sequence."""
        return cls(np.tile(SHARES / len(_JUMPS), (count, len(_JUMPS), 1)), np.zeros(count))

    def bet(self, p: Array, alpha: Array) -> Array:
        """Bet on these p-values (m, C) in turn; log-martingales after each: (m, C)."""
        logs = np.empty(p.shape)
        for t, factors in enumerate(bets(p, alpha)):
            moved = _ARRIVING * self.wealth.sum(axis=2, keepdims=True)
            wealth = (_STAYING * self.wealth + moved) * factors[:, None]
            total = wealth.sum(axis=(1, 2))
            self.wealth = wealth / total[:, None, None]
            logs[t] = self.logs = self.logs + np.log(total)
        return logs


# ---- a band of the coverage ----------------------------------------------------------------
# Let q_t be the probability that row t is covered given all rows before it, and let k of the first
# t rows be covered. For every number a,
#
#     exp(a k) / prod_i (1 + q_i (e^a - 1))
#
# is a martingale, and the product is at most (1 + q (e^a - 1))^t with q the mean of q_1..q_t, since
# the logarithm is concave. So the mixture of exp(a k) / (1 + q (e^a - 1))^t over a fixed grid of
# a > 0 ever reaches 2 / delta with probability at most delta / 2. It decreases in q, so the q where
# it is below 2 / delta are those above a lower bound. Missed rows give the upper bound.

#: The numbers a: for a handful of rows to hundreds of millions.
_RATES, _HALVINGS = 2.0 ** np.arange(2.0, -12.0, -0.5), 50


def anytime_band(n_covered: ArrayLike, n: ArrayLike) -> tuple[Array, Array]:
    """Bounds on the mean probability of being covered: (m,), (m,); (0, 1) without rows.

    With a probability of at least 95 % they hold at all rows of the stream at once.

    >>> low, high = anytime_band([0, 90, 9_000], [0, 100, 10_000])
    >>> low.round(2), high.round(2)
    (array([0.  , 0.77, 0.89]), array([1.  , 0.97, 0.91]))
    """
    k, rows = np.asarray(n_covered, dtype=np.float64), np.asarray(n, dtype=np.float64)
    log_limit = np.log(2.0 / 0.05)
    return _lower_bound(k, rows, log_limit), 1.0 - _lower_bound(rows - k, rows, log_limit)


def _lower_bound(k: Array, n: Array, log_limit: float) -> Array:
    """The largest q, by bisection, below which the mixture is at the limit: (m,)."""
    low, high = np.zeros(len(k)), np.ones(len(k))
    for _ in range(_HALVINGS):
        q = (low + high) / 2.0
        reached = log_mixture(k, n, q) >= log_limit
        low, high = np.where(reached, q, low), np.where(reached, high, q)
    return np.where(log_mixture(k, n, np.zeros(len(k))) >= log_limit, low, 0.0)


def log_mixture(k: Array, n: Array, q: Array) -> Array:
    """Logarithm of the mean over the grid of exp(a k) / (1 + q (e^a - 1))^n: (m,)."""
    growth = np.log1p(q[:, None] * np.expm1(_RATES))
    terms = _RATES * k[:, None] - n[:, None] * growth
    largest = terms.max(axis=1)
    return np.asarray(largest + np.log(np.exp(terms - largest[:, None]).mean(axis=1)))


# ---- the stream ----------------------------------------------------------------------------

#: Rows ranked against each other at a time.
RANKED_AT_A_TIME = 256


@dataclass(frozen=True)
class Scored:
    """n rows: scores on the grid (n, C), C = 2 if sides are calibrated separately; cells (n,)."""

    codes: Codes
    cells: NDArray[Any]
    covered: NDArray[np.bool_]


@dataclass
class Stream:
    """Rows so far, in at most a few thousand numbers per cell of the calibration.

    ``seed`` is for breaking ties, ``alphas`` (C,) are the shares of rows that should be missed,
    ``alarm`` is its row (from 1) and log-martingale.
    """

    seed: int
    seen: dict[Part, Tally]
    alphas: Array
    martingales: Martingales
    rows: int = 0
    n_covered: int = 0
    alarm: tuple[int, float] | None = None

    @property
    def log_martingale(self) -> float:
        """The evidence now."""
        return float(_combined(self.martingales.logs))

    def extend(self, scored: Scored, log_limit: float) -> None:
        """Add rows, in their order."""
        for start in range(0, len(scored.covered), RANKED_AT_A_TIME):
            part = slice(start, start + RANKED_AT_A_TIME)
            p = self._p_values(scored.codes[part], scored.cells[part])
            evidence = _combined(self.martingales.bet(p, self.alphas))
            reached = np.flatnonzero(evidence >= log_limit)
            if self.alarm is None and len(reached):
                first = int(reached[0])
                self.alarm = (self.rows + first + 1, float(evidence[first]))
            self.rows += len(evidence)
            self.n_covered += int(scored.covered[part].sum())

    def _p_values(self, codes: Codes, cells: NDArray[Any]) -> Array:
        """p-values of these rows (m, C), which count from now on."""
        # The random numbers in (0, 1] of a row are a function of the seed and its position.
        bits = np.random.PCG64(self.seed).advance(self.rows * len(self.alphas))
        u = 1.0 - np.random.Generator(bits).random(codes.shape)
        p = np.empty(codes.shape)
        for key, column, rows in _parts_of(codes, cells):
            seen, some = self.seen.setdefault(key, Tally()), codes[rows, column]
            p[rows, column] = p_values(seen, some, u[rows, column])
            seen.add(some)
        return p


def _combined(logs: Array) -> Array:
    """The largest of the martingales over their number, as logarithms: (..., C) -> (...).

    Those of the two sides need not be martingales with respect to each other's past, so their mean
    may not be one. But each reaches twice the limit with half the probability.
    """
    return np.asarray(logs.max(axis=-1) - math.log(logs.shape[-1]))


def _parts_of(codes: Codes, cells: NDArray[Any]) -> Iterator[tuple[Part, int, NDArray[np.intp]]]:
    for column in range(codes.shape[1]):
        for cell in np.unique(cells):
            yield (column, str(cell)), column, np.flatnonzero(cells == cell)


def tallies_of(codes: Codes, cells: NDArray[Any]) -> dict[Part, Tally]:
    """Counts of scores (n, C) by column and cell (n,)."""
    found: dict[Part, Tally] = {}
    for key, column, rows in _parts_of(codes, cells):
        found.setdefault(key, Tally()).add(codes[rows, column])
    return found
