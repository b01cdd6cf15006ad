"""One correction for all rows and no law: split conformal prediction, CQR and MADSplit."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from localconformal.composition import Method, Sides, Task
from localconformal.regressors.cross import WithFolds
from localconformal.scores import AbsoluteScore, NormalisedScore, QuantileScore


@dataclass(eq=False, repr=False, kw_only=True)
class SplitConformalRegressor(WithFolds):
    """Split conformal prediction: C(x) = mu(x) +- cq(1 - alpha; |y_i - mu(x_i)|).

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> lower, upper = SplitConformalRegressor(random_state=0).fit(X, y).predict_interval(X).T
    >>> bool((upper - lower).std() < 1e-12)
    True
    """

    def _method(self, task: Task) -> Method:
        return Method(AbsoluteScore())


#: Method of CQR -> (sides, unit of the distance from each edge).
_CQR_METHODS = {
    "symmetric": ("absolute", "one"),
    "asymmetric": ("union", "one"),
    "m": ("absolute", "median"),
    "r": ("absolute", "width"),
}


@dataclass(eq=False, repr=False, kw_only=True)
class ConformalizedQuantileRegressor(WithFolds):
    """CQR: C(x) = [q_lo(x) - d u_lo(x), q_hi(x) + d u_hi(x)] (Romano et al., NeurIPS 2019).

    d = cq(1 - alpha; max((q_lo - y) / u_lo, (y - q_hi) / u_hi)) with units u = 1 for
    "symmetric", q_50 - q_lo and q_hi - q_50 for "m", q_hi - q_lo for "r". "asymmetric" has its
    own correction for each side, each at 1 - alpha / 2.

    Parameters
    ----------
    estimator : estimator or pair or triple of estimators, default=None
        Quantile models at alpha / 2, 1/2 and 1 - alpha / 2 of ``confidence_level``, or one model of
        several quantiles, as in `localconformal.scores.QuantileScore`; None is boosting.
    method : {"symmetric", "asymmetric", "m", "r"}, default="symmetric"

    Examples
    --------
    >>> from sklearn.linear_model import QuantileRegressor
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> model = ConformalizedQuantileRegressor(QuantileRegressor(alpha=0), random_state=0)
    >>> model.fit(X, y).predict_interval(X).shape
    (200, 2)
    """

    _parameter_constraints = {"method": [StrOptions(set(_CQR_METHODS))]}  # noqa: RUF012

    method: str = "symmetric"

    def _method(self, task: Task) -> Method:
        sides, unit = _CQR_METHODS[self.method]
        return Method(QuantileScore(unit), sides=Sides(sides))


@dataclass(eq=False, repr=False, kw_only=True)
class MADSplitRegressor(WithFolds):
    """MADSplit: C(x) = mu(x) +- d s(x), d = cq(1 - alpha; |y_i - mu(x_i)| / s(x_i)).

    s(x) = max(sigma(x), 0) + beta x (median absolute residual), where sigma is fitted to
    out-of-fold absolute residuals of the training rows.

    Parameters
    ----------
    spread_estimator : estimator, default=None
        Model of |y - mu(x)|; None is HistGradientBoostingRegressor.
    beta : float, default=0.01
        Lower limit of the spread, relative to the median absolute residual.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> lower, upper = MADSplitRegressor(random_state=0).fit(X, y).predict_interval(X).T
    >>> bool((upper - lower).std() > 0.1)
    True
    """

    _parameter_constraints = {"beta": [Interval(Real, 0, None, closed="left")]}  # noqa: RUF012

    spread_estimator: Any = None
    beta: float = 0.01

    def _method(self, task: Task) -> Method:
        return Method(NormalisedScore(self.spread_estimator, self.beta))
