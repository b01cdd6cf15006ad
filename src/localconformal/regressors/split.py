"""Split conformal prediction: one width for every x."""

from __future__ import annotations

from typing import Any

from localconformal.adjustments import Plain
from localconformal.calibration import SideRule
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.scores import AbsoluteScore


class SplitConformalRegressor(ComposedRegressor):
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

    def _composition(self) -> Composition:
        return Composition(AbsoluteScore(), Plain(), SideRule("absolute"))
