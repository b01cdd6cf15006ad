"""Prediction intervals for any regression model: guaranteed to cover, adapted to each input.

Names are imported on first use (PEP 562), so ``import localconformal`` is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Module -> its public names; all of them need the core dependencies only.
_HOMES = {
    "regressors": "CDSplitRegressor CHRRegressor ConditionalConformalRegressor "
    "ConformalizedQuantileRegressor DistSplitRegressor HPDSplitRegressor LCPRegressor "
    "LVDRegressor LocalizedConformalRegressor LocartRegressor MADSplitRegressor "
    "MondrianConformalRegressor RLCPRegressor SLCPRegressor SplitConformalRegressor "
    "WeightedConformalRegressor",
    "regressors.methods": "methods",
    "regions": "Region",
    "audit": "Audit Comparison compare",
    "monitor": "AdaptiveIntervals CoverageMonitor",
    "scores": "AbsoluteScore NormalisedScore QuantileScore ResidualScore ResponseScore",
    "laws": "AutoLaw DistanceQuantile ForestLaw HiddenLayer KernelLaw LearnedLaw "
    "LearnedMetric NeighborsLaw ResponseLaw ScaledLaw StackedLaw UniformLaw",
    "corrections": "EffectiveSize FiniteThresholds",
    "adjustments": "AdditiveExpectation AdditiveQuantile MonotoneAdjustment "
    "MultiplicativeExpectation MultiplicativeQuantile ScaledQuantile ThetaQuantile",
}
_MODULES = ["adjustments", "audit", "datasets", "laws", "metrics", "quantiles"]
_MODULES += ["regressors", "report", "scores"]
_HOME_OF = {
    name: f"localconformal.{home}" for home, names in _HOMES.items() for name in names.split()
}

__all__ = [*sorted(_HOME_OF), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    if name in _MODULES:
        return import_module(f"localconformal.{name}")
    raise AttributeError(f"module 'localconformal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
