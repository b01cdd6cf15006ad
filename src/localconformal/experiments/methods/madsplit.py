"""Residuals in units of a model of their size."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import MADSplitRegressor

#: The papers' code adds 1 to the predicted size, in units of the mean |y|: a linear model of sizes
#: can be negative. Here it is one median residual, so that no unit of y matters.
BETA = 1.0


def make(models: Models, seed: int, preset: Preset) -> Any:
    """Mean and size by models of the same family."""
    return _with_spread(models, models.spread, BETA, seed)


def make_as_in_code(models: Models, seed: int, preset: Preset) -> Any:
    """The constant of the papers' code instead, for y in units of its mean |y|."""
    return _with_spread(models, PlusOne(models.spread), 0.0, seed)


def _with_spread(models: Models, spread: Any, beta: float, seed: int) -> Any:
    return MADSplitRegressor(
        models.mean, spread_estimator=spread, beta=beta, calibration_size=None, random_state=seed
    )


class PlusOne(RegressorMixin, BaseEstimator):
    """A model of sizes, none of them below 0, with 1 added to each.

    Examples
    --------
    >>> from sklearn.dummy import DummyRegressor
    >>> PlusOne(DummyRegressor()).fit([[0.0], [1.0]], [2.0, 4.0]).predict([[0.0]])
    array([4.])
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> PlusOne:
        """Fit the model."""
        self.model_ = clone(self.model).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        """(n,)"""
        return np.maximum(self.model_.predict(X), 0.0) + 1.0
