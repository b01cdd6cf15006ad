"""Calibration rows weighted separately for each x: covariate shift, LCP, RLCP and LVD."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import HasMethods, Interval

from localconformal.composition import Method, Task
from localconformal.corrections import (
    DRAWS,
    DensityRatio,
    Drawn,
    EffectiveSize,
    FiniteThresholds,
    Kernel,
    LocalRanks,
    Ratio,
    RowWeight,
)
from localconformal.laws import KernelLaw, Law, LearnedMetric, make_law
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.rows import shown
from localconformal.scores import make_score

#: Training rows that RLCP's default kernel reaches; it reaches a third as many calibration rows.
_REACHED = 150.0


@dataclass(eq=False, repr=False, kw_only=True)
class WeightedConformalRegressor(LocalizedConformalRegressor):
    """Weighted conformal prediction: theta*(x) = wcq(1 - alpha; p_i, w(X_i), w(x)).

    If w(x) is the density ratio of new rows to calibration rows, up to a factor, new rows are
    covered with probability at least 1 - alpha even though their features are distributed
    differently; y given x must be the same (Tibshirani et al., NeurIPS 2019). The scores p are
    those of split conformal prediction by default, or of any score, law and adjustment.

    Parameters
    ----------
    weights : callable or classifier, default=None
        A callable of X that returns w(x) >= 0 for each row; or an unfitted classifier with
        ``predict_proba``, which learns to tell new rows from training rows, and needs new rows as
        ``target=`` in `fit`. None: boosting if `fit` gets a ``target``, else w = 1. Known weights
        can also be passed as ``weights=`` to `fit`, `conformalize`, `predict_interval` and
        `diagnose`.
    clip : float, default=0.01
        A classifier's probabilities p of being a new row, at equal numbers of new and training
        rows, are clipped to [clip, 1 - clip]; w = p / (1 - p).
    adjustment : str or object, default="plain"
        As in `LocalizedConformalRegressor`; "plain" uses no law.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> model = WeightedConformalRegressor(weights=lambda X: X[:, 0], random_state=0)
    >>> model.fit(X, y).predict_interval(X).shape
    (400, 2)
    """

    _parameter_constraints = {  # noqa: RUF012
        "weights": [None, callable, HasMethods(["fit", "predict_proba"])],
        "clip": [Interval(Real, 0, 0.5, closed="neither")],
    }
    beside = "weights"
    # Gives `set_fit_request(weights=...)`, as a signature would.
    __metadata_request__fit = {"weights": None}  # noqa: RUF012

    weights: Any = None
    clip: float = 0.01
    adjustment: Any = "plain"

    def fit(
        self, X: Any, y: ArrayLike, *, target: Any = None, **fit_params: Any
    ) -> WeightedConformalRegressor:
        """Split the rows, train on one part, calibrate on the other.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        y : array of shape (n,)
        target : array or frame of shape (m, d), default=None
            New rows, without responses, from which a classifier learns the weights. It may overfit
            to them: intervals at exactly these rows may be wider than at others.
        **fit_params
            ``weights`` (n,), known w at each row, which every later call then needs too; others are
            passed to the base estimator's ``fit``.
        """
        self._check_ways(target, fit_params.get("weights"))
        self._target = target
        try:
            super().fit(X, y, **fit_params)
        finally:
            del self._target
        return self

    def _check_ways(self, target: Any, weights: Any) -> None:
        """Accept weights in one way only."""
        learns = hasattr(self.weights, "predict_proba")
        known = self.weights is not None and not learns
        given = {
            f"weights={shown(self.weights)} in the constructor": known,
            "target= in fit": target is not None or learns,
            "weights= in fit": weights is not None,
        }
        ways = [way for way, present in given.items() if present]
        if len(ways) > 1:
            raise ValueError(f"got {' and '.join(ways)}; pass only one, since each defines w.")
        if learns and target is None:
            raise ValueError(
                f"weights={shown(self.weights)} learns from new rows; pass them as target= in fit."
            )

    def _method(self, task: Task) -> Method:
        weigh: Any = RowWeight(self.weights)
        if self._target is not None:
            with self._timed("weights"):
                try:
                    target = self._rows(self._target).X
                except ValueError as error:
                    raise ValueError(f"target= (the new rows) cannot be used: {error}") from error
                given = self.weights, task.rows.X, target, self.clip, task.seed
                weigh = DensityRatio.fit(*given)
        return replace(super()._method(task), correction=Ratio(weigh))

    def _guarantee(self) -> Guarantee:
        promise, weigh = super()._guarantee(), self.parts_.correction.view_
        if not self._beside_given and getattr(weigh, "function", True) is None:
            return promise
        shifted = (
            "new rows may be distributed differently from calibration rows, but y given x has the "
            "same distribution, and the weights are the ratio of the two densities of x, up to a "
            "factor"
        )
        unseen = "calibration rows are independent draws that no model in use has seen"
        # They replace the first assumption, that rows are exchangeable.
        promise = replace(promise, assumptions=(shifted, unseen, *promise.assumptions[1:]))
        if not isinstance(weigh, DensityRatio):
            return promise
        learned = "the weights are estimated: their error, which is unknown, can reduce coverage"
        return replace(promise, finite_sample=False, caveats=(*promise.caveats, learned))


# ---- the kernel of a law around each x ----------------------------------------------------------


@dataclass(eq=False, repr=False, kw_only=True)
class _KernelRegressor(BaseConformalRegressor):
    """The larger side of a score, calibrated around each row.

    Parameters
    ----------
    conformity_score : str or object, default="residual"
        As in `LocalizedConformalRegressor`; the larger of its two sides counts.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
        How training rows are scored, if the law or its bandwidth is learned from scores.
    """

    conformity_score: Any = "residual"
    law: Any = None
    reference: str = "cross-fit"

    def _around(self, kind: type[Kernel], default: KernelLaw, scoreless: bool = True) -> Method:
        """Calibration rows weighted by the kernel of the law.

        If the default law learns nothing from scores, no models are fitted to make them.
        """
        law = default if self.law is None else make_law(self.law)
        if type(law).localizer is Law.localizer:
            raise ValueError(
                f"got law={shown(law)}, which has no kernel between two rows; expected a kernel, "
                "forest or uniform law."
            )
        for_nothing = scoreless and self.law is None and self.reference == "cross-fit"
        reference = "train" if for_nothing else self.reference
        return Method(make_score(self.conformity_score), correction=kind(law), reference=reference)

    @property
    def localizer_(self) -> Any:
        """H, the kernel between two rows."""
        return self.parts_.correction.localizer_


class LCPRegressor(_KernelRegressor):
    """Localized conformal prediction: C(x) = mu(x) +- T(x), T(x) the largest score accepted at x.

    Every row has its own law, the scores of calibration rows and the new row weighted by
    H(row, .), and a local rank, the mass of that law strictly below the row's score. A score v at
    x is accepted if fewer than (1 - alpha)(n + 1) calibration rows have a smaller local rank
    than v has at x (Guan, Biometrika 2023). T(x) is found exactly, in O(n log n).

    Where few calibration rows have weight, the interval is infinite, and a warning says how often.
    Intervals of `SLCPRegressor`, which localizes by training rows, never are for this reason.

    Parameters
    ----------
    law : str or object, default=None
        Law whose kernel between two rows is H: "kernel", "forest", "uniform" or an object. None:
        ``KernelLaw(bandwidth=FiniteThresholds(confidence_level))``.

    Attributes
    ----------
    localizer_ : Localizer
        H; if it is a kernel, ``bandwidth`` is the one chosen.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> model = LCPRegressor(law="kernel", random_state=0).fit(X, y)
    >>> bool(model.localizer_.bandwidth > 0), model.predict_interval(X).shape
    (True, (400, 2))
    """

    def _method(self, task: Task) -> Method:
        default = KernelLaw(bandwidth=FiniteThresholds(self.confidence_level))
        return self._around(LocalRanks, default, scoreless=False)

    def _caveats(self) -> tuple[str, ...]:
        where = "intervals are infinite where few calibration rows have weight"
        return (*super()._caveats(), where)


class RLCPRegressor(_KernelRegressor):
    """Randomly-localized conformal prediction (Hore and Barber, arXiv:2310.07850).

    A centre is drawn around the embedded row f(x) from the kernel's own density, such as
    N(f(x), h^2 I), and calibration rows are weighted by how near they are to it:

        x~ = f(x) + h e,  w_i = K(|f(X_i) - x~| / h),  w_inf = K(|f(x) - x~| / h),
        C(x) = {y : V(x, y) <= wcq(1 - alpha; V_i, w_i, w_inf)},  V the larger side of the score.

    The noise e is a function of the row and of a seed drawn once, at fit: repeated predictions
    agree, one by one or in batches, at all levels. An infinite h gives split conformal prediction.

    Parameters
    ----------
    law : KernelLaw or "kernel", default=None
        Its kernel, embedding and bandwidth are used. None: ``KernelLaw(bandwidth=
        EffectiveSize(150))``, which reaches about 150 training rows and so 50 calibration rows
        by default. With fewer training rows, h is infinite, and `guarantee_` says so.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> model = RLCPRegressor(law="kernel", random_state=0).fit(X, y)
    >>> bool((model.predict_interval(X) == model.predict_interval(X)).all())
    True
    """

    def _method(self, task: Task) -> Method:
        law = None if self.law is None else make_law(self.law)
        if law is not None and not (isinstance(law, KernelLaw) and law.kernel in DRAWS):
            raise ValueError(
                f"got law={shown(law)}; expected a KernelLaw with a kernel that can be sampled: "
                f"{', '.join(map(repr, DRAWS))}."
            )
        return self._around(Drawn, KernelLaw(bandwidth=EffectiveSize(_REACHED)))

    def _caveats(self) -> tuple[str, ...]:
        if np.isinf(self.localizer_.bandwidth):
            flat = "too few training rows, so the bandwidth is infinite: this is split conformal"
            return (*super()._caveats(), flat)
        return (
            *super()._caveats(),
            "intervals are randomised, once per row, by a seed stored at fit; the guarantee is "
            "also an average over such seeds",
            "coverage also holds given the drawn centre, that is, on average over new rows "
            "weighted by the kernel around it",
        )


class LVDRegressor(_KernelRegressor):
    """Locally valid and discriminative intervals: a kernel around the new row itself.

        C(x) = {y : V(x, y) <= wcq(1 - alpha; V_i, K(X_i, x), 1)},  V the larger side of the score,

    with mass K(x, x) = 1 at +inf and a learned kernel (Lin, Trivedi and Sun, NeurIPS 2021). No
    coverage is guaranteed at a new row, since the weights are centred at that very row; coverage is
    usually too high. Intervals are infinite wherever 1 / (1 + sum_i K(X_i, x)) > alpha.
    `RLCPRegressor` is the same with a random centre, which makes it exact.

    Parameters
    ----------
    conformity_score : str or object, default="residual"
        As in `SLCPRegressor`; "normalised" is the second version in the paper.
    law : str or object, default=None
        A law whose kernel weights calibration rows: kernel, forest or uniform. None:
        ``KernelLaw(bandwidth=1.0, embedding=LearnedMetric())``.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> LVDRegressor(law="kernel", random_state=0).fit(X, y).guarantee_.marginal
    False
    """

    def _method(self, task: Task) -> Method:
        return self._around(Kernel, KernelLaw(bandwidth=1.0, embedding=LearnedMetric()))

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        caveats = (
            "the level would be exact for new rows drawn from the kernel around a centre fixed in "
            "advance; with the centre at the new row it is not, and coverage is usually too high",
            "intervals are infinite where 1 / (1 + the sum of the kernel over calibration rows) "
            "exceeds 1 - confidence_level",
            # The first one is about an average that is promised.
            *promise.caveats[1:],
        )
        return replace(promise, marginal=False, finite_sample=False, caveats=caveats)
