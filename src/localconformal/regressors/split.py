"""One correction for all rows and no law: split conformal prediction, CQR and MADSplit."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.composition import Method, Sides, Task
from localconformal.regressors.base import COMMON_CONSTRAINTS, BaseConformalRegressor
from localconformal.scores import AbsoluteScore, NormalisedScore, QuantileScore


class SplitConformalRegressor(BaseConformalRegressor):
    """Split conformal prediction: C(x) = mu(x) +- cq(1 - alpha; |y_i - mu(x_i)|).

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Nothing here runs in several processes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = SplitConformalRegressor(LinearRegression(), random_state=0)
    >>> intervals = model.fit(X, X[:, 0] + np.sin(50 * X[:, 0])).predict_interval(X)
    >>> lengths = np.diff(intervals, axis=1)
    >>> bool(np.allclose(lengths, lengths[0]))
    True
    """

    _parameter_constraints = COMMON_CONSTRAINTS

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _method(self, task: Task) -> Method:
        return Method(AbsoluteScore())


#: Method of CQR -> (sides, unit of the distance from each edge).
_CQR_METHODS = {
    "symmetric": ("absolute", "one"),
    "asymmetric": ("union", "one"),
    "m": ("absolute", "median"),
    "r": ("absolute", "width"),
}


class ConformalizedQuantileRegressor(BaseConformalRegressor):
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
        "method": [StrOptions(set(_CQR_METHODS))],
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

    def _method(self, task: Task) -> Method:
        sides, unit = _CQR_METHODS[self.method]
        return Method(QuantileScore(self.quantiles, unit), sides=Sides(sides))


class MADSplitRegressor(BaseConformalRegressor):
    """MADSplit: C(x) = mu(x) +- d s(x), d = cq(1 - alpha; |y_i - mu(x_i)| / s(x_i)).

    s(x) = max(sigma(x), 0) + beta x (median absolute residual), where sigma is fitted to
    out-of-fold absolute residuals of the training rows.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    spread_estimator : estimator, default=None
        Model of |y - mu(x)|; None is HistGradientBoostingRegressor.
    beta : float, default=0.01
        Floor of the spread, relative to the median absolute residual.
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Nothing here runs in several processes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> y = X[:, 0] * rng.normal(size=400)
    >>> model = MADSplitRegressor(
    ...     LinearRegression(), spread_estimator=LinearRegression(), random_state=0
    ... ).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.1], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "beta": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        spread_estimator: Any = None,
        beta: float = 0.01,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.spread_estimator = spread_estimator
        self.beta = beta
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _method(self, task: Task) -> Method:
        return Method(NormalisedScore(self.spread_estimator, self.beta))
