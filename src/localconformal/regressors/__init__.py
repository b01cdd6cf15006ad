"""Estimators, by family."""

from localconformal.regressors.conditional import ConditionalConformalRegressor
from localconformal.regressors.density import CDSplitRegressor, CHRRegressor, HPDSplitRegressor
from localconformal.regressors.localized import (
    DistSplitRegressor,
    LocalizedConformalRegressor,
    SLCPRegressor,
)
from localconformal.regressors.methods import methods
from localconformal.regressors.partition import LocartRegressor, MondrianConformalRegressor
from localconformal.regressors.split import (
    ConformalizedQuantileRegressor,
    MADSplitRegressor,
    SplitConformalRegressor,
)
from localconformal.regressors.weighted import (
    LCPRegressor,
    LVDRegressor,
    RLCPRegressor,
    WeightedConformalRegressor,
)

__all__ = [
    "CDSplitRegressor",
    "CHRRegressor",
    "ConditionalConformalRegressor",
    "ConformalizedQuantileRegressor",
    "DistSplitRegressor",
    "HPDSplitRegressor",
    "LCPRegressor",
    "LVDRegressor",
    "LocalizedConformalRegressor",
    "LocartRegressor",
    "MADSplitRegressor",
    "MondrianConformalRegressor",
    "RLCPRegressor",
    "SLCPRegressor",
    "SplitConformalRegressor",
    "WeightedConformalRegressor",
    "methods",
]
