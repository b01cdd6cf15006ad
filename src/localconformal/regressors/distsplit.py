"""Dist-Split: calibrated ranks in a local law."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.adjustments import ThetaQuantile
from localconformal.calibration import SideRule
from localconformal.laws import LAW_METHODS, LAWS
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.regressors.reference import REFERENCES
from localconformal.scores import SCORES, BaseScore, make_score
from localconformal.selection.cost import BUDGET


class DistSplitRegressor(ComposedRegressor):
    """Dist-Split: C(x) = {y : t_lo <= F(V(x, y) | x) <= t_hi}.

    t_lo and t_hi are conformal quantiles of the ranks F(V_i | x_i) of calibration rows, at
    alpha / 2 and 1 - alpha / 2. In the terms of this library: the theta-quantile adjustment,
    each side by itself.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : str or object, default="residual"
        What the law is of: "residual", or "response" as in the paper of Izbicki et al.
    law : str or object, default="auto"
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    sides : {"union", "joint"}, default="union"
        "joint" calibrates the more extreme of the two ranks (distributional conformal
        prediction).
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    selection_budget : float, default=20.0
        Seconds of ``law="auto"``, as in `LocalizedConformalRegressor`.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    References
    ----------
    Izbicki, Shimizu and Stern, "Flexible distribution-free conditional predictive bands using
    density estimators", AISTATS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(160, 1))
    >>> y = X[:, 0] * rng.normal(size=160)
    >>> model = DistSplitRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.1], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "estimator": [None, HasMethods("predict"), tuple, list],
        "conformity_score": [StrOptions(set(SCORES)), BaseScore],
        "law": [StrOptions({"auto", *LAWS}), HasMethods(LAW_METHODS)],
        "reference": [StrOptions(set(REFERENCES))],
        "sides": [StrOptions({"union", "joint"})],
        "selection_budget": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        conformity_score: Any = "residual",
        law: Any = "auto",
        reference: str = "cross-fit",
        sides: str = "union",
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        selection_budget: float = BUDGET,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.law = law
        self.reference = reference
        self.sides = sides
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.selection_budget = selection_budget
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _composition(self) -> Composition:
        score = make_score(self.conformity_score)
        return Composition(
            score=score,
            law=self.law,
            adjustment=ThetaQuantile(),
            rule=SideRule(self.sides, one_sided=score.one_sided),
            reference=self.reference,
            budget=self.selection_budget,
        )
