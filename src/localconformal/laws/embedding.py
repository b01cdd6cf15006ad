"""Where "near" is measured: rows of any kind -> points in Euclidean space.

An embedding is an object with ``fit(X, v)`` and ``transform(X) -> (n, k)``, in a table or made
from what the user passes:

* None: `FeatureEmbedding`, the features on a common scale;
* "outputs": mu(x), the predictions of the regressor's own point model; "outputs-spread":
  (mu(x), sigma(x)), with a spread learned from the scores; "hidden": the last hidden layer of
  its network; "metric": a `LearnedMetric` of the features, "hidden-metric" of that layer;
* a fitted or unfitted transformer (``transform``), a fitted model (``predict`` only, or a
  FrozenEstimator), or a callable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.layers import HiddenLayer
from localconformal.laws.metric import LearnedMetric
from localconformal.laws.order import check_lengths
from localconformal.laws.outputs import Outputs, with_spread
from localconformal.models import shown
from localconformal.quantiles import Array

# Squared distances of points within this box stay finite for any bandwidth a kernel may have.
FARTHEST = 1e50
EXPECTED = "a transformer, a fitted model (as FrozenEstimator), a callable or a known name"


class FunctionEmbedding(BaseEstimator):
    """Points given by a function of the rows, such as a fitted model's ``predict``."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def fit(self, X: Any, v: Any = None) -> FunctionEmbedding:
        """Nothing to learn."""
        return self

    def transform(self, X: Any) -> Array:
        """The function's values."""
        return np.asarray(self.function(X), dtype=np.float64)


class OutputEmbedding(BaseEstimator):
    """mu(x), or (mu(x), sigma(x)); at reference rows by models that have not seen them."""

    def __init__(
        self, outputs: Outputs, spread: bool, seed: int = 0, n_jobs: int | None = None
    ) -> None:
        self.outputs = outputs
        self.spread = spread
        self.seed = seed
        self.n_jobs = n_jobs

    def fit_transform(self, X: Any, v: Array) -> Array:
        """Learn sigma where it is asked for and not known yet."""
        self.outputs_ = self.outputs
        if self.spread:
            self.outputs_ = with_spread(self.outputs, X, v, self.seed, self.n_jobs)
        return self._columns(self.outputs_.reference, self.outputs_.reference_spread)

    def transform(self, X: Any) -> Array:
        """The models' predictions."""
        mu, sigma = self.outputs_.predict(X), None
        if self.outputs_.predict_spread is not None:
            sigma = self.outputs_.predict_spread(X)
        return self._columns(mu, sigma)

    def _columns(self, mu: Array, sigma: Array | None) -> Array:
        columns = [mu, sigma] if self.spread and sigma is not None else [mu]
        return np.column_stack(columns)


class ResponseEmbedding(BaseEstimator):
    """Another embedding, learned from the responses of reference rows instead of their scores."""

    def __init__(self, embedding: Any, outputs: Outputs) -> None:
        self.embedding = embedding
        self.outputs = outputs

    def fit(self, X: Any, v: Any) -> ResponseEmbedding:
        """Fit the embedding within."""
        self.embedding.fit(X, self.outputs.response)
        return self

    def transform(self, X: Any) -> Array:
        """Its points."""
        return np.asarray(self.embedding.transform(X))


class Scaled(BaseEstimator):
    """Another embedding's points on the scale of their reference rows, checked and bounded."""

    def __init__(self, embedding: Any, standardise: bool) -> None:
        self.embedding = embedding
        self.standardise = standardise

    def fit_transform(self, X: Any, v: Any) -> Array:
        """Fit the embedding within; the points of the reference rows."""
        if hasattr(self.embedding, "fit_transform"):
            points = self._check(self.embedding.fit_transform(X, v))
        else:
            points = self._check(self.embedding.fit(X, v).transform(X))
        self.scaler_ = FeatureEmbedding().fit(points) if self.standardise else None
        return self._scale(points)

    def _check(self, points: Any) -> Array:
        points = points.toarray() if hasattr(points, "toarray") else points
        points = np.asarray(points, dtype=np.float64)
        points = points.reshape(len(points), math.prod(points.shape[1:]))
        if not np.all(np.isfinite(points)):
            raise ValueError(
                f"{type(self.embedding).__name__} gave NaN or infinite coordinates; finite "
                "numbers were expected: clean X, or pass another embedding."
            )
        return points

    def transform(self, X: Any) -> Array:
        """Finite points within a box, (n, k)."""
        return self._scale(self._check(self.embedding.transform(X)))

    def _scale(self, points: Array) -> Array:
        if self.scaler_ is not None:
            points = self.scaler_.transform(points)
        return np.clip(points, -FARTHEST, FARTHEST)


def fit_embedding(
    embedding: Any,
    X: Any,
    v: Array,
    outputs: Outputs | None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> tuple[Scaled, Array]:
    """The embedding fitted on reference rows, and their points.

    The seed and the threads are for embeddings known by name; others have their own.
    """
    made = make_embedding(embedding, outputs, seed, n_jobs)
    points = made.fit_transform(X, v)
    check_lengths(len(points), len(v))
    return made, points


#: Embeddings known by name: what the point model says of a row, or what its response teaches.
NAMED: dict[str, Callable[[Outputs, int, int | None], Scaled]] = {
    "outputs": lambda outputs, seed, n_jobs: Scaled(
        OutputEmbedding(outputs, spread=False), standardise=True
    ),
    "outputs-spread": lambda outputs, seed, n_jobs: Scaled(
        OutputEmbedding(outputs, spread=True, seed=seed, n_jobs=n_jobs), standardise=True
    ),
    "hidden": lambda outputs, seed, n_jobs: Scaled(
        FunctionEmbedding(HiddenLayer(outputs.model).transform), standardise=True
    ),
    "metric": lambda outputs, seed, n_jobs: on_response(LearnedMetric(random_state=seed), outputs),
    "hidden-metric": lambda outputs, seed, n_jobs: on_response(
        LearnedMetric(random_state=seed, layer=HiddenLayer(outputs.model)), outputs
    ),
}


def on_response(metric: LearnedMetric, outputs: Outputs) -> Scaled:
    """The metric learned from the responses; its own scale is part of what it learns."""
    return Scaled(ResponseEmbedding(metric, outputs), standardise=False)


def make_embedding(
    embedding: Any, outputs: Outputs | None, seed: int, n_jobs: int | None
) -> Scaled:
    """An unfitted embedding from what the user passed."""
    if embedding is None:
        return Scaled(FeatureEmbedding(), standardise=False)
    if isinstance(embedding, str):
        if embedding not in NAMED or outputs is None:
            raise ValueError(
                f"embedding is {shown(embedding)}; only {', '.join(map(repr, NAMED))} are known by "
                "name, inside a regressor of this library: otherwise pass a transformer, a fitted "
                "model or a callable."
            )
        return NAMED[embedding](outputs, seed, n_jobs)
    if isinstance(embedding, LearnedMetric) and outputs is not None:
        return on_response(clone(embedding), outputs)
    if isinstance(embedding, FrozenEstimator) or not hasattr(embedding, "fit"):
        known = [name for name in ("transform", "predict") if hasattr(embedding, name)]
        function = getattr(embedding, known[0]) if known else embedding
        if not callable(function):
            raise ValueError(f"embedding is {shown(embedding)}; {EXPECTED} was expected.")
        return Scaled(FunctionEmbedding(function), standardise=True)
    if not hasattr(embedding, "transform"):
        raise ValueError(f"embedding is {shown(embedding)}; {EXPECTED} was expected.")
    return Scaled(clone(embedding), standardise=False)
