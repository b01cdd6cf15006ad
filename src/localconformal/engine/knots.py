"""Laws given by their quantiles at a few levels, joined by straight lines.

A law at a row is a vector of knots a_0 <= ... <= a_G at fixed levels 0 = g_0 < ... < g_G = 1.
Between two knots its quantile function is linear; equal knots are an atom. So are CDF and
quantile inverses of each other, and any law whose quantiles can be asked for has this form:
learned quantiles, averages of the quantiles of several laws, changes of variable.

Rounding: Q may only come out lower and Q+ only higher than the true line, by a few units in
the last place, so that F(v) >= t implies Q(t) <= v and F(v-) <= t implies v <= Q+(t). Neither
leaves the piece that its level falls in, so that both stay monotone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localconformal.engine import Engine
from localconformal.quantiles import MASS_GUARD, Array

# Units in the last place by which an interpolated value may be off.
ROUNDING = 16 * np.finfo(np.float64).eps


class Behind(NamedTuple):
    """A law within a law: its weight, its engine, and the rows as that engine sees them."""

    weight: float
    engine: Engine
    rows: Any


class Knots(NamedTuple):
    """Quantiles (m, G) at the engine's levels.

    Effective sample and fallback are asked of the laws behind, and only when somebody wants to
    know; a law without any has ``total`` reference rows everywhere.
    """

    values: Array
    total: float = 0.0
    behind: tuple[Behind, ...] = ()


class KnotEngine:
    """Answers for laws of knots at the given levels, from 0 to 1."""

    def __init__(self, levels: Array) -> None:
        self.levels = levels

    def quantiles(self, rows: Knots, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        m, L = len(rows.values), levels.shape[-1]
        strict = np.broadcast_to(upper, levels.shape)
        t = np.broadcast_to(levels + np.where(strict, MASS_GUARD, -MASS_GUARD), (m, L))
        # The knot that ends the piece in which t falls; Q+ starts a piece where Q ends one.
        after = np.where(
            strict,
            np.searchsorted(self.levels, t, side="right"),
            np.searchsorted(self.levels, t, side="left"),
        )
        end = np.clip(after, 1, len(self.levels) - 1)
        left = np.take_along_axis(rows.values, end - 1, axis=1)
        right = np.take_along_axis(rows.values, end, axis=1)
        share = (t - self.levels[end - 1]) / (self.levels[end] - self.levels[end - 1])
        line = left + np.clip(share, 0.0, 1.0) * (right - left)
        slack = np.where(left == right, 0.0, ROUNDING * np.maximum(np.abs(left), np.abs(right)))
        value = np.clip(np.where(strict, line + slack, line - slack), left, right)
        value = np.where(~strict & (t <= 0.0), -np.inf, value)
        return np.where(strict & (t >= 1.0), np.inf, value)

    def cdf(self, rows: Knots, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        return np.stack([self._cdf(rows.values, column, side) for column in v.T], axis=1)

    def _cdf(self, knots: Array, v: Array, side: str) -> Array:
        below = knots <= v[:, None] if side == "right" else knots < v[:, None]
        count = np.count_nonzero(below, axis=1)
        end = np.clip(count, 1, len(self.levels) - 1)[:, None]
        left = np.take_along_axis(knots, end - 1, axis=1)[:, 0]
        right = np.take_along_axis(knots, end, axis=1)[:, 0]
        start, stop = self.levels[end[:, 0] - 1], self.levels[end[:, 0]]
        # Infinite v, and atoms, end at a knot: there is no line to follow.
        inside = (count > 0) & (count < len(self.levels))
        gap = np.where(inside & (right > left), right - left, 1.0)
        along = np.where(inside, np.where(inside, v, 0.0) - left, 0.0) / gap
        line = np.minimum(start + np.clip(along, 0.0, 1.0) * (stop - start), stop)
        return np.where(count == 0, 0.0, np.where(inside, line, 1.0))

    def moments(self, rows: Knots) -> Array:
        """E V, E|V|, effective sample size, and whether any law behind was widened: (m, 4)."""
        left, right = rows.values[:, :-1], rows.values[:, 1:]
        size = np.abs(left) + np.abs(right)
        across = (left**2 + right**2) / (2.0 * np.where(size > 0.0, size, 1.0))
        out = np.zeros((len(left), 4))
        # Areas under the quantile function, and under its size.
        for column, area in enumerate(
            ((left + right) / 2.0, np.where(left * right < 0.0, across, size / 2.0))
        ):
            # Neither a matrix product nor a sum over strides: their last bits depend on the rows.
            out[:, column] = np.ascontiguousarray(area * np.diff(self.levels)).sum(axis=1)
        out[:, 2] = rows.total
        for law in rows.behind:
            told = law.engine.moments(law.rows)
            out[:, 2] += law.weight * told[:, 2]
            out[:, 3] = np.maximum(out[:, 3], told[:, 3])
        return out
