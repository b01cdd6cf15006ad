"""The sketch engine on tensors.

The sketch is filled and certified by compiled code. A block of queries is one matrix of kernel
values at the landmarks and one matrix product, which gives the ratios of all edges at once; the
tree over the edges (see `sketch`) is then walked for all rows and levels together.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.sketch import LEAST, Sketch, SketchEngine
from localconformal.engine.tensors import (
    Laws,
    Place,
    aligned,
    blocks,
    locate,
    namespace,
    ratio,
    squared_distances,
    values_at,
)
from localconformal.quantiles import Array


class TensorSketchEngine(SketchEngine):
    """Answers from a sketch on a device; rows it cannot speak for go to the fallback engine.

    Parameters
    ----------
    engine : SketchEngine
        The compiled engine of the same sketch, whose fallback engine stays.
    place : Place
        Where it computes.
    """

    def __init__(self, engine: SketchEngine, place: Place) -> None:
        vars(self).update(vars(engine))
        self.place = place

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which come back by themselves."""
        return {name: value for name, value in vars(self).items() if name != "_tables"}

    def with_sketch(self, sketch: Sketch) -> TensorSketchEngine:
        """The same engine on another sketch."""
        return TensorSketchEngine(super().with_sketch(sketch), self.place)

    @cached_property
    def _tables(self) -> tuple[Any, Any, Any]:
        """Landmarks as columns (d, R), A (G, R) and squares (R,), R and G aligned."""
        r, G = len(self.squares), len(self.A)
        columns = np.full((len(self.sketch.columns), aligned(r)), np.inf, dtype=np.float32)
        columns[:, :r] = self.sketch.columns
        A = np.zeros((aligned(G), aligned(r)), dtype=np.float32)
        A[:G, :r] = self.A
        return self.place.put(columns), self.place.put(A), self._padded(self.squares)

    def _padded(self, vector: Any) -> Any:
        padded = np.zeros(aligned(len(vector)), dtype=np.float32)
        padded[: len(vector)] = vector
        return self.place.put(padded)

    def _read(self, block: Array) -> tuple[Any, Any, Any, Any, Any]:
        """Of a block of rows: k(x, Z), masses up to all edges and in all, sample sizes, the lost.

        All sums are in units of n, as `needed` is.
        """
        columns, A, squares = self._tables
        k = kernel_values(self.place.put(self.sketch.scale(block)), columns)
        xp = namespace(k)
        masses = k @ A.T
        total = masses[:, len(self.A) - 1]
        below = xp.sum(k * k * squares, axis=1)
        known = (total > 0.0) & (below > 0.0)
        sample = xp.where(known, ratio(total * total, below), xp.zeros_like(total))
        lost = (xp.max(k, axis=1) < LEAST) | (sample < self.needed)
        return k, masses, xp.where(known, total, xp.ones_like(total)), sample, lost

    def _locate(self, rows: Array, targets: Array) -> tuple[Any, NDArray[np.bool_]]:
        return locate(self._laws(rows), targets, len(self.A), self.place)

    def _values(self, rows: Array, edges: Any) -> tuple[Array, NDArray[np.bool_]]:
        return values_at(self._laws(rows), edges, len(self.A), self.place)

    def _laws(self, rows: Array) -> Laws:
        """Masses up to all edges; rows that are lost have the flag."""
        for part, block in blocks(rows, aligned(len(self.A))):
            _, masses, total, _, lost = self._read(block)
            yield part, masses, total, lost

    def _moments(self, rows: Array, numerator: Any) -> tuple[Array, NDArray[np.bool_]]:
        out, lost = np.empty((len(rows), 2)), np.zeros(len(rows), dtype=bool)
        vector, total = self._padded(numerator), self._padded(self.A[-1])
        for part, block in blocks(rows, aligned(len(self.A))):
            k, _, _, sample, is_lost = self._read(block)
            xp = namespace(k)
            mean = ratio(xp.sum(k * vector, axis=1), xp.sum(k * total, axis=1))
            for into, values in (
                (out[part, 0], mean),
                (out[part, 1], sample),
                (lost[part], is_lost),
            ):
                into[:] = self.place.fetch(values[: len(into)])
        return out, lost


def kernel_values(rows: Any, columns: Any) -> Any:
    """exp(-|x - z|^2 / 2) for rows (m, d) and columns (d, r), in units of h: (m, r)."""
    return namespace(rows).exp(-0.5 * squared_distances(rows, columns))
