"""The state of a monitor: what it knows of the rows so far, and how a row changes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from localconformal.monitor.history import History
from localconformal.monitor.martingale import Martingales
from localconformal.monitor.scoring import Scored
from localconformal.monitor.tally import Tally, p_values
from localconformal.quantiles import Array

#: Column of the scores, and cell of the calibration: scores are ranked within these.
Part = tuple[int, str]
#: Rows that are ranked among each other at a time, each against each.
RANKED_AT_A_TIME = 256


@dataclass
class Stream:
    """Rows so far, in a few thousand numbers at most for each cell of the calibration.

    Parameters
    ----------
    seed : int
        Of the numbers that tell equal scores apart.
    calibration : dict of Tally
        Calibration scores, by column and cell.
    alphas : array of shape (C,)
        Share of rows that should miss, one a column.
    martingales : Martingales
        One a column.
    """

    seed: int
    calibration: dict[Part, Tally]
    alphas: Array
    martingales: Martingales
    rows: int = 0
    n_covered: int = 0
    #: Row, counted from 1, and log-martingale at which the alarm came.
    alarm: tuple[int, float] | None = None
    history: History = field(default_factory=History)
    #: Scores of the stream alone, as the calibration's.
    tallies: dict[Part, Tally] = field(default_factory=dict)

    @property
    def log_martingale(self) -> float:
        """The evidence: the largest of the martingales over their number.

        Those of the two sides need not be martingales with regard to each other's past, so that
        their mean may not be one. But each reaches twice the limit with half the chance.
        """
        return float(combined(self.martingales.logs))

    def extend(self, scored: Scored, log_limit: float) -> None:
        """Take rows in, in their order."""
        for start in range(0, len(scored.covered), RANKED_AT_A_TIME):
            part = slice(start, start + RANKED_AT_A_TIME)
            some = Scored(scored.codes[part], scored.cells[part], scored.covered[part])
            logs = self.martingales.bet(self._p_values(some), self.alphas)
            self._note(some, combined(logs), log_limit)

    def _p_values(self, some: Scored) -> Array:
        """p-values of these rows (m, C), which are counted."""
        u = self._uniforms(len(some.covered))
        p = np.empty(some.codes.shape)
        for column, codes in enumerate(some.codes.T):
            for cell in np.unique(some.cells):
                rows, key = np.flatnonzero(some.cells == cell), (column, str(cell))
                p[rows, column] = p_values(self._seen(key), codes[rows], u[rows, column])
                self.tallies.setdefault(key, Tally()).add(codes[rows])
        return p

    def _seen(self, key: Part) -> Tally:
        """Calibration and stream together."""
        known, new = self.calibration.get(key, Tally()), self.tallies.get(key, Tally())
        seen = Tally(known.codes, known.counts)
        seen.add(new.codes, new.counts)
        return seen

    def _uniforms(self, n: int) -> Array:
        """The numbers in (0, 1] of the next n rows, (n, C): a function of seed and row."""
        columns = len(self.alphas)
        bits = np.random.PCG64(self.seed).advance(self.rows * columns)
        return 1.0 - np.random.Generator(bits).random((n, columns))

    def _note(self, some: Scored, evidence: Array, log_limit: float) -> None:
        for is_in, log in zip(some.covered.tolist(), evidence.tolist(), strict=True):
            self.rows += 1
            self.n_covered += is_in
            self.history.add(self.rows, self.n_covered, log)
            if self.alarm is None and log >= log_limit:
                self.alarm = (self.rows, log)


def combined(logs: Array) -> Array:
    """The largest of the martingales over their number, as logarithms: (..., C) -> (...)."""
    return np.asarray(logs.max(axis=-1) - math.log(logs.shape[-1]))


def new_stream(seed: int, calibration: dict[Part, Tally], alphas: Array) -> Stream:
    """No rows yet."""
    return Stream(seed, calibration, alphas, Martingales.start(len(alphas)))


def tallies_of(codes: Any, cells: Any) -> Iterator[tuple[Part, Tally]]:
    """Counts of scores (n, C) by column and cell (n,)."""
    for column, values in enumerate(codes.T):
        for cell in np.unique(cells):
            tally = Tally()
            tally.add(values[cells == cell])
            yield (column, str(cell)), tally
