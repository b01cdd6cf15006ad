"""One public estimator per file."""

from localconformal.regressors.cdsplit import CDSplitRegressor
from localconformal.regressors.chr import CHRRegressor
from localconformal.regressors.cqr import ConformalizedQuantileRegressor
from localconformal.regressors.distsplit import DistSplitRegressor
from localconformal.regressors.hpdsplit import HPDSplitRegressor
from localconformal.regressors.lcp import LCPRegressor
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.regressors.locart import LocartRegressor
from localconformal.regressors.lvd import LVDRegressor
from localconformal.regressors.madsplit import MADSplitRegressor
from localconformal.regressors.mondrian import MondrianConformalRegressor
from localconformal.regressors.rlcp import RLCPRegressor
from localconformal.regressors.slcp import SLCPRegressor
from localconformal.regressors.split import SplitConformalRegressor
from localconformal.regressors.weighted import WeightedConformalRegressor

__all__ = [
    "CDSplitRegressor",
    "CHRRegressor",
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
]
