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
    "the models of law='auto' predict better here than the given estimator; use estimator=None to "
    "predict with them"
)
_BLENDED = (
    "the response is very skewed, or has outliers; predict_quantiles(X, [0.5]) gives medians, "
    "which nearly always lie inside"
)
#: Share of calibration rows with points outside their intervals above which a warning is given.
_OUTSIDE = 0.05


def _sides_of(score: Score, sides: str, upper_share: float = 0.5) -> Sides:
    """A one-sided score has one side, regardless of ``sides``."""
    if score.one_sided and sides in ONE_SIDE:
        raise ValueError(
            f"got sides={sides!r} with {type(score).__name__}, which cannot tell on which side y "
            "lies; expected another score, such as 'residual'."
        )
    return Sides("absolute" if score.one_sided else sides, upper_share)


def _warn_of_points_outside(calibration: Calibration, level: float, why: str) -> None:
    """The point prediction has a score of 0: it lies outside if a threshold is negative."""
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
    """What ``law="auto"`` needs from an estimator: levels, the blend as its model, a warning."""

    conformity_score: Any
    law: Any
    reference: str
    effort: str

    def _law_terms(self, sides: Sides, task: Task) -> dict[str, Any]:
        """The law (with the levels that matter, for "auto") and how reference rows are made."""
        if not self._is_auto:
            return {"law": self.law, "reference": self.reference}
        asked = sides.levels(np.array([self.confidence_level]))[:, 0]
        low, high = sorted((1.0 - asked[0], asked[-1]))
        # If the two levels (nearly) coincide, use two around them.
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
        """The blend of ``law="auto"`` if it can be the centre; its members take no weights."""
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

    For any choice of parts, a new row is covered with probability at least 1 - alpha.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; `predict` returns its predictions unchanged. With ``law="auto"`` it joins the
        blend that shapes the interval. None is that blend itself, or HistGradientBoostingRegressor
        with other laws. To preprocess, pass a Pipeline here.
        Pass a fitted model as ``FrozenEstimator(model)``, or as any object with only
        ``predict``; then every row given to `fit` must be new to it. For
        ``conformity_score="quantile"``, see `localconformal.scores.QuantileScore`.
    conformity_score : str or object, default="residual"
        "residual", "absolute", "quantile", "normalised" or "response". "absolute" has one
        side, regardless of ``sides``.
    law : str or object, default="auto"
        "auto" reads one forest fitted to the residuals of a blend of models, and chooses the unit
        of the additive correction, on training rows alone (see `localconformal.laws.AutoLaw` and
        ``selection_``). "forest", "learned", "kernel", "neighbors", "uniform", or any object with
        the methods of `localconformal.laws.Law`.
    adjustment : str or object, default="additive"
        "additive" (SLCP), "scaled" (additive in local widths), "multiplicative", "theta",
        "additive-expectation", "multiplicative-expectation", or "plain", which uses no law.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        How the law's reference scores are made: by 5 fits that each leave out a fold, out of bag
        from a forest, on a held-out half of the training rows, or in sample (as in the paper).
    sides : {"joint", "union", "absolute", "upper", "lower"}, default="joint"
        How the two sides share alpha: see `localconformal.composition.Sides`. "upper" gives
        (-inf, u(x)], "lower" [l(x), inf), with all of alpha on that side.
    upper_share : float, default=0.5
        Share of alpha above the interval for ``sides="union"``.
    effort : {"low", "default", "high"}, default="default"
        Cost of ``law="auto"``: how many folds, models in the blend and trees it may use.

    Attributes
    ----------
    selection_ : frame
        With ``law="auto"``: point models and readings, with their held-out losses and weights.

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

    With ``law="auto"``, d may be in units of local widths instead, if that scores better. The
    paper's exact method (Han, Tang, Ghosh and Liu, arXiv:2206.13092) is ``SLCPRegressor(est,
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
    alpha / 2 and 1 - alpha / 2: the theta-quantile adjustment, on each side separately (Izbicki,
    Shimizu and Stern, AISTATS 2020).

    Parameters
    ----------
    estimator : estimator, default=None
        As in `SLCPRegressor`: with ``law="auto"``, None is the law's blend.
    conformity_score : str or object, default="residual"
        The variable that the law models: "residual", or "response" as in Izbicki et al.
    law : str or object, default="auto"
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    sides : {"union", "joint", "upper", "lower"}, default="union"
        "joint" calibrates the more extreme rank (distributional conformal prediction); "upper" and
        "lower" calibrate one side alone, as in `SLCPRegressor`.
    effort : {"low", "default", "high"}, default="default"
        Cost of ``law="auto"``: how many folds, models in the blend and trees it may use.

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
