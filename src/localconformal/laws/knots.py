"""Laws given by their quantiles at a few levels, joined by straight lines.

A law at a row is a vector of knots a_0 <= ... <= a_G at fixed levels 0 = g_0 < ... < g_G = 1;
equal knots are an atom. Any law whose quantiles can be asked for has this form: learned quantiles,
averages of the quantiles of several laws, changes of variable.

Rounding: Q may only come out lower and Q+ only higher than the true line, by a few units in
the last place, so that F(v) >= t implies Q(t) <= v and F(v-) <= t implies v <= Q+(t). Neither
leaves the piece that its level falls in, so that both stay monotone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localconformal.laws.base import LocalLaw
from localconformal.quantiles import MASS_GUARD, Array
from localconformal.rows import Index

_TAIL = [0.0, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06]
_TAIL += [0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
#: Dense where intervals are asked for: the tails, the middle, the tails.
GRID = np.round(np.concatenate([_TAIL, [0.5], 1.0 - np.array(_TAIL[::-1])]), 12)
_SMALLEST = 1e-9
# Units in the last place by which an interpolated value may be off.
_ROUNDING = 16 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Knots:
    """Quantiles (n, G) at the levels (G,).

    Effective sample and widening are asked of the laws behind, (weight, law) each, and only when
    somebody wants to know; a law without any has ``total`` reference rows everywhere.
    """

    levels: Array
    values: Array
    total: float = 0.0
    behind: tuple[tuple[float, LocalLaw], ...] = ()

    @classmethod
    def of(cls, F: LocalLaw, levels: Array = GRID) -> Knots:
        """Any local law on a grid of levels."""
        # Q(0) is -inf by definition; the end of the support is what a knot needs.
        values = F.quantiles(np.maximum(levels, _SMALLEST), np.zeros(len(levels), dtype=bool))
        return cls(levels, np.maximum.accumulate(values, axis=1), behind=((1.0, F),))

    def changed(self, location: Array, scale: Array) -> Knots:
        """The law of location + scale V, (n,) each."""
        values = location[:, None] + scale[:, None] * self.values
        return Knots(self.levels, values, self.total, self.behind)

    def take(self, index: Index) -> Knots:
        """At some of the rows."""
        behind = tuple((weight, F.take(index)) for weight, F in self.behind)
        return Knots(self.levels, self.values[index], self.total, behind)

    def quantiles(self, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (n, L) -> (n, L)."""
        n, L = len(self.values), levels.shape[-1]
        strict = np.broadcast_to(upper, levels.shape)
        t = np.broadcast_to(levels + np.where(strict, MASS_GUARD, -MASS_GUARD), (n, L))
        # The knot that ends the piece in which t falls; Q+ starts a piece where Q ends one.
        above, below = (np.searchsorted(self.levels, t, side) for side in ("right", "left"))
        end = np.clip(np.where(strict, above, below), 1, len(self.levels) - 1)
        left = np.take_along_axis(self.values, end - 1, axis=1)
        right = np.take_along_axis(self.values, end, axis=1)
        share = (t - self.levels[end - 1]) / (self.levels[end] - self.levels[end - 1])
        line = left + np.clip(share, 0.0, 1.0) * (right - left)
        slack = np.where(left == right, 0.0, _ROUNDING * np.maximum(np.abs(left), np.abs(right)))
        value = np.clip(np.where(strict, line + slack, line - slack), left, right)
        value = np.where(~strict & (t <= 0.0), -np.inf, value)
        return np.where(strict & (t >= 1.0), np.inf, value)

    def cdf(self, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (n, k) -> (n, k)."""
        return np.stack([self._cdf(column, side) for column in v.T], axis=1)

    def _cdf(self, v: Array, side: str) -> Array:
        knots = self.values
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

    def moments(self) -> Array:
        """E[V] and E[|V|], areas under the quantile function; sizes and flags of laws behind."""
        left, right = self.values[:, :-1], self.values[:, 1:]
        size = np.abs(left) + np.abs(right)
        across = (left**2 + right**2) / (2.0 * np.where(size > 0.0, size, 1.0))
        areas = (left + right) / 2.0, np.where(left * right < 0.0, across, size / 2.0)
        # Neither a matrix product nor a sum over strides: their last bits depend on the rows.
        steps = np.diff(self.levels)
        means = [np.ascontiguousarray(area * steps).sum(axis=1) for area in areas]
        sizes, widened = np.full(len(left), self.total), np.zeros(len(left))
        for weight, F in self.behind:
            found = F.moments()
            sizes, widened = sizes + weight * found[:, 2], np.maximum(widened, found[:, 3])
        return np.column_stack([*means, sizes, widened])
