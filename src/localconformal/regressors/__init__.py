"""One public estimator per file."""

from localconformal.regressors.cqr import ConformalizedQuantileRegressor
from localconformal.regressors.distsplit import DistSplitRegressor
from localconformal.regressors.lcp import LCPRegressor
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.regressors.locart import LocartRegressor
from localconformal.regressors.madsplit import MADSplitRegressor
from localconformal.regressors.mondrian import MondrianConformalRegressor
from localconformal.regressors.slcp import SLCPRegressor
from localconformal.regressors.split import SplitConformalRegressor
from localconformal.regressors.weighted import WeightedConformalRegressor

__all__ = [
    "ConformalizedQuantileRegressor",
    "DistSplitRegressor",
    "LCPRegressor",
    "LocalizedConformalRegressor",
    "LocartRegressor",
    "MADSplitRegressor",
    "MondrianConformalRegressor",
    "SLCPRegressor",
    "SplitConformalRegressor",
    "WeightedConformalRegressor",
]
