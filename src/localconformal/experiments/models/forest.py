"""Random forests of the mean, and quantile forests, their leaf sizes by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold

from localconformal.experiments.models.family import Family, Unfitted
from localconformal.experiments.presets import Preset
from localconformal.laws import ForestLaw
from localconformal.quantiles import Array

TREES, COLUMNS = 100, 1 / 3
#: Least rows of a leaf that are compared, on so many training rows at most.
LEAF_SIZES, COMPARED_ON, FOLDS = (2, 5, 20), 1_500, 3
LEVELS = (0.05, 0.5, 0.95)


class QuantileForest(RegressorMixin, BaseEstimator):
    """Meinshausen's forest: quantiles of the responses that share leaves with x.

    Parameters
    ----------
    forest : RandomForestRegressor
        How the trees are grown.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> forest = RandomForestRegressor(20, min_samples_leaf=5, random_state=0)
    >>> QuantileForest(forest).fit(X, X[:, 0]).predict([[0.5]], quantiles=[0.5]).round(1)
    array([[0.5]])
    """

    def __init__(self, forest: Any) -> None:
        self.forest = forest

    def fit(self, X: Any, y: Any) -> QuantileForest:
        """Grow the trees and sort the rows into their leaves."""
        self.trees_ = FrozenEstimator(clone(self.forest).fit(X, y))
        self.law_ = ForestLaw(self.trees_, n_jobs=1).fit(X, y)
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """(n, L); None is the levels 0.05, 0.5 and 0.95."""
        return self.law_.quantile(X, LEVELS if quantiles is None else quantiles)


def grow(leaf_rows: int, seed: int, trees: int = TREES) -> RandomForestRegressor:
    """A forest on one thread: tasks share the cores."""
    return RandomForestRegressor(
        trees, min_samples_leaf=leaf_rows, max_features=COLUMNS, random_state=seed, n_jobs=1
    )


def pinball(y: Array, quantiles: Array) -> float:
    """Mean pinball loss of the outer two of the columns."""
    losses = [
        np.maximum(level * (y - q), (level - 1.0) * (y - q))
        for level, q in zip(LEVELS[::2], quantiles[:, ::2].T, strict=True)
    ]
    return float(np.mean(losses))


def choose(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
    """The leaf size with the least squared error for the mean, the least pinball for quantiles."""
    X, y = X[:COMPARED_ON], y[:COMPARED_ON]
    folds = list(KFold(FOLDS, shuffle=True, random_state=seed).split(X))
    squared, rounded = np.zeros(len(LEAF_SIZES)), np.zeros(len(LEAF_SIZES))
    for position, leaf_rows in enumerate(LEAF_SIZES):
        for rest, fold in folds:
            forest = QuantileForest(grow(leaf_rows, seed, TREES // 2)).fit(X[rest], y[rest])
            squared[position] += np.sum((y[fold] - forest.trees_.predict(X[fold])) ** 2)
            rounded[position] += len(fold) * pinball(y[fold], forest.predict(X[fold]))
    best, finest = (LEAF_SIZES[int(np.argmin(loss))] for loss in (rounded, squared))
    mean = grow(finest, seed)
    return Unfitted(mean, QuantileForest(grow(best, seed)), mean)


FAMILY = Family("random_forest", choose)
