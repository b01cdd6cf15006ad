"""A uniform number for each position of a table: what decides which part a row plays.

Philox is a generator that can be entered anywhere, so that row i has the same number whatever
partition it is in. Positions know nothing of what stands there: a calibration set chosen by them
is exchangeable with new rows whenever the rows are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array

#: Independent numbers of one position: what each decides.
SPLIT, FOLD, DRAW = range(3)
#: Numbers that Philox makes at a time.
WORDS = 4

Flags = NDArray[np.bool_]


def uniforms(seed: int, stream: int, start: int, count: int) -> Array:
    """Numbers in [0, 1) of the positions start, ..., start + count - 1.

    Examples
    --------
    >>> whole = uniforms(0, SPLIT, 0, 10)
    >>> bool(np.array_equal(whole[3:7], uniforms(0, SPLIT, 3, 4)))
    True
    """
    skipped = start % WORDS
    made = np.random.Philox(key=[seed, stream], counter=start // WORDS)
    return np.random.Generator(made).random(skipped + count)[skipped:]


@dataclass(frozen=True)
class Roles:
    """Which part each row plays.

    Parameters
    ----------
    seed : int
    threshold : float
        Rows whose number is at most this calibrate; below 0 none does, from 1 on all do.
    n_folds : int
        Of the training rows.
    """

    seed: int
    threshold: float
    n_folds: int = 1

    def calibrates(self, start: int, count: int) -> Flags:
        """Rows that calibrate; the others train."""
        return uniforms(self.seed, SPLIT, start, count) <= self.threshold

    def folds(self, start: int, count: int) -> NDArray[np.intp]:
        """Fold of each row, 0 to n_folds - 1."""
        drawn = uniforms(self.seed, FOLD, start, count)
        return np.floor(self.n_folds * drawn).astype(np.intp)

    def drawn(self, share: float, start: int, count: int) -> Flags:
        """A sample of the rows; a smaller share is a part of a larger one."""
        return uniforms(self.seed, DRAW, start, count) < share
