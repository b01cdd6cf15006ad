"""Weighted conformal prediction: new rows that come from elsewhere than calibration rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import HasMethods, Interval

from localconformal.engine.kernels import effective_sample_size
from localconformal.models import shown
from localconformal.quantiles import Array
from localconformal.regressors.base import EXCHANGEABLE
from localconformal.regressors.density_ratio import fit_ratio
from localconformal.regressors.guarantee import Guarantee
from localconformal.regressors.localized import LocalizedConformalRegressor
from localconformal.regressors.pairwise import PairwiseRegressor
from localconformal.selection.cost import BUDGET


class WeightedConformalRegressor(PairwiseRegressor, LocalizedConformalRegressor):
    """Weighted conformal prediction: theta*(x) = wcq(1 - alpha; p_i, w(X_i), w(x)).

    With w(x) the density of new rows over that of calibration rows, up to a factor, new rows
    are covered with probability at least 1 - alpha although their features are distributed
    otherwise; y given x must be the same. The scores p are split conformal's by default, or those
    of any score, law and adjustment.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    weights : callable or classifier, default=None
        A callable of X that returns w(x) >= 0 for each row; or an unfitted classifier with
        ``predict_proba``, which learns to tell new rows from training rows, and needs new rows as
        ``target=`` of `fit`. None: boosting where `fit` gets a ``target``, else w = 1. Known
        weights may also come as ``weights=`` of `fit`, `conformalize`, `predict_interval` and
        `diagnose`.
    clip : float, default=0.01
        A classifier's probabilities p, of a new row where training rows are as many, stay within
        [clip, 1 - clip]; w = p / (1 - p).
    conformity_score : str or object, default="residual"
        This and what follows: as in `LocalizedConformalRegressor`.
    law : str or object, default="auto"
    adjustment : str or object, default="plain"
        "plain" uses no law.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    sides : {"joint", "union", "absolute"}, default="joint"
    upper_share : float, default=0.5
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    selection_budget : float, default=20.0
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    References
    ----------
    Tibshirani, Foygel Barber, Candes and Ramdas, "Conformal prediction under covariate shift",
    NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> y = X[:, 0] * rng.normal(size=400)
    >>> model = WeightedConformalRegressor(
    ...     LinearRegression(), weights=lambda X: X[:, 0] ** 4, random_state=0
    ... ).fit(X, y)
    >>> shifted = model.predict_interval(np.array([[0.9]]))
    >>> plain = model.set_params(weights=None).fit(X, y).predict_interval(np.array([[0.9]]))
    >>> bool(np.diff(shifted) > np.diff(plain))
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **LocalizedConformalRegressor._parameter_constraints,
        "weights": [None, callable, HasMethods(["fit", "predict_proba"])],
        "clip": [Interval(Real, 0, 0.5, closed="neither")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        weights: Any = None,
        clip: float = 0.01,
        conformity_score: Any = "residual",
        law: Any = "auto",
        adjustment: Any = "plain",
        reference: str = "cross-fit",
        sides: str = "joint",
        upper_share: float = 0.5,
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        selection_budget: float = BUDGET,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            estimator,
            conformity_score=conformity_score,
            law=law,
            adjustment=adjustment,
            reference=reference,
            sides=sides,
            upper_share=upper_share,
            confidence_level=confidence_level,
            calibration_size=calibration_size,
            selection_budget=selection_budget,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.weights = weights
        self.clip = clip

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        target: Any = None,
        weights: ArrayLike | None = None,
        **fit_params: Any,
    ) -> WeightedConformalRegressor:
        """Split the rows, train on one part, calibrate on the other.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        y : array of shape (n,)
        target : array or frame of shape (m, d), default=None
            New rows, without responses, from which a classifier learns the weights. It may know
            them by heart: intervals at these very rows may come out wider than at others.
        weights : array of shape (n,), default=None
            Known w at each row; then every later call needs them too.
        **fit_params
            Passed to the base estimator's ``fit``.

        Returns
        -------
        self
        """
        self._check_ways(target, weights)
        self._target = target
        try:
            return self._fit(X, y, weights, fit_params)
        finally:
            del self._target

    def conformalize(
        self, X: Any, y: ArrayLike, *, weights: ArrayLike | None = None
    ) -> WeightedConformalRegressor:
        """Replace the calibration set; nothing is refitted.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        y : array of shape (n,)
        weights : array of shape (n,), default=None
            Known w at each row, when `fit` was given them.

        Returns
        -------
        self
        """
        return self._conformalize(X, y, weights)

    def predict_interval(
        self,
        X: Any,
        confidence_level: ArrayLike | None = None,
        *,
        alpha: ArrayLike | None = None,
        output: str = "array",
        weights: ArrayLike | None = None,
    ) -> Any:
        """Prediction intervals; parameters as in `SLCPRegressor`, and ``weights``.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float or list of L floats, default=None
        alpha : float or list of L floats, default=None
        output : {"array", "frame"}, default="array"
        weights : array of shape (n,), default=None
            Known w at each row, when `fit` was given them.

        Returns
        -------
        array of shape (n, 2), or (n, 2, L) for a list of levels; or a frame
            Infinite where w(x) alone outweighs the calibration rows.
        """
        return self._predict_interval(X, confidence_level, alpha, output, weights)

    def diagnose(
        self, X: Any, confidence_level: float | None = None, *, weights: ArrayLike | None = None
    ) -> Any:
        """How each row's interval came about; columns as in `SLCPRegressor`."""
        return self._diagnose(X, confidence_level, weights)

    def _check_ways(self, target: Any, weights: Any) -> None:
        """Weights come in one way only."""
        learns = hasattr(self.weights, "predict_proba")
        known = self.weights is not None and not learns
        came = {
            f"weights={shown(self.weights)} in the constructor": known,
            "target= in fit": target is not None or learns,
            "weights= in fit": weights is not None,
        }
        ways = [way for way, present in came.items() if present]
        if len(ways) > 1:
            raise ValueError(f"{' and '.join(ways)} came; pass one of them: each says what w is.")
        if learns and target is None:
            raise ValueError(
                f"weights={shown(self.weights)} learns from new rows; pass them as target= of fit."
            )

    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        super()._fit_parts(X, y, fit_params, seed)
        self.weigh_ = self.weights
        self._estimated = self._target is not None
        if self._estimated:
            with self._stage("weights"):
                target = check_target_rows(self, self._target)
                self.weigh_ = fit_ratio(self.weights, X, target, self.clip, seed)

    def _view(self, X: Any, extra: Any) -> Array:
        """w at each row."""
        if self._extra_given != (extra is not None):
            raise ValueError(
                "weights came to fit but not here; pass weights=, one number a row."
                if self._extra_given
                else "weights came here but not to fit; pass weights= to fit too, or leave it out."
            )
        if extra is not None:
            return check_weights(extra, len(X))
        return np.ones(len(X)) if self.weigh_ is None else check_weights(self.weigh_(X), len(X))

    def _weigh(self, rows: Array, held: Array) -> tuple[Array, Array]:
        return held, rows

    def _effective_sizes(self, rows: Any) -> Array:
        held = self.calibration_.view
        return np.full(len(rows), effective_sample_size(held[None])[0])

    def _remedy(self) -> str:
        return (
            "calibrate on more rows where such rows are common, clip the weights, or "
            "lower the level."
        )

    def _guarantee(self) -> Guarantee:
        promise = super()._guarantee()
        if self.weigh_ is None and not self._extra_given:
            return promise
        shifted = (
            "new rows may be distributed otherwise than calibration rows, but given x their "
            "responses are alike, and the weights are the ratio of the two densities of x, up to "
            "a factor"
        )
        kept = tuple(text for text in promise.assumptions if text != EXCHANGEABLE)
        unseen = "calibration rows are independent draws that no model in use has seen"
        promise = replace(promise, assumptions=(shifted, unseen, *kept))
        if not self._estimated:
            return promise
        learned = "the weights are estimated: coverage is short by their error, which is unknown"
        return replace(promise, finite_sample=False, caveats=(*promise.caveats, learned))


def check_weights(weights: Any, n: int) -> Array:
    """(n,) finite numbers that are not negative, or refused."""
    given = np.asarray(weights)
    if given.dtype.kind not in "biuf" or given.shape != (n,):
        raise ValueError(
            f"weights have the type {given.dtype} and shape {given.shape}; one number for each of "
            f"{n} rows was expected."
        )
    bad = ~np.isfinite(given) | (given < 0)
    if bad.any():
        raise ValueError(
            f"{np.count_nonzero(bad)} of {n} weights are negative or not finite, such as "
            f"{given[bad][0]}; finite numbers from 0 on were expected."
        )
    return given.astype(np.float64)


def check_target_rows(model: WeightedConformalRegressor, target: Any) -> Any:
    """New rows with the columns of X, or refused by name."""
    try:
        return model._check_rows(target)
    except ValueError as error:
        raise ValueError(f"target, the new rows, cannot be used: {error}") from error
