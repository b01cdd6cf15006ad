"""What stays of a calibration on a cluster: theta* by level, without the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.calibration import SideRule
from localconformal.quantiles import Array

_learning = Lock()


@dataclass(frozen=True, eq=False)
class KnownCalibration:
    """theta* at the levels that were asked for; answers where `Calibration` does.

    Parameters
    ----------
    n : int
        Number of calibration rows.
    rule : SideRule
    version : tuple of int
        Of the laws.
    find : callable, default=None
        Levels (L,) -> theta* (S, L), by a pass over the rows on the cluster. It is not kept in
        copies for workers nor in files, which answer the levels known by then.
    """

    n: int
    rule: SideRule
    version: tuple[int, ...]
    find: Callable[[Array], Array] | None = None
    _levels: list[float] = field(default_factory=list)
    _thetas: list[Array] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        """Without the way to the rows."""
        return {**vars(self), "find": None}

    def learn(self, levels: Array) -> None:
        """Have theta* at these levels, with one pass for all that are new."""
        if self._unknown(levels):
            # One at a time: levels and corrections of two learners would come to stand crosswise.
            with _learning:
                self._look_up(self._unknown(levels))

    def _unknown(self, levels: Array) -> list[float]:
        return [level for level in dict.fromkeys(map(float, levels)) if level not in self._levels]

    def _look_up(self, new: list[float]) -> None:
        if not new:
            return
        if self.find is None:
            raise ValueError(
                f"the levels {self._levels} were calibrated and {new} came; ask for them before "
                "the model is saved, or call conformalize again."
            )
        found = self.find(np.array(new))
        # In this order: who meets a level among the known ones finds its correction there.
        self._thetas.extend(found.T)
        self._levels.extend(new)

    def correction(self, levels: Array, cells: NDArray[Any]) -> Array:
        """theta* for as many rows as there are cells: (n, S, L)."""
        self.learn(levels)
        theta = np.stack([self._thetas[self._levels.index(float(level))] for level in levels], 1)
        return np.array(np.broadcast_to(theta, (len(cells), *theta.shape)))

    def count(self, cell: Any) -> int:
        """All calibration rows: there is one cell."""
        return self.n

    def counts(self, cells: NDArray[Any]) -> Array:
        """The same for each query row: (m,)."""
        return np.full(len(cells), float(self.n))

    @property
    def V(self) -> Array:
        """Not to be had: scores stayed on the cluster."""
        raise ValueError(
            "a predictive distribution needs the calibration scores, which stayed on the cluster; "
            "call conformalize with rows in memory first."
        )
