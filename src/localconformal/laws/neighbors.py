"""Equal weights on the k nearest reference rows."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_is_fitted

from localconformal.engine import Engine
from localconformal.engine.choose import FEW
from localconformal.engine.kernels import EDGE_GUARD
from localconformal.engine.reference import ReferenceEngine
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.embedding import fit_embedding
from localconformal.laws.localizer import NeighborsLocalizer
from localconformal.laws.order import canonical_order
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array


@dataclass(frozen=True)
class NeighborWeights:
    """1{|x - X_j| <= distance of the k-th nearest}; rows as far as the k-th all count."""

    references: Array
    n_neighbors: int

    def __call__(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights (m, n), and no fallback anywhere: there are always k neighbours."""
        squared = cdist(rows, self.references, "sqeuclidean")
        k = min(self.n_neighbors, len(self.references))
        radius = np.partition(squared, k - 1, axis=1)[:, k - 1 : k]
        near = squared <= radius * (1.0 + EDGE_GUARD)
        return near.astype(np.float64), np.zeros(len(rows), dtype=bool)


def build_engine(v: Array, references: Array, n_neighbors: int) -> Engine:
    """Plain NumPy for few reference rows, a tree for many."""
    if len(v) <= FEW:
        return ReferenceEngine(v, NeighborWeights(references, n_neighbors))
    from localconformal.engine.neighbors import NeighborEngine

    return NeighborEngine(v, references, n_neighbors)


class NeighborsLaw(BaseLaw):
    """F(v | x) = share of scores up to v among the k reference rows nearest to x.

    Rows at the same distance as the k-th count too, so that the order of rows never matters.

    Parameters
    ----------
    n_neighbors : int, default=100
        k; all reference rows when there are fewer.
    embedding : default=None
        Where "near" is measured, as in `KernelLaw`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(10.0)[:, None]
    >>> NeighborsLaw(n_neighbors=3).fit(X, X[:, 0]).quantile([[5.0]], [0.5])
    array([[5.]])
    """

    def __init__(self, n_neighbors: int = 100, embedding: Any = None) -> None:
        self.n_neighbors = n_neighbors
        self.embedding = embedding

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> NeighborsLaw:
        """Embed the reference rows and keep them in the order of their scores."""
        whole = isinstance(self.n_neighbors, Integral) and not isinstance(self.n_neighbors, bool)
        if not (whole and self.n_neighbors >= 1):
            raise ValueError(
                f"n_neighbors is {self.n_neighbors!r}; an integer of at least 1 was expected."
            )
        scores = check_reference_scores(v)
        self.embedding_, rows = fit_embedding(self.embedding, X, scores, outputs)
        order = canonical_order(rows, scores)
        self.points_ = rows[order]
        self.engine_ = build_engine(scores[order], self.points_, int(self.n_neighbors))
        return self

    def rows(self, X: Any) -> Array:
        """Embedded rows."""
        return self.embedding_.transform(X)

    def localizer(self) -> NeighborsLocalizer:
        """1{x' is as near to x as its k-th nearest reference row}."""
        check_is_fitted(self)
        return NeighborsLocalizer(self.embedding_, self.points_, int(self.n_neighbors))
