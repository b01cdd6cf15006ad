"""The neighbours engine: equal weights on the k nearest references and those tied with the k-th.

scikit-learn's k-d tree finds them; the rest is little work in comparison, in plain NumPy. The
neighbours of a chunk of rows are one sorted array of keys, row * n + rank in the order of V: those
of row i are at starts[i]:starts[i + 1], and the number with a rank below c is one search for the
key i * n + c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KDTree

from localconformal.engine import Engine
from localconformal.quantiles import EDGE_GUARD, Array

#: Query rows, and their neighbours, that are held at once.
_CHUNK_ROWS, _CHUNK_PAIRS = 2048, 2**21


class _Near(NamedTuple):
    """Neighbours of a chunk of rows, as described above."""

    part: slice
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


class NeighborEngine(Engine):
    """Equal weights on the k nearest of the sorted reference scores v (n,), with rows (n, d)."""

    def __init__(self, v: Array, references: Array, k: int) -> None:
        self.v, self.references, self.k = v, references, min(k, len(v))
        self.tree = KDTree(references)
        # If many references are at the same distance, chunks are smaller.
        some = references[:: max(1, len(v) // 4)]
        most = int(self._near(some, slice(4)).sizes.max())
        self.chunk = max(1, min(_CHUNK_ROWS, _CHUNK_PAIRS // most))

    def _locate(self, rows: Array, targets: Array) -> NDArray[np.int64]:
        positions = np.full(targets.shape, len(self.v))
        for near in self._chunks(rows):
            wanted, sizes = targets[near.part], near.sizes[:, None]
            # The first j with j / size >= t; at the last neighbour the mass is 1.
            j = np.clip(np.ceil(wanted * sizes).astype(np.int64), 1, sizes)
            found = near.keys[near.starts[:, None] + j - 1] % len(self.v)
            positions[near.part] = np.where(wanted > 1.0, len(self.v), found)
        return positions

    def _mass_up_to(self, rows: Array, counts: Any) -> Array:
        out = np.empty(counts.shape)
        for near in self._chunks(rows):
            first = len(self.v) * np.arange(len(near.sizes))[:, None]
            below = np.searchsorted(near.keys, first + counts[near.part]) - near.starts[:, None]
            out[near.part] = below / near.sizes[:, None]
        return out

    def moments(self, rows: Array) -> Array:
        """E V, E|V|, the number of neighbours, and 0, since no row is widened: (m, 4)."""
        out = np.zeros((len(rows), 4))
        for near in self._chunks(rows):
            v = self.v[near.keys % len(self.v)]
            out[near.part, 0] = np.add.reduceat(v, near.starts) / near.sizes
            out[near.part, 1] = np.add.reduceat(np.abs(v), near.starts) / near.sizes
            out[near.part, 2] = near.sizes
        return out

    def _chunks(self, rows: Array) -> Iterator[_Near]:
        """Neighbours, chunk by chunk; the chunk size does not change any answer."""
        for start in range(0, len(rows), self.chunk):
            yield self._near(rows, slice(start, start + self.chunk))

    def _near(self, rows: Array, part: slice) -> _Near:
        farthest = self.tree.query(rows[part], k=self.k)[0][:, -1]
        found: Any = self.tree.query_radius(rows[part], farthest * (1.0 + EDGE_GUARD))
        sizes = np.array([len(one) for one in found])
        keys = np.repeat(np.arange(len(sizes)), sizes) * len(self.v) + np.concatenate(found)
        return _Near(part, np.sort(keys), np.cumsum(sizes) - sizes, sizes)
