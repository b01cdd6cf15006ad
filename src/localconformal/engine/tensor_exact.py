"""The exact engine on tensors: every weight of every reference, as `reference` does in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine import scores_at, targets_by_row
from localconformal.engine.kernels import EDGE_GUARD, NO_MASS, fewest_doublings
from localconformal.engine.tensors import (
    Laws,
    Place,
    aligned,
    blocks,
    locate,
    namespace,
    number,
    ratio,
    squared_distances,
    values_at,
)
from localconformal.quantiles import Array


def gaussian(u2: Any) -> Any:
    """exp(-u^2 / 2), relative to the largest of the row."""
    xp = namespace(u2)
    return xp.exp(-0.5 * (u2 - xp.min(u2, axis=1, keepdims=True)))


def boxcar(u2: Any) -> Any:
    """1{u <= 1}."""
    return namespace(u2).astype(u2 <= 1.0 + EDGE_GUARD, u2.dtype)


def epanechnikov(u2: Any) -> Any:
    """(1 - u^2)+."""
    return namespace(u2).maximum(1.0 - u2, number(0.0, u2))


#: The formulas of `kernels.KERNELS`, of arrays u^2 (m, n).
KERNELS: dict[str, Callable[[Any], Any]] = {
    "gaussian": gaussian,
    "boxcar": boxcar,
    "epanechnikov": epanechnikov,
}


class TensorExactEngine:
    """Kernel laws of sorted reference scores, in float64 on a device.

    Parameters
    ----------
    v : array of shape (n,)
        Reference scores, sorted.
    references : array of shape (n, d)
        Their rows, in the same order.
    kernel : name in `KERNELS`
    bandwidth : float
    min_effective_samples : float
    place : Place
        Where it computes.
    """

    def __init__(
        self,
        v: Array,
        references: Array,
        kernel: str,
        bandwidth: float,
        min_effective_samples: float,
        place: Place,
    ) -> None:
        self.v = v
        self.references = references
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)
        self.place = place

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which come back by themselves."""
        return {name: value for name, value in vars(self).items() if name != "_columns"}

    @cached_property
    def _columns(self) -> Any:
        """References as columns (d, N), N aligned; those that fill up are infinitely far."""
        columns = np.full((self.references.shape[1], aligned(len(self.v))), np.inf)
        columns[:, : len(self.v)] = self.references.T
        return self.place.put(columns)

    def quantiles(self, rows: Array, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        targets = targets_by_row(levels, upper, len(rows))
        positions, _ = locate(self._laws(rows), targets, len(self.v), self.place)
        return scores_at(self.v, positions, targets)

    def cdf(self, rows: Array, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        positions = np.searchsorted(self.v, v, side="right" if side == "right" else "left") - 1
        return values_at(self._laws(rows), positions, len(self.v), self.place)[0]

    def mean(self, rows: Array, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""
        v = np.zeros(aligned(len(self.v)))
        v[: len(self.v)] = np.abs(self.v) if absolute else self.v
        column = self.place.put(v)

        def mean_of(weights: Any, _: Any) -> Any:
            xp = namespace(weights)
            return xp.sum(weights * column, axis=1) / xp.sum(weights, axis=1)

        return self._by_block(rows, mean_of)

    def effective_sample_size(self, rows: Array) -> Array:
        """(sum w)^2 / sum w^2: (m,)."""
        return self._by_block(rows, lambda weights, _: sample_size(weights))

    def fallback(self, rows: Array) -> NDArray[np.bool_]:
        """Where h was doubled: (m,)."""
        return self._by_block(rows, lambda _, thin: thin) > 0

    def _laws(self, rows: Array) -> Laws:
        """Running sums of the weights; rows where h was doubled have the flag."""
        for part, weights, thin in self._blocks(rows):
            masses = namespace(weights).cumulative_sum(weights, axis=1)
            yield part, masses, masses[:, len(self.v) - 1], thin

    def _by_block(self, rows: Array, answer: Callable[[Any, Any], Any]) -> Array:
        out = np.empty(len(rows))
        for part, weights, thin in self._blocks(rows):
            out[part] = self.place.fetch(answer(weights, thin)[: part.stop - part.start])
        return out

    def _blocks(self, rows: Array) -> Iterator[tuple[slice, Any, Any]]:
        """Each block: which rows, their weights (block, N), and where h was doubled (block,)."""
        kernel = KERNELS[self.kernel]
        for part, block in blocks(rows, self._columns.shape[1]):
            squared = squared_distances(self.place.put(block), self._columns)
            xp = namespace(squared)
            u2 = self._in_units(squared, np.zeros(len(block)))
            weights = kernel(u2)
            thin = ~is_enough(u2, weights, self.needed)
            if bool(xp.any(thin)):
                widened = kernel(self._in_units(squared, self._doublings(squared)))
                weights = xp.where(thin[:, None], widened, weights)
            yield part, weights, thin

    def _in_units(self, squared: Any, doublings: Array) -> Any:
        """Squared distances in units of h 2^k, k (block,)."""
        if np.isinf(self.bandwidth):
            xp = namespace(squared)
            return xp.where(xp.isfinite(squared), number(0.0, squared), squared)
        return squared / self.place.put((self.bandwidth * 2.0**doublings) ** 2)[:, None]

    def _doublings(self, squared: Any) -> Array:
        """The smallest number of doublings that is enough at each row: (block,)."""

        def enough(doublings: Array) -> NDArray[np.bool_]:
            u2 = self._in_units(squared, doublings)
            return self.place.fetch(is_enough(u2, KERNELS[self.kernel](u2), self.needed))

        farthest = self.place.fetch(namespace(squared).max(squared[:, : len(self.v)], axis=1))
        return fewest_doublings(np.sqrt(farthest) / self.bandwidth, enough)


def sample_size(weights: Any) -> Any:
    """(sum w)^2 / sum w^2 of each row; 0 where all weights are 0."""
    xp = namespace(weights)
    total = xp.sum(weights, axis=1)
    return ratio(total * total, xp.sum(weights * weights, axis=1))


def is_enough(u2: Any, weights: Any, needed: float) -> Any:
    """Whether each row has mass, and the needed effective sample size."""
    xp = namespace(u2)
    has_mass = (xp.min(u2, axis=1) <= NO_MASS) & (xp.max(weights, axis=1) > 0.0)
    return has_mass & (sample_size(weights) >= needed)
