"""One public estimator per file."""

from localconformal.regressors.cqr import ConformalizedQuantileRegressor
from localconformal.regressors.distsplit import DistSplitRegressor
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.regressors.madsplit import MADSplitRegressor
from localconformal.regressors.mondrian import MondrianConformalRegressor
from localconformal.regressors.slcp import SLCPRegressor
from localconformal.regressors.split import SplitConformalRegressor

__all__ = [
    "ConformalizedQuantileRegressor",
    "DistSplitRegressor",
    "LocalizedConformalRegressor",
    "MADSplitRegressor",
    "MondrianConformalRegressor",
    "SLCPRegressor",
    "SplitConformalRegressor",
]
