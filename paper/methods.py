"""Methods by the paper's names: ``METHODS[name](models, seed, preset)`` is an unfitted regressor.

`benchmarks.harness.try_method` trains it on the training rows, calibrates it on the calibration
rows and measures it on the test rows. A new method is a function here and a line in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator

from benchmarks.harness import Arm, Case, Preset, Split, Task, seed_of
from localconformal import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    DistSplitRegressor,
    HiddenLayer,
    KernelLaw,
    LCPRegressor,
    LVDRegressor,
    MADSplitRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from paper.flexcode import FlexCode
from paper.models import Family, Models

#: (models, seed, preset) -> an unfitted regressor
Make = Callable[[Any, int, Preset], Any]
Choose = Callable[[Any, Preset], dict[str, Any]]
#: The papers' code adds 1 to the predicted size, in units of the mean |y|: a linear model of sizes
#: can be negative. Here it is one median residual, so that no unit of y matters.
BETA = 1.0


def slcp(model: Any, score: str, law: Any, seed: int, reference: str = "train") -> SLCPRegressor:
    """The paper's Algorithm 1: scores of training rows in sample, a correction for each side."""
    shared: dict[str, Any] = {"sides": "union", "calibration_size": None, "n_jobs": 1}
    return SLCPRegressor(
        model, conformity_score=score, law=law, reference=reference, random_state=seed, **shared
    )


#: The base model that each score of SLCP is of.
BASES = {"quantile": "quantile", "residual": "mean", "response": "mean"}


def slcp_with(
    score: str, reference: str = "train", bandwidth: str = "median", hidden: bool = False
) -> Make:
    """SLCP as published but for these settings; ``hidden``: distances in the last hidden layer."""

    def make(models: Models, seed: int, preset: Preset) -> SLCPRegressor:
        model = getattr(models, BASES[score])
        embedding = HiddenLayer(model) if hidden else None
        law = KernelLaw(bandwidth=bandwidth, embedding=embedding, n_jobs=1)
        return slcp(model, score, law, seed, reference)

    return make


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


def series(models: Models, preset: Preset) -> dict[str, Any]:
    """The conditional density of Izbicki et al., by regressions of the family's kind."""
    return {"law": FlexCode(models.spread)}


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
    "SLCP": slcp_with("quantile"),
    # Reference scores by models that have not seen the row, as the baselines below have them.
    "SLCP, out of fold": slcp_with("quantile", "cross-fit"),
    # The bandwidth of the authors' code.
    "SLCP, median-log": slcp_with("quantile", bandwidth="median-log"),
    # The paper has SLCP on both kinds of model.
    "SLCP, mean model": slcp_with("residual"),
    "SLCP, mean model, out of fold": slcp_with("residual", "cross-fit"),
    # No model: the law is that of y.
    "SLCP, V = Y": slcp_with("response"),
    # Distances in the second-last layer of the network, as Algorithm 1 has them.
    "SLCP, hidden layer": slcp_with("quantile", hidden=True),
    "SLCP, mean model, hidden layer": slcp_with("residual", hidden=True),
    # One correction for both sides, as published.
    "CQR": on(ConformalizedQuantileRegressor, "quantile"),
    # Guan's, exact; the bandwidth keeps thresholds of training rows small and finite.
    "LCP": on(LCPRegressor),
    # Mean and size of the residual by models of the same family.
    "MADSplit": on(
        MADSplitRegressor, choose=lambda m, _: {"spread_estimator": m.spread}, beta=BETA
    ),
    # The size of errors in sample, as published: a model is surer of rows that it has seen.
    "MADSplit, in sample": lambda m, seed, preset: on(
        MADSplitRegressor, spread_estimator=m.spread, beta=BETA
    )(replace(m, mean=FrozenEstimator(m.mean)), seed, preset),
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
    # Both as published: the law of y itself, from a series.
    "DistSplit, V = Y": on(DistSplitRegressor, choose=series, conformity_score="response"),
    "CDSplit, V = Y": on(CDSplitRegressor, choose=series, conformity_score="response"),
    # No guarantee.
    "LVD": on(LVDRegressor, choose=lvd_law),
    # One width for all rows.
    "split": on(SplitConformalRegressor),
    # The defaults of this library: residuals of the mean model, out of fold, and a chosen law.
    "SLCP-auto": on(SLCPRegressor),
}
#: Methods that need a network.
NEED_LAYERS = ("SLCP, hidden layer", "SLCP, mean model, hidden layer")


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

    Both are fitted here, so that no method looks slower for having come first. The seed is that
    of the purpose and the case, so that all methods ask for the same folds.
    """
    seed = seed_of("method", *purpose, *case.values())
    models = family.make(split.train.X, split.train.y, seed, preset, answers)
    models.quantile.fit(split.train.X, split.train.y)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    return Task(case, preset, split, models, seed, prediction, known)


def named_arms(task: Task, names: Iterable[str]) -> list[Arm]:
    """Methods of the table, on the models of a task."""
    return [Arm(name, METHODS[name](task.models, task.seed, task.preset)) for name in names]
