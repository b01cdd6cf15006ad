"""Methods by the paper's names: ``METHODS[name](models, seed, preset)`` is an unfitted regressor.

`benchmarks.harness.try_method` trains it on the training rows, calibrates it on the calibration
rows and measures it on the test rows. A new method is a function here and a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from benchmarks.harness import Arm, Case, Preset, Split, Task, seed_of
from localconformal import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    DistSplitRegressor,
    KernelLaw,
    LCPRegressor,
    LVDRegressor,
    MADSplitRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from paper.models import Family, Models

#: (models, seed, preset) -> an unfitted regressor
Make = Callable[[Any, int, Preset], Any]
Choose = Callable[[Any, Preset], dict[str, Any]]
#: The papers' code adds 1 to the predicted size, in units of the mean |y|: a linear model of sizes
#: can be negative. Here it is one median residual, so that no unit of y matters.
BETA = 1.0


def slcp(model: Any, score: str, law: Any, seed: int) -> SLCPRegressor:
    """The paper's Algorithm 1: scores of training rows in sample, a correction for each side."""
    as_published = {"reference": "train", "sides": "union", "calibration_size": None}
    return SLCPRegressor(
        model, conformity_score=score, law=law, random_state=seed, n_jobs=1, **as_published
    )


def on(regressor: Any, base: str = "mean", choose: Choose | None = None, **settings: Any) -> Make:
    """A regressor on one of the shared models, with its defaults but for these settings.

    ``choose`` gives those that depend on the models and the preset.
    """

    def make(models: Any, seed: int, preset: Preset) -> Any:
        shared = {"calibration_size": None, "random_state": seed, "n_jobs": 1}
        chosen = {} if choose is None else choose(models, preset)
        return regressor(getattr(models, base), **shared, **settings, **chosen)

    return make


def lvd_law(models: Models, preset: Preset) -> dict[str, Any]:
    """Distances in a network's last hidden layer, otherwise of features."""
    has_layers = hasattr(models.mean.model, "hidden_layer_sizes")
    embedding = "hidden-metric" if has_layers else "metric"
    return {"law": KernelLaw(bandwidth=1.0, embedding=embedding)}


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


METHODS: dict[str, Make] = {
    # On quantile models, with a Gaussian kernel of the median bandwidth.
    "SLCP": lambda m, seed, _: slcp(m.quantile, "quantile", KernelLaw(n_jobs=1), seed),
    # One correction for both sides, as published.
    "CQR": on(ConformalizedQuantileRegressor, "quantile"),
    # Guan's, exact; the bandwidth keeps thresholds of training rows small and finite.
    "LCP": on(LCPRegressor),
    # Mean and size of the residual by models of the same family.
    "MADSplit": on(
        MADSplitRegressor, choose=lambda m, _: {"spread_estimator": m.spread}, beta=BETA
    ),
    # The constant of the papers' code instead, for y in units of its mean |y|.
    "MADSplit, code's constant": on(
        MADSplitRegressor, choose=lambda m, _: {"spread_estimator": PlusOne(m.spread)}, beta=0.0
    ),
    # The law of the mean model's residual, of the family's kind.
    "DistSplit": on(
        DistSplitRegressor, choose=lambda m, _: {"law": "forest" if m.law is None else m.law}
    ),
    # The density of that law; sets of several pieces.
    "CDSplit": on(CDSplitRegressor, choose=lambda m, _: {"law": m.law}),
    # No guarantee.
    "LVD": on(LVDRegressor, choose=lvd_law),
    # One width for all rows.
    "split": on(SplitConformalRegressor),
    # The defaults of this library: residuals of the mean model, out of fold, and a chosen law.
    "SLCP-auto": on(SLCPRegressor),
}


def share_models(
    case: Case,
    preset: Preset,
    split: Split,
    family: Family,
    *purpose: str,
    known: Any = None,
    answers: bool = False,
) -> Task:
    """The task of a case: base models from its training rows, whose fits all methods share.

    Its seed is that of the purpose and the case, so that all methods ask for the same folds.
    """
    seed = seed_of("method", *purpose, *case.values())
    models = family.make(split.train.X, split.train.y, seed, preset, answers)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    return Task(case, preset, split, models, seed, prediction, known)


def named_arms(task: Task, names: Iterable[str]) -> list[Arm]:
    """Methods of the table, on the models of a task."""
    return [Arm(name, METHODS[name](task.models, task.seed, task.preset)) for name in names]
