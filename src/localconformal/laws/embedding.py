"""Where "near" is measured: rows of any kind -> points in Euclidean space.

An embedding is an object with ``fit(X, v)`` and ``transform(X) -> (n, k)``, in a table or made
from what the user passes:

* None: `FeatureEmbedding`, the features on a common scale;
* "outputs": the predictions of the regressor's own point model;
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
from sklearn.preprocessing import OneHotEncoder

from localconformal.laws.base import Outputs, check_lengths
from localconformal.laws.columns import split_columns
from localconformal.quantiles import Array

# Squared distances of points within this box stay finite for any bandwidth a kernel may have.
FARTHEST = 1e50
# Rarer categories share one column, so that an identifier does not fill the memory.
MAX_CATEGORIES = 50
EXPECTED = "a transformer, a fitted model (as FrozenEstimator), a callable or 'outputs'"


class FeatureEmbedding(BaseEstimator):
    """Numeric columns imputed by their median and standardised; the others one-hot.

    One-hot columns stay 0/1: scaling them by their spread would let rare categories dominate.

    Examples
    --------
    >>> import numpy as np
    >>> FeatureEmbedding().fit([[0.0], [2.0]], None).transform([[1.0], [np.nan]])
    array([[0.],
           [0.]])
    """

    def fit(self, X: Any, v: Any = None) -> FeatureEmbedding:
        """Learn kinds of columns, medians, scales and categories."""
        numbers, labels, self.kinds_ = split_columns(X)
        if np.isinf(numbers).any():
            raise ValueError(
                "X has infinite values; finite numbers or NaN were expected: clean X, or pass "
                "another embedding."
            )
        self.median_ = typical_values(numbers)
        known = fill_missing(numbers, self.median_)
        self.mean_ = known.mean(axis=0)
        spread = known.std(axis=0)
        # A constant column may show rounding noise as spread.
        constant = spread <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_ = np.where(constant, 1.0, spread)
        self.encoder_ = None
        if labels.shape[1]:
            self.encoder_ = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=MAX_CATEGORIES,
                sparse_output=False,
            ).fit(labels)
        return self

    def transform(self, X: Any) -> Array:
        """(n, columns) points."""
        numbers, labels, _ = split_columns(X, self.kinds_)
        # In place: the numbers are a copy already, and a million rows are worth it.
        points = fill_missing(numbers, self.median_)
        points -= self.mean_
        points /= self.scale_
        if self.encoder_ is not None:
            points = np.hstack([points, self.encoder_.transform(labels)])
        return np.asarray(points)


def fill_missing(numbers: Array, values: Array) -> Array:
    """The numbers, in place, with these values where they are NaN."""
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = np.broadcast_to(values, numbers.shape)[missing]
    return numbers


def typical_values(numbers: Array) -> Array:
    """What stands in for a missing value of each column: its median, of at most 100,000 rows."""
    sample = numbers[:100_000]
    filled = np.where(np.isnan(sample).all(axis=0), 0.0, sample)
    return np.nanmedian(filled, axis=0) if numbers.shape[1] else np.empty(0)


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


class Scaled(BaseEstimator):
    """Another embedding's points on the scale of their reference rows, checked and bounded."""

    def __init__(self, embedding: Any, standardise: bool) -> None:
        self.embedding = embedding
        self.standardise = standardise

    def fit(self, X: Any, v: Any = None) -> Scaled:
        """Fit the embedding within."""
        if hasattr(self.embedding, "fit"):
            self.embedding.fit(X, v)
        self.scaler_ = FeatureEmbedding().fit(self._points(X)) if self.standardise else None
        return self

    def _points(self, X: Any) -> Array:
        points = self.embedding.transform(X)
        points = points.toarray() if hasattr(points, "toarray") else points
        points = np.asarray(points, dtype=np.float64)
        points = points.reshape(len(X), math.prod(points.shape[1:]))
        if not np.all(np.isfinite(points)):
            raise ValueError(
                f"{type(self.embedding).__name__} gave NaN or infinite coordinates; finite "
                "numbers were expected: clean X, or pass another embedding."
            )
        return points

    def transform(self, X: Any) -> Array:
        """Finite points within a box, (n, k)."""
        points = self._points(X)
        if self.scaler_ is not None:
            points = self.scaler_.transform(points)
        return np.clip(points, -FARTHEST, FARTHEST)


def fit_embedding(
    embedding: Any, X: Any, v: Array, outputs: Outputs | None
) -> tuple[Scaled, Array]:
    """The embedding fitted on reference rows, and their points."""
    fitted = make_embedding(embedding, outputs).fit(X, v)
    points = fitted.transform(X)
    check_lengths(len(points), len(v))
    return fitted, points


def make_embedding(embedding: Any, outputs: Outputs | None) -> Scaled:
    """An unfitted embedding from what the user passed."""
    if embedding is None:
        return Scaled(FeatureEmbedding(), standardise=False)
    if isinstance(embedding, str):
        if embedding != "outputs" or outputs is None:
            raise ValueError(
                f"embedding is {embedding!r}; only 'outputs' is known by name, inside a regressor "
                "of this library: otherwise pass a transformer, a fitted model or a callable."
            )
        return Scaled(FunctionEmbedding(outputs), standardise=True)
    if isinstance(embedding, FrozenEstimator) or not hasattr(embedding, "fit"):
        known = [name for name in ("transform", "predict") if hasattr(embedding, name)]
        function = getattr(embedding, known[0]) if known else embedding
        if not callable(function):
            raise ValueError(f"embedding is {embedding!r}; {EXPECTED} was expected.")
        return Scaled(FunctionEmbedding(function), standardise=True)
    if not hasattr(embedding, "transform"):
        raise ValueError(f"embedding is {embedding!r}; {EXPECTED} was expected.")
    return Scaled(clone(embedding), standardise=False)
