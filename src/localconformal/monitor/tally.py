"""Counts of scores seen so far, and p-values of new ones among them and each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from localconformal.monitor.grid import Codes
from localconformal.quantiles import Array


def no_codes() -> Codes:
    """An empty list of codes."""
    return np.empty(0, dtype=np.int64)


@dataclass
class Tally:
    """How often each point of the grid was seen: its size is bounded, whatever the stream.

    Parameters
    ----------
    codes : array of shape (k,)
        Rising, each once.
    counts : array of shape (k,)
    """

    codes: Codes = field(default_factory=no_codes)
    counts: Codes = field(default_factory=no_codes)

    @property
    def n(self) -> int:
        """Scores seen."""
        return int(self.counts.sum())

    def add(self, codes: Codes, counts: Codes | None = None) -> None:
        """Count these too, each once or as often as said."""
        often = np.ones(len(codes), dtype=np.int64) if counts is None else counts
        merged, place = np.unique(np.concatenate([self.codes, codes]), return_inverse=True)
        total = np.zeros(len(merged), dtype=np.int64)
        np.add.at(total, place, np.concatenate([self.counts, often]))
        self.codes, self.counts = merged, total

    def above(self, codes: Codes, side: Literal["left", "right"]) -> Codes:
        """How many were larger ("right"), or at least as large ("left"), than each: (m,)."""
        below = np.concatenate([[0], np.cumsum(self.counts)])
        return np.asarray(below[-1] - below[np.searchsorted(self.codes, codes, side=side)])


def p_values(seen: Tally, codes: Codes, u: Array) -> Array:
    """p-value of each of m scores among those seen and its predecessors: (m,), inside (0, 1].

    With n scores before it,

        p = (#larger + u (#equal + 1)) / (n + 1),

    so that a large score has a small p. If all scores are exchangeable and u is uniform on (0, 1],
    independent of them, then the p-values are independent and uniform. It takes O(m^2).

    Examples
    --------
    >>> seen = Tally()
    >>> seen.add(np.array([1, 2, 3]))
    >>> p_values(seen, np.array([3, 9]), np.array([0.5, 1.0]))
    array([0.25, 0.2 ])
    """
    earlier = np.tri(len(codes), k=-1, dtype=bool)
    larger = np.count_nonzero((codes > codes[:, None]) & earlier, axis=1)
    equal = np.count_nonzero((codes == codes[:, None]) & earlier, axis=1)
    seen_larger = seen.above(codes, "right")
    equal += seen.above(codes, "left") - seen_larger
    before = seen.n + np.arange(len(codes))
    return np.asarray((seen_larger + larger + u * (equal + 1)) / (before + 1))
