"""The sketch engine on tensors.

The sketch is filled and certified by compiled code. A block of queries is one matrix of kernel
values at the landmarks and one matrix product, which gives the ratios of all edges at once; the
tree over the edges (see `compiled_sketch`) is then walked for all rows and levels together.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine.sketch import LEAST, Sketch, SketchEngine
from localconformal.engine.tensors import (
    aligned,
    as_tensor,
    blocks,
    load_torch,
    squared_distances,
)
from localconformal.quantiles import Array


class TensorSketchEngine(SketchEngine):
    """Answers from a sketch on a device; rows it cannot speak for go to the fallback engine.

    Parameters
    ----------
    engine : SketchEngine
        The compiled engine of the same sketch, whose fallback engine stays.
    device : str
        As PyTorch names it: "cpu", "cuda", ...
    """

    def __init__(self, engine: SketchEngine, device: str) -> None:
        vars(self).update(vars(engine))
        self.device = device

    def __getstate__(self) -> dict[str, Any]:
        """Without tensors, which come back by themselves."""
        return {name: value for name, value in vars(self).items() if name != "_tables"}

    def with_sketch(self, sketch: Sketch) -> TensorSketchEngine:
        """The same engine on another sketch."""
        return TensorSketchEngine(super().with_sketch(sketch), self.device)

    @cached_property
    def _tables(self) -> tuple[Any, Any, Any]:
        """Landmarks as columns (d, R), A (G, R) and squares (R,), R and G aligned."""
        r, G = len(self.squares), len(self.A)
        columns = np.full((len(self.sketch.columns), aligned(r)), np.inf, dtype=np.float32)
        columns[:, :r] = self.sketch.columns
        A = np.zeros((aligned(G), aligned(r)), dtype=np.float32)
        A[:G, :r] = self.A
        return self._tensor(columns), self._tensor(A), self._padded(self.squares)

    def _tensor(self, values: Any) -> Any:
        return as_tensor(values, self.device)

    def _padded(self, vector: Any) -> Any:
        padded = np.zeros(aligned(len(vector)), dtype=np.float32)
        padded[: len(vector)] = vector
        return self._tensor(padded)

    def _read(self, block: Array) -> tuple[Any, Any, Any, Any]:
        """Of a block of rows: k(x, Z), ratios at all edges, effective sample sizes, which are lost.

        All sums are in units of n, as `needed` is.
        """
        torch = load_torch()
        columns, A, squares = self._tables
        k = (-0.5 * squared_distances(self._tensor(self.sketch.scale(block)), columns)).exp()
        masses = k @ A.T
        total = masses[:, len(self.A) - 1]
        below = (k * k * squares).sum(dim=1)
        known = (total > 0) & (below > 0)
        sample = torch.where(known, total * total / below, torch.zeros_like(total))
        lost = (k.amax(dim=1) < LEAST) | (sample < self.needed)
        ratios = masses / torch.where(known, total, torch.ones_like(total))[:, None]
        return k, ratios.to(torch.float64), sample, lost

    def _locate(self, rows: Array, targets: Array) -> tuple[Any, NDArray[np.bool_]]:
        positions, _, lost = self._walk(rows, targets, by_edge=False)
        positions[targets > 1.0] = len(self.A)
        return positions, lost

    def _values(self, rows: Array, edges: Any) -> tuple[Array, NDArray[np.bool_]]:
        _, values, lost = self._walk(rows, edges, by_edge=True)
        return np.where(edges >= 0, values, 0.0), lost

    def _walk(self, rows: Array, asked: Any, by_edge: bool) -> tuple[Any, Array, Any]:
        """Down the tree of edges, to targets or to given edges: edges, values (m, L), lost (m,)."""
        edges, values = np.zeros(asked.shape, dtype=np.int64), np.zeros(asked.shape)
        lost = np.zeros(len(rows), dtype=bool)
        for part, block in blocks(rows, aligned(len(self.A))):
            n = part.stop - part.start
            _, ratios, _, is_lost = self._read(block)
            reached, value = self._descend(ratios[:n], self._tensor(asked[part]), by_edge)
            edges[part], values[part] = reached.cpu().numpy(), value.cpu().numpy()
            lost[part] = is_lost[:n].cpu().numpy()
        return edges, values, lost

    def _descend(self, ratios: Any, asked: Any, by_edge: bool) -> tuple[Any, Any]:
        torch = load_torch()
        left = torch.full(asked.shape, -1, dtype=torch.int64, device=ratios.device)
        right = torch.full_like(left, len(self.A) - 1)
        floor = torch.zeros(asked.shape, dtype=torch.float64, device=ratios.device)
        ceiling = torch.ones_like(floor)
        for _ in range(len(self.A).bit_length()):
            middle = (left + right) // 2
            value = ratios.gather(1, middle.clamp(min=0))
            value = torch.minimum(torch.maximum(value, floor), ceiling)
            open_ = right - left > 1
            below = open_ & ((middle >= asked) if by_edge else (value >= asked))
            above = open_ & ~below
            right, ceiling = torch.where(below, middle, right), torch.where(below, value, ceiling)
            left, floor = torch.where(above, middle, left), torch.where(above, value, floor)
        return right, ceiling

    def _moments(self, rows: Array, numerator: Any) -> tuple[Array, NDArray[np.bool_]]:
        out, lost = np.empty((len(rows), 2)), np.zeros(len(rows), dtype=bool)
        vector, total = self._padded(numerator), self._padded(self.A[-1])
        for part, block in blocks(rows, aligned(len(self.A))):
            n = part.stop - part.start
            k, _, sample, is_lost = self._read(block)
            mean = (k * vector).sum(dim=1) / (k * total).sum(dim=1)
            out[part, 0], out[part, 1] = mean[:n].cpu().numpy(), sample[:n].cpu().numpy()
            lost[part] = is_lost[:n].cpu().numpy()
        return out, lost
