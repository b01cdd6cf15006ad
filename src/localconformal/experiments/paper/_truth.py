"""Base models that know the simulation, for what the paper says about exact scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin

from localconformal.datasets import Simulation, load_simulation
from localconformal.datasets.simulation import uniform_features
from localconformal.experiments.models import Family, Unfitted
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import Split
from localconformal.quantiles import Array

#: y = x1 + e with e standard normal and independent of x: 20 features, and the first alone.
HOMOSCEDASTIC = "homoscedastic"
HOMOSCEDASTIC_ONE = "homoscedastic, one feature"


def load(name: str) -> Simulation:
    """A simulation of the library, or the homoscedastic one with a single feature."""
    if name != HOMOSCEDASTIC_ONE:
        return load_simulation(name)
    features = uniform_features(-5.0, 5.0, 1)
    return replace(load_simulation(HOMOSCEDASTIC), name=name, draw_features=features)


class TrueModel(RegressorMixin, BaseEstimator):
    """E[y | x] of a simulation, whatever it is fitted to.

    Examples
    --------
    >>> TrueModel("homoscedastic").fit([[2.0]], [0.0]).predict([[2.0]])
    array([2.])
    """

    def __init__(self, simulation: str) -> None:
        self.simulation = simulation

    def fit(self, X: Any, y: Any) -> TrueModel:
        """Look the simulation up."""
        self.known_ = load(self.simulation)
        return self

    def predict(self, X: Any) -> Array:
        """The conditional mean (n,)."""
        return self.known_.mean(X)


class TrueQuantiles(TrueModel):
    """The conditional quantiles of a simulation."""

    def predict(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Array:
        """(n, L) for L levels."""
        return self.known_.quantile(X, quantiles)


def truth(name: str) -> Family:
    """The family of base models that know this simulation."""

    def choose(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
        mean = TrueModel(name)
        return Unfitted(mean, TrueQuantiles(name), mean)

    return Family("truth", choose)


def true_models(name: str, split: Split, seed: int, preset: Preset) -> Any:
    """The models of a task, and their mean at the test rows."""
    models = truth(name).make(split.train.X, split.train.y, seed, preset)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    return models, prediction
