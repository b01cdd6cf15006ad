"""Conformalized quantile regression and its scaled variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.utils._param_validation import HasMethods, StrOptions

from localconformal.adjustments import Plain
from localconformal.calibration import SideRule
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.scores import QuantileScore

#: method -> (sides, unit of the distance from each edge)
METHODS = {
    "symmetric": ("absolute", "one"),
    "asymmetric": ("union", "one"),
    "m": ("absolute", "median"),
    "r": ("absolute", "width"),
}


class ConformalizedQuantileRegressor(ComposedRegressor):
    """CQR: C(x) = [q_lo(x) - d u_lo(x), q_hi(x) + d u_hi(x)].

    d = cq(1 - alpha; max((q_lo - y) / u_lo, (y - q_hi) / u_hi)) with units u = 1 for
    "symmetric", q_50 - q_lo and q_hi - q_50 for "m", q_hi - q_lo for "r". "asymmetric" has its
    own correction for each side, each at 1 - alpha / 2.

    Parameters
    ----------
    estimator : estimator or pair or triple of estimators, default=None
        None is HistGradientBoostingRegressor with its quantile loss. One model with a quantile
        parameter, a pair (lower, upper), a triple (lower, median, upper), one multi-quantile
        model such as quantile-forest's, or fitted ones: see
        `localconformal.scores.QuantileScore`.
    method : {"symmetric", "asymmetric", "m", "r"}, default="symmetric"
    quantiles : pair of floats, default=None
        Nominal levels of the quantile models; None is (alpha / 2, 1 - alpha / 2). They stay
        as fitted when `predict_interval` is asked for another level.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Nothing here runs in several processes.

    References
    ----------
    Romano, Patterson and Candes, "Conformalized quantile regression", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import QuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> y = X[:, 0] * rng.normal(size=400)
    >>> model = ConformalizedQuantileRegressor(QuantileRegressor(alpha=0), random_state=0)
    >>> model.fit(X, y).predict_interval([[0.1], [0.9]]).shape
    (2, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "estimator": [None, HasMethods("predict"), tuple, list],
        "method": [StrOptions(set(METHODS))],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "symmetric",
        quantiles: Sequence[float] | None = None,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.quantiles = quantiles
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _composition(self) -> Composition:
        sides, unit = METHODS[self.method]
        return Composition(QuantileScore(self.quantiles, unit), Plain(), SideRule(sides))
