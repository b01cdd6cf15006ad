"""The general composition: any score, any law, any adjustment. SLCP and Dist-Split."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.adjustments import ADJUSTMENTS, Adjustment, ThetaQuantile, make_adjustment
from localconformal.composition import SIDES, Method, Sides, Task
from localconformal.laws import LAW_METHODS, LAWS
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.scores import Score, make_score


def _sides_of(score: Score, sides: str, upper_share: float = 0.5) -> Sides:
    """A score of one side has one, whatever ``sides`` says."""
    return Sides("absolute" if score.one_sided else sides, upper_share)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalizedConformalRegressor(BaseConformalRegressor):
    """Conformal intervals from any score, local law and adjustment.

    With V a score, F its local law, tau the local level and p an adjustment:

        theta* = cq(1 - alpha; p(V_i, F_i) over calibration rows),
        C(x) = {y : p(V(x, y), F_x) <= theta*}.

    Whatever the parts, a new row is covered with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. To preprocess, pass a Pipeline here.
        A fitted model comes as ``FrozenEstimator(model)``, or as any object with only
        ``predict``; then every row given to `fit` must be new to it. For
        ``conformity_score="quantile"``, see `localconformal.scores.QuantileScore`.
    conformity_score : str or object, default="residual"
        "residual", "absolute", "quantile", "normalised" or "response". "absolute" has one
        side, whatever ``sides`` says.
    law : str or object, default="auto"
        "auto" compares laws of every kind, stacks the best and chooses the unit of the additive
        correction, on training rows alone (see ``selection_``). "forest" is the quick choice;
        "learned", "kernel", "neighbors", "uniform", or any object with the methods of
        `localconformal.laws.Law`.
    adjustment : str or object, default="additive"
        "additive" (SLCP), "scaled" (additive in local widths), "multiplicative", "theta",
        "additive-expectation", "multiplicative-expectation", or "plain", which uses no law.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        Reference scores of the law: by 5 fits that each leave out a fold, out of bag of a
        forest, on a held-out half of the training rows, or in sample (the paper).
    sides : {"joint", "union", "absolute"}, default="joint"
        How the two sides share alpha: see `localconformal.composition.Sides`.
    upper_share : float, default=0.5
        Share of alpha above the interval for ``sides="union"``.
    selection_budget : float, default=20.0
        Seconds that ``law="auto"`` may take, as estimated from the size of the table and never
        read off a clock: it decides how many rows are looked at. Too few: the forest law.

    Attributes
    ----------
    selection_ : frame
        With ``law="auto"``: the candidates, their interval scores and weights.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> model = LocalizedConformalRegressor(conformity_score="absolute", law="kernel")
    >>> model.fit(X, y).predict_interval(X).shape
    (200, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        "law": [StrOptions({"auto", *LAWS}), HasMethods(LAW_METHODS)],
        "adjustment": [StrOptions(set(ADJUSTMENTS)), Adjustment],
        "sides": [StrOptions(set(SIDES))],
        "upper_share": [Interval(Real, 0, 1, closed="neither")],
        "selection_budget": [Interval(Real, 0, None, closed="left")],
    }

    conformity_score: Any = "residual"
    law: Any = "auto"
    adjustment: Any = "additive"
    reference: str = "cross-fit"
    sides: str = "joint"
    upper_share: float = 0.5
    selection_budget: float = 20.0

    def _method(self, task: Task) -> Method:
        score = make_score(self.conformity_score)
        return Method(
            score,
            make_adjustment(self.adjustment),
            _sides_of(score, self.sides, self.upper_share),
            self.law,
            reference=self.reference,
            adjustment_is_free=isinstance(self.adjustment, str) and self.adjustment == "additive",
            budget=self.selection_budget,
        )


class SLCPRegressor(LocalizedConformalRegressor):
    """Split Localized Conformal Prediction: residuals, a local law, the additive quantile.

    With V1 = y - mu(x), V2 = mu(x) - y and F1, F2 their local laws at x,

        s_i = max_k (V_k - Q(1 - alpha / 2; F_k)) over calibration rows,  d = cq(1 - alpha; s),
        C(x) = [mu(x) - Q(1 - alpha / 2; F2) - d,  mu(x) + Q(1 - alpha / 2; F1) + d].

    With ``law="auto"`` d may count local widths instead, where that scores better. The exact
    method of the paper (Han, Tang, Ghosh and Liu, arXiv:2206.13092) is ``SLCPRegressor(est,
    law=KernelLaw("gaussian", bandwidth="median"), reference="train", sides="union")``.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> model = SLCPRegressor(LinearRegression(), random_state=0).fit(X, y)
    >>> model.predict_interval(X).shape, model.predict_interval(X, [0.5, 0.8, 0.95]).shape
    ((200, 2), (200, 2, 3))
    """


@dataclass(eq=False, repr=False, kw_only=True)
class DistSplitRegressor(BaseConformalRegressor):
    """Dist-Split: C(x) = {y : t_lo <= F(V(x, y) | x) <= t_hi}.

    t_lo and t_hi are conformal quantiles of the ranks F(V_i | x_i) of calibration rows, at
    alpha / 2 and 1 - alpha / 2: the theta-quantile adjustment, each side by itself (Izbicki,
    Shimizu and Stern, AISTATS 2020).

    Parameters
    ----------
    conformity_score : str or object, default="residual"
        What the law is of: "residual", or "response" as in the paper of Izbicki et al.
    law : str or object, default="auto"
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    sides : {"union", "joint"}, default="union"
        "joint" calibrates the more extreme rank (distributional conformal prediction).
    selection_budget : float, default=20.0
        Seconds of ``law="auto"``, as in `LocalizedConformalRegressor`.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> DistSplitRegressor(law="forest", random_state=0).fit(X, y).predict_interval(X).shape
    (200, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        **LocalizedConformalRegressor._parameter_constraints,
        "sides": [StrOptions({"union", "joint"})],
    }

    conformity_score: Any = "residual"
    law: Any = "auto"
    reference: str = "cross-fit"
    sides: str = "union"
    selection_budget: float = 20.0

    def _method(self, task: Task) -> Method:
        score = make_score(self.conformity_score)
        return Method(
            score,
            ThetaQuantile(),
            _sides_of(score, self.sides),
            self.law,
            reference=self.reference,
            budget=self.selection_budget,
        )
