"""The general composition: any score, any law, any adjustment."""

from __future__ import annotations

from numbers import Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.adjustments import ADJUSTMENTS, BaseAdjustment, make_adjustment
from localconformal.calibration import SIDES, SideRule
from localconformal.laws import LAW_METHODS, LAWS
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.composed import ComposedRegressor, Composition
from localconformal.regressors.reference import REFERENCES
from localconformal.scores import SCORES, BaseScore, make_score
from localconformal.selection.cost import BUDGET


class LocalizedConformalRegressor(ComposedRegressor):
    """Conformal intervals from any score, local law and adjustment.

    With V a score, F its local law, tau the local level and p an adjustment:

        theta* = cq(1 - alpha; p(V_i, F_i) over calibration rows),
        C(x) = {y : p(V(x, y), F_x) <= theta*}.

    Whatever the parts, a new row is covered with probability at least 1 - alpha. How well the
    intervals adapt to x is up to the parts.

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
        `localconformal.laws.BaseLaw`.
    adjustment : str or object, default="additive"
        "additive" (SLCP), "scaled" (additive in local widths), "multiplicative",
        "additive-expectation", "multiplicative-expectation", "theta", or "plain", which uses
        no law.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        How the reference scores of the law are made: by 5 fits that each leave out a fold, by
        a forest's out-of-bag predictions, on a held-out half of the training rows, or in
        sample (the paper).
    sides : {"joint", "union", "absolute"}, default="joint"
        How the two sides share alpha: see `localconformal.calibration`.
    upper_share : float, default=0.5
        Share of alpha above the interval for ``sides="union"``.
    confidence_level : float, default=0.9
        1 - alpha, used where `predict_interval` is not told another.
    calibration_size : float or int or None, default=0.25
        Share or number of rows that `fit` keeps for calibration. None: it trains on every row,
        and `conformalize` must follow.
    selection_budget : float, default=20.0
        Seconds that ``law="auto"`` may take, as estimated for two cores from the size of the
        table: it decides how many rows are looked at. Never read off a clock, so that a
        slow machine looks at as many. Too small for any search: the forest law.
    random_state : int or None, default=None
        Seed of the split, the folds and the law.
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    Attributes
    ----------
    guarantee_ : Guarantee
    selection_ : frame
        With ``law="auto"``: the candidates, their interval scores and weights.
    fit_report_ : dict
        Seconds by stage; rows used for training, reference, calibration and selection.
    score_, law_, adjustment_, calibration_
        The fitted parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(160, 1))
    >>> y = X[:, 0] * rng.normal(size=160)
    >>> model = LocalizedConformalRegressor(
    ...     LinearRegression(), conformity_score="absolute", law="kernel", random_state=0
    ... ).fit(X, y)
    >>> lower, upper = model.predict_interval([[0.1], [0.9]]).T
    >>> bool((upper - lower)[0] < (upper - lower)[1])
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "estimator": [None, HasMethods("predict"), tuple, list],
        "conformity_score": [StrOptions(set(SCORES)), BaseScore],
        "law": [StrOptions({"auto", *LAWS}), HasMethods(LAW_METHODS)],
        "adjustment": [StrOptions(set(ADJUSTMENTS)), BaseAdjustment],
        "reference": [StrOptions(set(REFERENCES))],
        "sides": [StrOptions(set(SIDES))],
        "upper_share": [Interval(Real, 0, 1, closed="neither")],
        "selection_budget": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        conformity_score: Any = "residual",
        law: Any = "auto",
        adjustment: Any = "additive",
        reference: str = "cross-fit",
        sides: str = "joint",
        upper_share: float = 0.5,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        selection_budget: float = BUDGET,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.law = law
        self.adjustment = adjustment
        self.reference = reference
        self.sides = sides
        self.upper_share = upper_share
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
            adjustment=make_adjustment(self.adjustment),
            rule=SideRule(self.sides, self.upper_share, score.one_sided),
            reference=self.reference,
            adjustment_is_free=self.adjustment == "additive",
            budget=self.selection_budget,
        )
