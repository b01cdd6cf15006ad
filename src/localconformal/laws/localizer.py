"""How much one row speaks for another: H(x, x') in [0, 1], H(x, x) = 1.

A law weighs its reference rows at x. Methods that weigh calibration rows instead take the kernel
behind a fitted law, `BaseLaw.localizer`: a function of two rows, frozen at fit. Nothing is
widened here where rows are few: these methods put the missing mass at +inf.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from localconformal.engine.kernels import EDGE_GUARD, absolute_weights
from localconformal.quantiles import Array


class Localizer(Protocol):
    """A kernel between rows; where it is not symmetric, both H(x, x') and H(x', x) are asked."""

    symmetric: ClassVar[bool]

    def view(self, X: Any) -> Any:
        """What the kernel needs of each row: an array with one entry a row."""

    def __call__(self, rows: Any, others: Any) -> Array:
        """H(row_i, other_j) of two views: (m, n)."""


@dataclass(frozen=True)
class KernelLocalizer:
    """K(|f(x) - f(x')| / h)."""

    symmetric: ClassVar[bool] = True

    embedding: Any
    kernel: str
    bandwidth: float

    def view(self, X: Any) -> Array:
        """Embedded rows (n, k)."""
        return np.asarray(self.embedding.transform(X))

    def __call__(self, rows: Array, others: Array) -> Array:
        """The kernel at every pair."""
        squared = cdist(rows, others, "sqeuclidean")
        return absolute_weights(self.kernel, squared / self.bandwidth**2)


@dataclass(frozen=True)
class NeighborsLocalizer:
    """1{|f(x) - f(x')| <= distance from f(x) to its k-th nearest reference row}."""

    symmetric: ClassVar[bool] = False

    embedding: Any
    references: Array
    n_neighbors: int

    def view(self, X: Any) -> Array:
        """Embedded rows and the squared radius around each: (n, k + 1)."""
        points = np.asarray(self.embedding.transform(X))
        k = min(self.n_neighbors, len(self.references))
        radius = [
            np.partition(cdist(point[None], self.references, "sqeuclidean")[0], k - 1)[k - 1]
            for point in points
        ]
        return np.column_stack([points, radius])

    def __call__(self, rows: Array, others: Array) -> Array:
        """Whether each other row is within the radius of each row."""
        squared = cdist(rows[:, :-1], others[:, :-1], "sqeuclidean")
        return (squared <= rows[:, -1:] * (1.0 + EDGE_GUARD)).astype(np.float64)


@dataclass(frozen=True)
class LeafLocalizer:
    """Share of the trees in which x and x' are in the same leaf."""

    symmetric: ClassVar[bool] = True

    find: Callable[[Any], Any]

    def view(self, X: Any) -> Any:
        """Codes of leaves (n, T)."""
        return np.asarray(self.find(X))

    def __call__(self, rows: Any, others: Any) -> Array:
        """Shared leaves, tree by tree: all pairs and trees at once would fill the memory."""
        shared = np.zeros((len(rows), len(others)), dtype=np.int32)
        for mine, theirs in zip(rows.T, others.T, strict=True):
            shared += mine[:, None] == theirs[None, :]
        return shared / max(1, rows.shape[1])


@dataclass(frozen=True)
class UniformLocalizer:
    """H = 1: every row speaks for every other."""

    symmetric: ClassVar[bool] = True

    def view(self, X: Any) -> Array:
        """Nothing of a row matters."""
        return np.zeros(len(X))

    def __call__(self, rows: Array, others: Array) -> Array:
        """Ones."""
        return np.ones((len(rows), len(others)))
