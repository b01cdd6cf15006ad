"""The neighbours engine: only references with weight are looked at, found by a tree.

For narrow and compact kernels, and for k nearest neighbours, almost all weights are zero. A
k-d tree (scikit-learn's, which is well kept, pickles and needs nothing new) finds the others:

* compact kernels: all references within h, exactly those with weight;
* Gaussian: those whose weight, relative to the nearest, is above 1e-6 / n; what is left out
  adds up to less than one millionth of the mass;
* k nearest: all within the distance of the k-th, ties included.

Rows where too few are found go to a dense engine, which widens the kernel as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KDTree

from localconformal.engine import Engine, scores_at, targets_by_row
from localconformal.engine import compiled_sparse as loops
from localconformal.engine.kernels import CODES, EDGE_GUARD, NO_MASS, truncation
from localconformal.quantiles import Array

#: Query rows whose neighbours are held at once.
CHUNK_ROWS = 2048
#: Neighbours held at once, over all rows of a chunk.
CHUNK_PAIRS = 2**21


@dataclass(frozen=True)
class Neighborhood:
    """Neighbours of a chunk of rows, as flat arrays: see `compiled_sparse`."""

    starts: NDArray[np.int64]
    ranks: NDArray[np.int64]
    weights: Array
    #: Rows so far from every reference that the kernel has no mass there, whatever was found.
    out_of_reach: NDArray[np.bool_]


class KernelNeighbors:
    """References with kernel weight."""

    def __init__(self, references: Array, kernel: str, bandwidth: float) -> None:
        self.code = CODES[kernel]
        self.bandwidth = bandwidth
        # As they came: scaling would round distances that lie on the edge of a kernel.
        self.points = references
        self.tree = KDTree(self.points)
        self.reach = truncation(kernel, len(references)) if kernel == "gaussian" else None

    def __call__(self, rows: Array) -> Neighborhood:
        """Neighbours of these rows and their weights."""
        points = np.ascontiguousarray(rows)
        radius: Any = 1.0 + EDGE_GUARD
        out_of_reach = np.zeros(len(rows), dtype=bool)
        if self.reach is not None:
            nearest = (self.tree.query(points, k=1)[0][:, 0] / self.bandwidth) ** 2
            out_of_reach = nearest > NO_MASS
            radius = np.sqrt(nearest + self.reach)
        found = flat(self.tree.query_radius(points, radius * self.bandwidth), out_of_reach)
        unit = self.bandwidth**-2
        loops.weigh_neighbors(
            points, self.points, found.starts, found.ranks, self.code, unit, found.weights
        )
        return found


class NearestNeighbors:
    """The k nearest references, and those as far as the k-th, all alike."""

    def __init__(self, references: Array, k: int) -> None:
        self.points = references
        self.tree = KDTree(references)
        self.k = min(k, len(references))

    def __call__(self, rows: Array) -> Neighborhood:
        """Neighbours of these rows, with weight 1."""
        farthest = self.tree.query(rows, k=self.k)[0][:, -1]
        near = self.tree.query_radius(rows, farthest * (1.0 + EDGE_GUARD))
        found = flat(near, np.zeros(len(rows), dtype=bool))
        for start, end in zip(found.starts[:-1], found.starts[1:], strict=True):
            found.ranks[start:end].sort()
        return found


def flat(lists: Any, out_of_reach: NDArray[np.bool_]) -> Neighborhood:
    """Flat arrays from one array of ranks a row; weights 1."""
    starts = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    ranks = np.concatenate([*lists, np.empty(0, dtype=np.int64)]).astype(np.int64, copy=False)
    return Neighborhood(starts, ranks, np.ones(len(ranks)), out_of_reach)


class NeighborEngine:
    """Laws on the neighbours of each row.

    Parameters
    ----------
    v : array of shape (n,)
        Reference scores, sorted.
    neighbors : callable
        Rows -> `Neighborhood`; its ``points`` are the references.
    dense : Engine or None
        Answers for rows with too small an effective sample; None: there are none.
    min_effective_samples : float
    """

    def __init__(
        self, v: Array, neighbors: Any, dense: Engine | None, min_effective_samples: float
    ) -> None:
        self.v = v
        self.neighbors = neighbors
        self.dense = dense
        # Wide neighbourhoods take smaller chunks; the size changes no answer.
        some = neighbors.points[:: max(1, len(v) // 4)][:4]
        most = max(1, int(np.diff(neighbors(some).starts).max()))
        self.chunk = int(np.clip(CHUNK_PAIRS // most, 1, CHUNK_ROWS))
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)

    def quantiles(self, rows: Array, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        targets = targets_by_row(levels, upper, len(rows))

        def few(found: Neighborhood, part: slice) -> Array:
            ranks = np.empty(targets[part].shape, dtype=np.int64)
            loops.sparse_locate(
                found.starts, found.ranks, found.weights, len(self.v), targets[part], ranks
            )
            return scores_at(self.v, ranks, targets[part])

        of_row = np.broadcast_to(levels, targets.shape)
        return self._answer(rows, few, lambda e, t: e.quantiles(rows[t], of_row[t], upper))

    def cdf(self, rows: Array, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")

        def few(found: Neighborhood, part: slice) -> Array:
            out = np.empty(counts[part].shape)
            loops.sparse_mass(found.starts, found.ranks, found.weights, counts[part], out)
            return out

        return self._answer(rows, few, lambda e, t: e.cdf(rows[t], v[t], side))

    def mean(self, rows: Array, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""
        v = np.abs(self.v) if absolute else self.v
        return self._answer(
            rows, lambda f, _: self._moments(f, v)[:, 0], lambda e, t: e.mean(rows[t], absolute)
        )

    def effective_sample_size(self, rows: Array) -> Array:
        """(sum w)^2 / sum w^2: (m,)."""
        return self._answer(
            rows,
            lambda f, _: self._moments(f, self.v)[:, 1],
            lambda e, t: e.effective_sample_size(rows[t]),
        )

    def fallback(self, rows: Array) -> NDArray[np.bool_]:
        """Where the kernel was widened: (m,)."""
        return self._answer(
            rows, lambda f, _: np.zeros(len(f.starts) - 1), lambda e, t: e.fallback(rows[t])
        ).astype(bool)

    def _moments(self, found: Neighborhood, v: Array) -> Array:
        out = np.empty((len(found.starts) - 1, 2))
        loops.sparse_moments(found.starts, found.ranks, found.weights, v, out)
        return out

    def _is_thin(self, found: Neighborhood) -> NDArray[np.bool_]:
        """Where there is no mass, or too small an effective sample."""
        sample = self._moments(found, self.v)[:, 1]
        return (sample < self.needed) | (sample == 0.0) | found.out_of_reach

    def _answer(self, rows: Array, few: Any, many: Any) -> Array:
        """``few`` on each chunk's neighbours; ``many``, a dense engine's answer, where thin."""
        answers, thin = [], []
        # No rows make one empty chunk, whose answer has the right shape; a tree takes none.
        for start in range(0, max(len(rows), 1), self.chunk):
            part = slice(start, start + self.chunk)
            found = self.neighbors(rows[part]) if len(rows) else flat([], np.zeros(0, dtype=bool))
            answers.append(few(found, part))
            thin.append(self._is_thin(found))
        answer, scarce = np.concatenate(answers), np.flatnonzero(np.concatenate(thin))
        if self.dense is not None and len(scarce):
            answer[scarce] = many(self.dense, scarce)
        return answer
