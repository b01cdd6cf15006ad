"""From adjusted calibration scores to the correction theta*: the conformal quantile, by side.

``sides`` says how the two sides of a score share the miscoverage alpha:

* "joint": each side asks its law for level 1 - alpha / 2; the larger of the two adjusted
  scores is calibrated at 1 - alpha, and both sides get the same correction. Tighter.
* "union": side s asks for 1 - alpha_s and is calibrated at 1 - alpha_s by itself, with
  alpha_upper = upper_share x alpha and alpha_lower the rest. Algorithm 1 of the paper.
* "absolute": the larger of the two raw scores is the only one; one law, level 1 - alpha.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.adjustments import BaseAdjustment
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import Array, conformal_quantile, required_calibration_size

SIDES = ("joint", "union", "absolute")
#: Levels whose theta* is remembered at most, the newest: whoever asks for ever new ones fills no
#: memory. Of adjusted scores, n S numbers a level: 256 MB, or a few levels where these take more.
LEVELS_KEPT, NUMBERS_KEPT, FEW_LEVELS = 10_000, 2**25, 32


@dataclass(frozen=True)
class SideRule:
    """How the sides share alpha. ``n_sides`` is 1 for one-sided scores and "absolute"."""

    sides: str
    upper_share: float = 0.5
    one_sided: bool = False

    @property
    def n_sides(self) -> int:
        """Columns of the scores that are calibrated."""
        return 1 if self.one_sided or self.sides == "absolute" else 2

    @property
    def shares(self) -> Array:
        """Share of alpha that each side's law is asked for: (S,)."""
        if self.n_sides == 1:
            return np.ones(1)
        if self.sides == "joint":
            return np.full(2, 0.5)
        return np.array([1.0 - self.upper_share, self.upper_share])

    @property
    def separate(self) -> bool:
        """Whether each side is calibrated by itself."""
        return self.n_sides == 2 and self.sides == "union"

    def fold(self, V: Array) -> Array:
        """Scores (n, 2) -> (n, S)."""
        return V.max(axis=1, keepdims=True) if self.n_sides == 1 else V

    def local_levels(self, levels: Array) -> Array:
        """Confidence levels (L,) -> levels asked of each side's law (S, L)."""
        return 1.0 - self.shares[:, None] * (1.0 - levels)

    def required_size(self, level: float) -> int:
        """Calibration rows below which the intervals are infinite."""
        share = float(self.shares.min()) if self.separate else 1.0
        return required_calibration_size(1.0 - share * (1.0 - level))

    def correction(
        self,
        scores: Array,
        levels: Array,
        quantile: Callable[[Array, float], Array] = conformal_quantile,
    ) -> Array:
        """theta* (S, L) from adjusted calibration scores (n, S, L).

        ``quantile`` may answer for m rows at once, each with weights of its own: (S, L, m).
        """
        if self.separate:
            local = self.local_levels(levels)
            columns = [
                [quantile(scores[:, s, l], local[s, l]) for l in range(len(levels))]
                for s in range(2)
            ]
            return np.array(columns)
        worst = scores.max(axis=1)
        joint = np.array([quantile(worst[:, l], levels[l]) for l in range(len(levels))])
        return np.stack([joint] * self.n_sides)


def adjusted_scores(adjustment: BaseAdjustment, V: Array, F: LocalLaw, levels: Array) -> Array:
    """p(V_i, F_i) at local levels (S, L): (n, S, L), for scores of any size.

    One beyond the range of float64 is infinite, as are the bounds that follow from it; one below
    it is taken for the lowest number there is, for minus infinity would leave no bounds at all.
    The same holds for V itself, which an adjustment sees as finite numbers.
    """
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore"):
        p = adjustment.score(np.clip(V, limits.min, limits.max), F, levels)
    return np.where(np.isposinf(V)[:, :, None], np.inf, np.maximum(p, limits.min))


@dataclass(frozen=True)
class Calibration:
    """Calibration rows, ready to answer theta* at any level, by cell of a partition.

    Parameters
    ----------
    V : array of shape (n, S)
        Scores, folded by the side rule.
    F : LocalLaw
        The local laws at the calibration rows.
    cells : array of shape (n,)
        Cell of each row; all the same without a partition.
    version : tuple of int
        Of the laws: a calibration is void once they change.
    view : default=None
        What weighs the rows against a new one, for methods that do.
    """

    V: Array
    F: LocalLaw
    adjustment: BaseAdjustment
    rule: SideRule
    cells: NDArray[Any]
    version: tuple[int, ...] = ()
    view: Any = None
    known: dict[float, dict[Any, Array]] = field(default_factory=dict, compare=False)
    _adjusted: dict[float, Array] = field(default_factory=dict, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is computed once a level: it comes back by itself, and files stay plain."""
        return {**vars(self), "known": {}, "_adjusted": {}}

    @property
    def n(self) -> int:
        """Number of calibration rows."""
        return len(self.V)

    def correction(self, levels: Array, cells: NDArray[Any], pool: bool = False) -> Array:
        """theta* for query rows in these cells: (n, S, L); +inf where a cell is too small.

        ``pool`` gives such cells the correction of all rows together.
        """
        out = np.full((len(cells), self.rule.n_sides, len(levels)), np.inf)
        for l, level in enumerate(levels):
            by_cell = self._at(float(level))
            for cell in np.unique(cells):
                theta = by_cell.get(cell, np.full(self.rule.n_sides, np.inf))
                if pool and np.isinf(theta).any():
                    theta = by_cell[None]
                out[cells == cell, :, l] = theta
        return out

    def _at(self, level: float) -> dict[Any, Array]:
        """theta* (S,) by cell, and of all rows under the key None; computed once a level."""
        known = self.known.get(level)
        if known is None:
            levels = np.array([level])
            p = self.adjusted(levels)
            theta = {
                cell: self.rule.correction(p[self.cells == cell], levels)[:, 0]
                for cell in np.unique(self.cells)
            }
            known = {**theta, None: self.rule.correction(p, levels)[:, 0]}
            remember(self.known, level, known, LEVELS_KEPT)
        return known

    def adjusted(self, levels: Array) -> Array:
        """Adjusted scores p(V_i, F_i) at levels (L,): (n, S, L); computed once a level."""
        return np.stack([self._adjusted_at(float(level)) for level in levels], axis=2)

    def _adjusted_at(self, level: float) -> Array:
        known = self._adjusted.get(level)
        if known is None:
            local = self.rule.local_levels(np.array([level]))
            known = adjusted_scores(self.adjustment, self.V, self.F, local)[:, :, 0]
            most = max(FEW_LEVELS, NUMBERS_KEPT // self.V.size)
            remember(self._adjusted, level, known, most)
        return known

    def count(self, cell: Any) -> int:
        """Calibration rows in this cell."""
        return int(np.sum(self.cells == cell))

    def counts(self, cells: NDArray[Any]) -> Array:
        """Calibration rows in the cell of each query row: (m,)."""
        kinds, codes = np.unique(cells, return_inverse=True)
        return np.array([float(self.count(cell)) for cell in kinds])[codes]


def remember(cache: dict[float, Any], level: float, value: Any, most: int) -> None:
    """Keep the value, and of the others the newest; threads may do so at once."""
    # A list, for another thread may change the table while this one walks through it.
    for oldest in list(cache)[: max(0, len(cache) - most + 1)]:
        cache.pop(oldest, None)
    cache[level] = value
