"""The plain NumPy engine: short, exact, and the oracle of every faster one.

References are kept in the order of V, so that the law at x is a running sum of its weights in
that fixed order: no sort per query. A chunk of queries holds at most `CHUNK` weights, which
bounds the memory whatever the number of queries. Each query row is computed from itself and
the references alone, by operations that do not look at its neighbours: predicting one by one
or in a batch gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.kernels import effective_sample_size
from localconformal.quantiles import Array, quantile_of_cdf

#: Weights held at once: 2^21 float64 are 16 MB, a few times that with temporaries.
CHUNK = 2**21


class Weigh(Protocol):
    """Weights of the references (in V order) at query rows, and where a fallback was used."""

    def __call__(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        """(m, d) -> weights (m, n), fallback (m,)."""


class ReferenceEngine:
    """Weighted laws of sorted reference scores.

    Parameters
    ----------
    v : array of shape (n,)
        Reference scores, sorted.
    weigh : callable
        Rows (m, d) -> weights (m, n) in the order of ``v``, fallback (m,).
    """

    def __init__(self, v: Array, weigh: Weigh) -> None:
        self.v = v
        self.weigh = weigh

    def quantiles(self, rows: Array, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        levels = np.broadcast_to(levels, (len(rows), levels.shape[-1]))
        return self._by_chunk(
            rows, lambda part, F: quantile_of_cdf(self.v, F, levels[part], upper), levels.shape[1]
        )

    def cdf(self, rows: Array, v: Array, side: str) -> Array:
        """F(v | x) (side "right") or F(v- | x) ("left"): v (m, k) -> (m, k)."""
        # Entry 0 is the mass below everything.
        position = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        return self._by_chunk(
            rows,
            lambda part, F: np.take_along_axis(np.pad(F, ((0, 0), (1, 0))), position[part], axis=1),
            v.shape[1],
        )

    def moments(self, rows: Array) -> Array:
        """E V, E|V|, (sum w)^2 / sum w^2, and where the fallback was used: (m, 4)."""
        out = np.empty((len(rows), 4))
        for part, weights, widened in self._weights(rows):
            # einsum, unlike a BLAS product, sums each row the same way in any batch.
            for column, v in enumerate((self.v, np.abs(self.v))):
                out[part, column] = np.einsum("ij,j->i", weights, v) / weights.sum(axis=1)
            out[part, 2], out[part, 3] = effective_sample_size(weights), widened
        return out

    def _weights(self, rows: Array) -> Iterator[tuple[slice, Array, NDArray[np.bool_]]]:
        step = max(1, CHUNK // len(self.v))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield part, *self.weigh(rows[part])

    def _by_chunk(self, rows: Array, answer: Callable[[slice, Array], Array], width: int) -> Array:
        out = np.empty((len(rows), width))
        for part, weights, _ in self._weights(rows):
            F = np.cumsum(weights, axis=1)
            F /= F[:, -1:]
            out[part] = answer(part, F)
        return out
