"""Normalised residuals: widths that follow a learned spread."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval

from localconformal.adjustments import Plain
from localconformal.calibration import SideRule
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.scores import NormalisedScore


class MADSplitRegressor(ComposedRegressor):
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

    def _composition(self) -> Composition:
        score = NormalisedScore(self.spread_estimator, self.beta)
        return Composition(score, Plain(), SideRule("absolute"))
