"""The exact engine on tensors: every weight of every reference, as `reference` does in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.kernels import EDGE_GUARD, NO_MASS, fewest_doublings
from localconformal.engine.positions import scores_at, targets_by_row
from localconformal.engine.tensors import aligned, as_tensor, blocks, load_torch, squared_distances
from localconformal.quantiles import Array

#: The formulas of `kernels.KERNELS`, of tensors u^2 (m, n).
KERNELS: dict[str, Callable[[Any], Any]] = {
    "gaussian": lambda u2: (-0.5 * (u2 - u2.amin(dim=1, keepdim=True))).exp(),
    "boxcar": lambda u2: (u2 <= 1.0 + EDGE_GUARD).to(u2.dtype),
    "epanechnikov": lambda u2: (1.0 - u2).clamp(min=0.0),
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
    device : str
        As PyTorch names it: "cpu", "cuda", ...
    """

    def __init__(
        self,
        v: Array,
        references: Array,
        kernel: str,
        bandwidth: float,
        min_effective_samples: float,
        device: str,
    ) -> None:
        self.v = v
        self.references = references
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)
        self.device = device

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which come back by themselves."""
        return {name: value for name, value in vars(self).items() if name != "_columns"}

    @cached_property
    def _columns(self) -> Any:
        """References as columns (d, N), N aligned."""
        columns = np.zeros((self.references.shape[1], aligned(len(self.v))))
        columns[:, : len(self.v)] = self.references.T
        return as_tensor(columns, self.device)

    def quantiles(self, rows: Array, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        targets = targets_by_row(levels, upper, len(rows))
        positions = self._of_law(rows, targets, load_torch().searchsorted).astype(np.int64)
        return scores_at(self.v, np.minimum(positions, len(self.v)), targets)

    def cdf(self, rows: Array, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")

        def look_up(F: Any, asked: Any) -> Any:
            return F.gather(1, (asked - 1).clamp(min=0)) * (asked > 0)

        return self._of_law(rows, counts, look_up)

    def mean(self, rows: Array, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""
        v = np.zeros(aligned(len(self.v)))
        v[: len(self.v)] = np.abs(self.v) if absolute else self.v
        column = as_tensor(v, self.device)
        return self._by_block(rows, lambda w, _: (w * column).sum(dim=1) / w.sum(dim=1))

    def effective_sample_size(self, rows: Array) -> Array:
        """(sum w)^2 / sum w^2: (m,)."""
        return self._by_block(rows, lambda weights, _: sample_size(weights))

    def fallback(self, rows: Array) -> NDArray[np.bool_]:
        """Where h was doubled: (m,)."""
        return self._by_block(rows, lambda _, thin: thin) > 0

    def _of_law(self, rows: Array, asked: Any, answer: Callable[[Any, Any], Any]) -> Array:
        """What ``answer`` makes of F (block, N) and of what was asked of its rows: (m, k)."""
        out = np.empty(asked.shape)
        for part, weights, _ in self._blocks(rows):
            F = weights.cumsum(dim=1)
            F /= F[:, -1:].clone()
            of_rows = np.zeros((len(F), asked.shape[1]), dtype=asked.dtype)
            of_rows[: part.stop - part.start] = asked[part]
            out[part] = on_host(answer(F, as_tensor(of_rows, self.device)), part)
        return out

    def _by_block(self, rows: Array, answer: Callable[[Any, Any], Any]) -> Array:
        out = np.empty(len(rows))
        for part, weights, thin in self._blocks(rows):
            out[part] = on_host(answer(weights, thin), part)
        return out

    def _blocks(self, rows: Array) -> Any:
        """Each block: which rows, their weights (block, N), and where h was doubled (block,)."""
        for part, block in blocks(rows, self._columns.shape[1]):
            squared = squared_distances(as_tensor(block, self.device), self._columns)
            # What fills up the columns is infinitely far, and has no weight.
            squared[:, len(self.v) :] = np.inf
            u2 = self._in_units(squared, np.zeros(len(block)))
            weights = KERNELS[self.kernel](u2)
            thin = ~is_enough(u2, weights, self.needed)
            if bool(thin.any()):
                widened = KERNELS[self.kernel](self._in_units(squared, self._doublings(squared)))
                weights = widened.where(thin[:, None], weights)
            yield part, weights, thin

    def _in_units(self, squared: Any, doublings: Array) -> Any:
        """Squared distances in units of h 2^k, k (block,)."""
        if np.isinf(self.bandwidth):
            return squared.clone().masked_fill_(squared.isfinite(), 0.0)
        return squared / as_tensor((self.bandwidth * 2.0**doublings) ** 2, self.device)[:, None]

    def _doublings(self, squared: Any) -> Array:
        """The smallest number of doublings that is enough at each row: (block,)."""

        def enough(doublings: Array) -> NDArray[np.bool_]:
            u2 = self._in_units(squared, doublings)
            return np.asarray(is_enough(u2, KERNELS[self.kernel](u2), self.needed).cpu().numpy())

        farthest = squared[:, : len(self.v)].amax(dim=1).sqrt().cpu().numpy()
        return fewest_doublings(farthest / self.bandwidth, enough)


def sample_size(weights: Any) -> Any:
    """(sum w)^2 / sum w^2 of each row; 0 where all weights are 0."""
    squares = (weights * weights).sum(dim=1)
    return weights.sum(dim=1) ** 2 / squares.masked_fill(squares == 0, 1.0)


def is_enough(u2: Any, weights: Any, needed: float) -> Any:
    """Whether each row has mass, and the needed effective sample size."""
    has_mass = (u2.amin(dim=1) <= NO_MASS) & (weights.amax(dim=1) > 0)
    return has_mass & (sample_size(weights) >= needed)


def on_host(values: Any, part: slice) -> NDArray[Any]:
    """The first of the values, as many as there are rows."""
    return np.asarray(values[: part.stop - part.start].cpu().numpy())
