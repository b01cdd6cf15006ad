"""One law for each side of a score, asked together.

Scores have S = 1 or 2 columns. When the second is the first with its sign turned (residuals
around a point), so is its law, exactly: Q_lower(t) = -Q+_upper(1 - t). One law then answers
for both sides, in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from localconformal.laws.base import BaseLaw
from localconformal.laws.once import one_query
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array


@dataclass(frozen=True)
class SidedLaw:
    """Fitted laws of the columns of V; a mirrored pair holds the law of the last column only."""

    laws: tuple[BaseLaw, ...]
    mirrored: bool

    @classmethod
    def fit(cls, law: BaseLaw, X: Any, V: Array, outputs: Outputs | None) -> SidedLaw:
        """Fit clones of ``law`` to reference rows X and scores V (n, S)."""
        mirrored = V.shape[1] == 2 and np.array_equal(V[:, 0], -V[:, 1])
        columns = [V[:, -1]] if mirrored else list(V.T)
        laws = tuple(clone(law).fit(X, column, outputs=outputs) for column in columns)
        return cls(laws, mirrored)

    def update(self, X: Any, V: Array) -> None:
        """Add reference rows to laws that can be added to."""
        for law, column in zip(self.laws, V.T[-len(self.laws) :], strict=True):
            law.update(X, column)

    @property
    def version(self) -> tuple[int, ...]:
        """Changes whenever a law does."""
        return tuple(law.n_updates_ for law in self.laws)

    def at(self, X: Any) -> LocalLaw:
        """The laws at the rows of X."""
        with one_query():
            return LocalLaw(self, tuple(law.rows(X) for law in self.laws), len(X))


@dataclass(frozen=True)
class LocalLaw:
    """F(. | x) at n rows x, for each of S sides: what an adjustment works with."""

    sided: SidedLaw
    rows: tuple[Any, ...]
    n: int

    def quantile(self, levels: Array) -> Array:
        """Q(t | x): levels (S, L), or (n, S, L) to differ by row -> (n, S, L)."""
        return self._quantiles(levels, upper=False)

    def upper_quantile(self, levels: Array) -> Array:
        """Q+(t | x): levels (S, L), or (n, S, L) to differ by row -> (n, S, L)."""
        return self._quantiles(levels, upper=True)

    def _quantiles(self, levels: Array, upper: bool) -> Array:
        L = levels.shape[-1]
        if self.sided.mirrored:
            both = np.concatenate([1.0 - levels[..., 0, :], levels[..., 1, :]], axis=-1)
            strict = np.repeat([not upper, upper], L)
            answer = self.sided.laws[0].engine_.quantiles(self.rows[0], both, strict)
            return np.stack([-answer[:, :L], answer[:, L:]], axis=1)
        strict = np.full(L, upper)
        sides = zip(self.sided.laws, self.rows, np.moveaxis(levels, -2, 0), strict=True)
        return np.stack(
            [law.engine_.quantiles(rows, level, strict) for law, rows, level in sides], axis=1
        )

    def cdf(self, v: Array, side: str = "right") -> Array:
        """F(v | x), or F(v- | x) for side "left": v (n, S) -> (n, S)."""
        if self.sided.mirrored:
            engine, rows = self.sided.laws[0].engine_, self.rows[0]
            other = "left" if side == "right" else "right"
            lower = 1.0 - engine.cdf(rows, -v[:, :1], other)
            return np.hstack([lower, engine.cdf(rows, v[:, 1:], side)])
        sides = zip(self.sided.laws, self.rows, v.T, strict=True)
        return np.hstack([law.engine_.cdf(rows, col[:, None], side) for law, rows, col in sides])

    def moments(self) -> Array:
        """E V, E|V|, effective sample size, and 1 where the law was widened: (n, S, 4)."""
        sides = zip(self.sided.laws, self.rows, strict=True)
        told = [law.engine_.moments(rows) for law, rows in sides]
        if self.sided.mirrored:
            told = [told[0] * [-1.0, 1.0, 1.0, 1.0], told[0]]
        return np.stack(told, axis=1)

    def mean(self, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x]: (n, S)."""
        means = self.moments()[:, :, int(absolute)]
        if np.isnan(means).any():
            raise ValueError(
                "the law has no mean of |V|, which this adjustment needs; subclass "
                "localconformal.laws.BaseLaw instead."
            )
        return means

    def side(self, index: int, level: float) -> OneSide:
        """The law of one side, as plain vectors: what a user's own adjustment works with."""
        return OneSide(self, index, level)


@dataclass(frozen=True)
class OneSide:
    """F(. | x) of one side at n rows x.

    ``level`` is the local level asked for, such as 0.95 for each side of a joint 90 % interval.
    """

    local: LocalLaw
    index: int
    level: float

    def quantile(self, t: Array | float) -> Array:
        """Q(t | x) for one t, or one per row: (n,)."""
        return self._spread(t, self.local.quantile)

    def upper_quantile(self, t: Array | float) -> Array:
        """Q+(t | x) for one t, or one per row: (n,)."""
        return self._spread(t, self.local.upper_quantile)

    def _spread(self, t: Array | float, ask: Callable[[Array], Array]) -> Array:
        columns = np.broadcast_to(np.reshape(t, (-1, 1, 1)), (self.local.n, self._sides, 1))
        return ask(columns)[:, self.index, 0]

    def cdf(self, v: Array | float, side: str = "right") -> Array:
        """F(v | x), or F(v- | x) for side "left": (n,)."""
        columns = np.broadcast_to(np.reshape(v, (-1, 1)), (self.local.n, self._sides))
        return self.local.cdf(columns, side)[:, self.index]

    def mean(self, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x]: (n,)."""
        return self.local.mean(absolute)[:, self.index]

    @property
    def _sides(self) -> int:
        return 2 if self.local.sided.mirrored else len(self.local.sided.laws)
