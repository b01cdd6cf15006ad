"""SLCP as the authors' released code computes it: to explain printed numbers, never to be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import check_random_state

from benchmarks.harness import LEVEL
from localconformal.quantiles import Array, conformal_quantile

#: What the code does with the errors of the mini-batch: the quantile of equally weighted ones, the
#: quantile of weighted ones, or their mean.
KNN, RBF, MEAN = "knn", "rbf", "mean"


class Slips(NamedTuple):
    """Which differences from Algorithm 1 are kept; without any, the code is valid."""

    #: The weight of the j-th row of the mini-batch goes to the error of training row j.
    mismatched: bool = True
    #: A new mini-batch, and a bandwidth from the rows that are asked about, at every call: then
    #: calibration and new rows have different scores, and the guarantee is lost.
    redrawn: bool = True


class ReleasedSLCP(RegressorMixin, BaseEstimator):
    """[q_lo - l(x) - d, q_hi + u(x) + d]: l and u local quantiles of the errors of a mini-batch.

    The model predicts quantiles or, for the kind "mean", means, which then stand for both edges.
    Weights are exp(-|x - X_j|^2 / h), h the median of the squared distances over log k, with k rows
    in the mini-batch, drawn with replacement. One d serves both sides.
    """

    def __init__(
        self,
        model: Any,
        kind: str = RBF,
        batch_size: float | int = 300,
        slips: Slips = Slips(),  # noqa: B008 (immutable)
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.kind = kind
        self.batch_size = batch_size
        self.slips = slips
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> ReleasedSLCP:
        """Errors of the training rows, in sample; (n, 2) below and above."""
        self.rng_ = check_random_state(self.random_state)
        self.model_ = clone(self.model).fit(X, y)
        self.X_, self.errors_ = X, self._errors(X, y)
        whole = isinstance(self.batch_size, int)
        k = self.batch_size if whole else round(self.batch_size * len(y))
        self.k_ = int(np.clip(k, 2, len(y)))
        self.kept_ = self._draw()
        # From the training rows, where one bandwidth serves all calls.
        self.h_ = None if self.slips.redrawn else self._bandwidth(self._squares(X, self.kept_[0]))
        return self

    def conformalize(self, X: Array, y: Array) -> ReleasedSLCP:
        """The one correction d."""
        excess = (self._errors(X, y) - self._local(X)).max(axis=1)
        self.correction_ = float(conformal_quantile(excess, LEVEL))
        return self

    def predict_interval(self, X: Array) -> Array:
        """(n, 2)"""
        bounds = self._edges(X) + (self._local(X) + self.correction_) * [-1.0, 1.0]
        crossed = bounds[:, 0] > bounds[:, 1]
        bounds[crossed] = bounds[crossed].mean(axis=1, keepdims=True)
        return np.asarray(bounds)

    def _edges(self, X: Array) -> Array:
        if self.kind == MEAN:
            return np.repeat(self.model_.predict(X)[:, None], 2, axis=1)
        tail = (1.0 - LEVEL) / 2.0
        return np.sort(self.model_.predict(X, quantiles=[tail, 1.0 - tail]), axis=1)

    def _errors(self, X: Array, y: Array) -> Array:
        edges = self._edges(X)
        return np.column_stack([edges[:, 0] - y, y - edges[:, 1]])

    def _draw(self) -> tuple[Array, Array]:
        """Points (k, d) and errors (k, 2) of a mini-batch."""
        rows = self.rng_.randint(len(self.X_), size=self.k_)
        errors = self.errors_[: self.k_] if self.slips.mismatched else self.errors_[rows]
        return self.X_[rows], errors

    def _squares(self, X: Array, points: Array) -> Array:
        """Squared distances, (n, k)."""
        return np.asarray(cdist(X, points, "sqeuclidean"))

    def _bandwidth(self, squares: Array) -> float:
        return max(float(np.median(squares) / np.log(self.k_)), np.finfo(np.float64).tiny)

    def _weights(self, X: Array, points: Array) -> Array:
        """(n, k); rows sum to 1."""
        if self.kind == KNN:
            # The code keeps all k "nearest" rows of the mini-batch, so none is local.
            return np.full((len(X), self.k_), 1.0 / self.k_)
        squares = self._squares(X, points)
        u = squares / (self._bandwidth(squares) if self.h_ is None else self.h_)
        weights = np.exp(u.min(axis=1, keepdims=True) - u)
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def _local(self, X: Array) -> Array:
        """Local quantiles or means of the errors, (n, 2)."""
        points, errors = self._draw() if self.slips.redrawn else self.kept_
        weights = self._weights(X, points)
        if self.kind == MEAN:
            return weights @ errors
        return np.column_stack([local_quantile(weights, side) for side in errors.T])


def local_quantile(weights: Array, v: Array) -> Array:
    """The smallest of v (k,) whose mass, with those below it, exceeds the level: (n, k) -> (n,)."""
    order = np.argsort(v)
    below = (np.cumsum(weights[:, order], axis=1) <= (1.0 + LEVEL) / 2.0).sum(axis=1)
    return np.asarray(v[order][np.minimum(below, len(v) - 1)])
