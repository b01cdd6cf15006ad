"""theta* of calibration rows on Dask: the very order statistic, as in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localconformal.calibration import SideRule, adjusted_scores
from localconformal.distributed.blocks import Blocks, kept_rows
from localconformal.distributed.computing import compute
from localconformal.distributed.known import KnownCalibration
from localconformal.distributed.positions import Roles
from localconformal.distributed.ranks import smallest
from localconformal.quantiles import Array, conformal_rank
from localconformal.regressors.composed import calibration_scores


@dataclass(frozen=True)
class ConformalRanks:
    """Ranks ceil((n + 1) level) of several columns."""

    levels: tuple[float, ...]

    def __call__(self, n: int) -> list[int]:
        """One rank a column."""
        return [conformal_rank(n, level) for level in self.levels]


@dataclass(frozen=True)
class CalibrationRows:
    """Rows that calibrate, where they are, and what scores them."""

    shell: Any
    blocks: Blocks
    roles: Roles

    def __call__(self, levels: Array) -> Array:
        """theta* (S, L): one pass over the rows."""
        return self.solve(levels)[1]

    def solve(self, levels: Array) -> tuple[int, Array]:
        """How many rows there are, and theta*."""
        rule: SideRule = self.shell.side_rule_
        local = rule.local_levels(levels).ravel() if rule.separate else levels
        columns = self.blocks.map(adjusted_columns, self.shell, self.roles, levels)
        (found,) = compute(smallest(columns, ConformalRanks(tuple(map(float, local)))))
        n, theta = found
        sides = 2 if rule.separate else 1
        by_side = theta.reshape(sides, len(levels))
        return n, np.array(np.broadcast_to(by_side, (rule.n_sides, len(levels))))


def adjusted_columns(
    X: Any, y: Array, start: int, shell: Any, roles: Roles, levels: Array
) -> Array:
    """Adjusted scores of a block's calibration rows: (n, L), or (n, 2 L) by side."""
    X, y = kept_rows(X, y, roles.calibrates(start, len(y)))
    rule: SideRule = shell.side_rule_
    if len(y) == 0:
        return np.empty((0, len(levels) * (2 if rule.separate else 1)))
    X = shell._check_rows(X)
    V = rule.fold(calibration_scores(shell.score_, X, y))
    adjusted = adjusted_scores(shell.adjustment_, V, shell.law_.at(X), rule.local_levels(levels))
    return adjusted.reshape(len(y), -1) if rule.separate else adjusted.max(axis=1)


def calibrate(shell: Any, blocks: Blocks, roles: Roles) -> KnownCalibration:
    """theta* at the estimator's own level; others are found when they are asked for."""
    rows = CalibrationRows(shell, blocks, roles)
    level = np.array([shell.confidence_level])
    n, theta = rows.solve(level)
    return KnownCalibration(
        n, shell.side_rule_, shell.law_.version, rows, list(map(float, level)), list(theta.T)
    )
