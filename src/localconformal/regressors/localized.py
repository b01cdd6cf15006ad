"""The general composition: any score, any law, any adjustment. SLCP and Dist-Split."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from localconformal.adjustments import ADJUSTMENTS, Adjustment, ThetaQuantile, make_adjustment
from localconformal.composition import ONE_SIDE, SIDES, Calibration, Method, Sides, Task
from localconformal.laws import LAW_METHODS, LAWS, AutoLaw
from localconformal.laws.blend import EFFORTS, BlendedRegressor
from localconformal.quantiles import Array
from localconformal.regressors.cross import WithFolds
from localconformal.rows import Rows
from localconformal.scores import ResidualScore, Score, make_score

_OWN = (
    "the models of law='auto' predict better here than the one that was passed; use estimator=None "
    "to predict with them"
)
_BLENDED = (
    "the response is very skewed, or has outliers; predict_quantiles(X, [0.5]) gives medians, "
    "which nearly always lie inside"
)
#: Share of calibration rows from which points outside their intervals are worth a warning.
_OUTSIDE = 0.05


def _sides_of(score: Score, sides: str, upper_share: float = 0.5) -> Sides:
    """A score of one side has one, whatever ``sides`` says."""
    if score.one_sided and sides in ONE_SIDE:
        raise ValueError(
            f"got sides={sides!r} with {type(score).__name__}, which cannot tell on which side y "
            "lies; expected another score, such as 'residual'."
        )
    return Sides("absolute" if score.one_sided else sides, upper_share)


def _warn_of_points_outside(calibration: Calibration, level: float, why: str) -> None:
    """The point has a score of 0, and lies outside where a threshold is below that."""
    parts, levels = calibration.parts, np.array([level])
    theta = calibration.theta(levels)[None]
    T = parts.adjustment.threshold(  # type: ignore[union-attr]
        theta, calibration.F, parts.sides.levels(levels)
    )
    share = float(np.mean((parts.sides.thresholds(T) < 0.0).any(axis=(1, 2))))
    if share > _OUTSIDE:
        warnings.warn(
            f"The point predictions of {share:.0%} of calibration rows lie outside their own "
            f"intervals: {why}.",
            UserWarning,
            stacklevel=4,
        )


class _MayChooseLaw(WithFolds):
    """What ``law="auto"`` asks of an estimator: levels, the blend as its model, a warning."""

    conformity_score: Any
    law: Any
    reference: str
    effort: str

    def _law_terms(self, sides: Sides, task: Task) -> dict[str, Any]:
        """The law, told the levels that matter where it is "auto"; how reference rows are made."""
        if not self._is_auto:
            return {"law": self.law, "reference": self.reference}
        asked = sides.levels(np.array([self.confidence_level]))[:, 0]
        low, high = sorted((1.0 - asked[0], asked[-1]))
        # Around one level, as of intervals of 50 %, there are two to weigh.
        apart = 0.05 if high - low < 0.1 else 0.0
        levels = round(float(low - apart), 12), round(float(high + apart), 12)
        law = AutoLaw(levels=levels, effort=self.effort)
        is_blend = isinstance(task.estimator, BlendedRegressor)
        return {"law": law, "reference": "oob" if is_blend else self.reference}

    @property
    def _is_auto(self) -> bool:
        is_used = getattr(self, "adjustment", None) != "plain"
        return is_used and isinstance(self.law, str) and self.law == "auto"

    def _base_estimator(self, seed: int, fit_params: Any = ()) -> Any:
        """The blend of ``law="auto"``, where it can be the centre; its members take no weights."""
        plain = type(make_score(self.conformity_score)) is ResidualScore
        plain = plain and self.reference in ("cross-fit", "oob") and not fit_params
        if self.estimator is None and self._is_auto and plain:
            return BlendedRegressor(self.effort, seed, self.n_jobs)
        return super()._base_estimator(seed, fit_params)

    def _calibrate(self, rows: Rows, y: Array) -> None:
        super()._calibrate(rows, y)
        law = self.law_.laws[-1] if self.law_.laws else None
        if isinstance(law, AutoLaw) and law.model_ is not None:
            why = _OWN if self.estimator is not None else _BLENDED
            _warn_of_points_outside(self.calibration_, self.confidence_level, why)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalizedConformalRegressor(_MayChooseLaw):
    """Conformal intervals from any score, local law and adjustment.

    With V a score, F its local law, tau the local level and p an adjustment:

        theta* = cq(1 - alpha; p(V_i, F_i) over calibration rows),
        C(x) = {y : p(V(x, y), F_x) <= theta*}.

    Whatever the parts, a new row is covered with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model, whose `predict` stays as it is; with ``law="auto"`` a member of the blend that
        shapes the interval. None is that blend itself, and HistGradientBoostingRegressor with other
        laws. To preprocess, pass a Pipeline here.
        A fitted model comes as ``FrozenEstimator(model)``, or as any object with only
        ``predict``; then every row given to `fit` must be new to it. For
        ``conformity_score="quantile"``, see `localconformal.scores.QuantileScore`.
    conformity_score : str or object, default="residual"
        "residual", "absolute", "quantile", "normalised" or "response". "absolute" has one
        side, whatever ``sides`` says.
    law : str or object, default="auto"
        "auto" reads one forest of what a blend of models leaves over, and chooses the unit of the
        additive correction, on training rows alone (see `localconformal.laws.AutoLaw` and
        ``selection_``). "forest", "learned", "kernel", "neighbors", "uniform", or any object with
        the methods of `localconformal.laws.Law`.
    adjustment : str or object, default="additive"
        "additive" (SLCP), "scaled" (additive in local widths), "multiplicative", "theta",
        "additive-expectation", "multiplicative-expectation", or "plain", which uses no law.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        Reference scores of the law: by 5 fits that each leave out a fold, out of bag of a
        forest, on a held-out half of the training rows, or in sample (the paper).
    sides : {"joint", "union", "absolute", "upper", "lower"}, default="joint"
        How the two sides share alpha: see `localconformal.composition.Sides`. "upper" gives
        (-inf, u(x)], "lower" [l(x), inf), with all of alpha on that side.
    upper_share : float, default=0.5
        Share of alpha above the interval for ``sides="union"``.
    effort : {"low", "default", "high"}, default="default"
        What ``law="auto"`` may cost: folds, models of the blend, trees.

    Attributes
    ----------
    selection_ : frame
        With ``law="auto"``: point models and readings, their held-out losses and weights.

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
        "effort": [StrOptions(set(EFFORTS))],
    }

    conformity_score: Any = "residual"
    law: Any = "auto"
    adjustment: Any = "additive"
    reference: str = "cross-fit"
    sides: str = "joint"
    upper_share: float = 0.5
    effort: str = "default"

    def _method(self, task: Task) -> Method:
        score = make_score(self.conformity_score)
        is_free = isinstance(self.adjustment, str) and self.adjustment == "additive"
        sides = _sides_of(score, self.sides, self.upper_share)
        terms = score, make_adjustment(self.adjustment), sides
        return Method(*terms, **self._law_terms(sides, task), adjustment_is_free=is_free)


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
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> model = SLCPRegressor(random_state=0).fit(X, y)
    >>> model.predict_interval(X).shape, model.predict_interval(X, [0.5, 0.8, 0.95]).shape
    ((200, 2), (200, 2, 3))
    """


@dataclass(eq=False, repr=False, kw_only=True)
class DistSplitRegressor(_MayChooseLaw):
    """Dist-Split: C(x) = {y : t_lo <= F(V(x, y) | x) <= t_hi}.

    t_lo and t_hi are conformal quantiles of the ranks F(V_i | x_i) of calibration rows, at
    alpha / 2 and 1 - alpha / 2: the theta-quantile adjustment, each side by itself (Izbicki,
    Shimizu and Stern, AISTATS 2020).

    Parameters
    ----------
    estimator : estimator, default=None
        As in `SLCPRegressor`: with ``law="auto"`` None is the blend of the law.
    conformity_score : str or object, default="residual"
        What the law is of: "residual", or "response" as in the paper of Izbicki et al.
    law : str or object, default="auto"
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    sides : {"union", "joint", "upper", "lower"}, default="union"
        "joint" calibrates the more extreme rank (distributional conformal prediction), "upper" and
        "lower" one side alone, as in `SLCPRegressor`.
    effort : {"low", "default", "high"}, default="default"
        What ``law="auto"`` may cost: folds, models of the blend, trees.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(200, random_state=0)
    >>> DistSplitRegressor(law="forest", random_state=0).fit(X, y).predict_interval(X).shape
    (200, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        **LocalizedConformalRegressor._parameter_constraints,
        "sides": [StrOptions(set(SIDES) - {"absolute"})],
    }

    conformity_score: Any = "residual"
    law: Any = "auto"
    reference: str = "cross-fit"
    sides: str = "union"
    effort: str = "default"

    def _method(self, task: Task) -> Method:
        score = make_score(self.conformity_score)
        sides = _sides_of(score, self.sides)
        return Method(score, ThetaQuantile(), sides, **self._law_terms(sides, task))
