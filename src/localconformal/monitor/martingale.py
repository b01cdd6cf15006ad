"""The evidence against exchangeability: wealth of someone who bets that p-values are not uniform.

A betting function b >= 0 with integral 1 over [0, 1] multiplies the wealth by b(p). If p-values
are independent and uniform, wealth that starts at 1 is a martingale, and reaches 1 / epsilon ever
with probability epsilon at most (Ville's inequality). Nothing is assumed of what might change: the
wealth is shared between several bets, and a small part of it moves at every row from all of them to
all of them (the simple jumper of Vovk et al.), so that a bet that lost while all was quiet is not
broke when it is needed. Moving costs: with a part J up to J x n or so is lost, in logarithms, over
n quiet rows. So the wealth is also shared between several J, and what is left is that of the best
for the length of the stream.

Small p-values are large scores. The bets:

* step: the chance of p <= alpha, that is of a miss, has changed by a factor in its odds;
* power, k p^(k - 1): scores have become larger (k < 1) or smaller (k > 1), above all at the end;
* slope, 1 + e (p - 1/2): the same, everywhere alike;
* none, b = 1: waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from localconformal.quantiles import Array

#: Factors in the odds of a miss.
ODDS = (0.25, 0.5, 1.5, 2.0, 3.0)
#: k p^(k - 1), by square roots: unlike powers they are the same to the last bit in any batch.
POWERS: tuple[Callable[[Array], Array], ...] = (
    lambda p: 0.5 / np.sqrt(p),
    lambda p: 0.75 / np.sqrt(np.sqrt(p)),
    lambda p: 1.5 * np.sqrt(p),
)
SLOPES = (-1.0, 1.0)
#: Parts of the wealth that move at every row: (J, 1).
JUMPS = np.array([[1e-3], [1e-4], [1e-5]])
#: Share of the bet that waits, at the start and among what moves.
WAITING = 0.3

N_BETS = 1 + len(ODDS) + len(POWERS) + len(SLOPES)
SHARES = np.array([WAITING] + [(1.0 - WAITING) / (N_BETS - 1)] * (N_BETS - 1))
STAYING, ARRIVING = 1.0 - JUMPS, JUMPS * SHARES


def bets(p: Array, alpha: Array) -> Array:
    """What each bet multiplies its wealth by: p (m, C) and alpha (C,) -> (m, C, K).

    Examples
    --------
    >>> grid = (np.arange(100_000) + 0.5) / 100_000
    >>> found = bets(grid[:, None], np.array([0.1]))
    >>> bool(np.allclose(found.mean(axis=0), 1.0, atol=2e-3))
    True
    """
    columns = [np.ones(p.shape)]
    for odds in ODDS:
        miss = odds * alpha / (odds * alpha + 1.0 - alpha)
        columns.append(np.where(p <= alpha, miss / alpha, (1.0 - miss) / (1.0 - alpha)))
    columns += [power(p) for power in POWERS]
    columns += [1.0 + slope * (p - 0.5) for slope in SLOPES]
    return np.stack(columns, axis=-1)


@dataclass
class Martingales:
    """Wealth after the p-values so far, for C sequences of them side by side.

    Parameters
    ----------
    wealth : array of shape (C, J, K)
        By part that moves and bet; sums to 1 for each sequence.
    logs : array of shape (C,)
        Logarithm of the whole.
    """

    wealth: Array
    logs: Array

    @classmethod
    def start(cls, count: int) -> Martingales:
        """Wealth 1 for each sequence, the same for every part that moves."""
        return cls(np.tile(SHARES / len(JUMPS), (count, len(JUMPS), 1)), np.zeros(count))

    def bet(self, p: Array, alpha: Array) -> Array:
        """Bet on these p-values (m, C) in turn; log-martingales after each: (m, C).

        Examples
        --------
        >>> logs = Martingales.start(1).bet(np.full((100, 1), 0.01), np.array([0.1]))
        >>> bool(logs[-1] > 100)
        True
        """
        logs = np.empty(p.shape)
        for t, factors in enumerate(bets(p, alpha)):
            moved = ARRIVING * self.wealth.sum(axis=2, keepdims=True)
            wealth = (STAYING * self.wealth + moved) * factors[:, None]
            total = wealth.sum(axis=(1, 2))
            self.wealth = wealth / total[:, None, None]
            self.logs = self.logs + np.log(total)
            logs[t] = self.logs
        return logs


def log_range(rows: int, n_calibration: int) -> tuple[float, float]:
    """Between which numbers a log-martingale lies after so many rows, whatever they are.

    Who waits loses no more than what moves. And no bet wins more than 1 / (2 sqrt(p)) at a row,
    with p >= 2^-53 / (rows and calibration rows), for u is a whole multiple of 2^-53.

    Examples
    --------
    >>> low, high = log_range(100, 200)
    >>> bool(low < Martingales.start(1).bet(np.full((100, 1), 1e-9), np.array([0.1]))[-1, 0] < high)
    True
    """
    smallest_p = 2.0**-53 / (rows + n_calibration + 1)
    lowest = math.log(WAITING / len(JUMPS)) + rows * math.log(STAYING.max())
    # One for what is rounded on the way.
    return lowest - 1.0, rows * math.log(0.5 / math.sqrt(smallest_p)) + 1.0
