"""Normalised residual: distance from the mean in units of a learned spread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from localconformal.models import (
    default_estimator,
    fit_all,
    fit_model,
    is_frozen,
    predict_column,
    take_params,
    take_rows,
)
from localconformal.quantiles import Array, clear_of_rounding, typical_size
from localconformal.scores.base import Band
from localconformal.scores.residual import ResidualScore
from localconformal.splitting import Rows, fold_rows


class NormalisedScore(ResidualScore):
    """V_upper = (y - mu(x)) / s(x), V_lower = -V_upper, with s(x) = max(sigma(x), 0) + floor.

    sigma is a model of |y - mu(x)| fitted to out-of-fold residuals of the training rows. The
    floor is ``beta`` times their median, so that scaling y scales the intervals. Fit parameters
    such as ``sample_weight`` go to mu, not to sigma.

    Parameters
    ----------
    spread_estimator : estimator, default=None
        Model of |y - mu(x)|; None is HistGradientBoostingRegressor. A FrozenEstimator, or an
        object with only ``predict``, is used as it is.
    beta : float, default=0.01
        Floor of the spread, relative to the median absolute residual.
    n_folds : int, default=5
        Folds for the residuals that sigma learns from.

    Examples
    --------
    >>> NormalisedScore(beta=0.1)
    NormalisedScore(beta=0.1)
    """

    def __init__(self, spread_estimator: Any = None, beta: float = 0.01, n_folds: int = 5) -> None:
        self.spread_estimator = spread_estimator
        self.beta = beta
        self.n_folds = n_folds

    def fit(
        self,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        confidence_level: float = 0.9,
        random_state: int = 0,
        fit_params: Mapping[str, Any] | None = None,
    ) -> NormalisedScore:
        """Fit mu, then sigma on out-of-fold absolute residuals."""
        if not self.beta >= 0:
            raise ValueError(f"beta is {self.beta!r}; a number of at least 0 was expected.")
        super().fit(estimator, X, y, fit_params=fit_params)
        spread = self.spread_estimator
        if spread is None:
            spread = default_estimator(random_state)
        residuals = self._residuals(estimator, X, y, random_state, fit_params or {})
        self.spread_model_ = fit_model(spread, X, residuals)
        self.floor_ = self.beta * typical_size(clear_of_rounding(residuals, y))
        return self

    def _residuals(
        self, estimator: Any, X: Any, y: Array, seed: int, fit_params: Mapping[str, Any]
    ) -> Array:
        """|y - mu(x)| by models that have not seen the row; no folds for a frozen mu."""
        if is_frozen(estimator):
            return np.abs(y - self.point(X))
        prediction = np.empty_like(y)

        def predict(rest: Rows, fold: Rows) -> None:
            params = take_params(fit_params, rest, len(y))
            model = fit_model(estimator, take_rows(X, rest), y[rest], params)
            prediction[fold] = predict_column(model, take_rows(X, fold))

        folds = fold_rows(len(y), self.n_folds, seed)
        fit_all([partial(predict, *fold) for fold in folds], estimator, X)
        return np.abs(y - prediction)

    def spread(self, X: Any) -> Array:
        """s(x) > 0; a tiny floor stays when beta = 0 and sigma(x) <= 0."""
        raw = np.maximum(predict_column(self.spread_model_, X), 0.0) + self.floor_
        return np.maximum(raw, np.finfo(np.float64).tiny)

    def band(self, X: Any) -> Band:
        """No width around mu(x), in units of s(x)."""
        return Band.around(self.point(X), self.spread(X))

    def out_of_bag_band(self) -> Band:
        """Not to be had: sigma has no out-of-bag version."""
        raise ValueError(
            "reference='oob' came with NormalisedScore, whose spread model has no out-of-bag "
            "version; choose reference='cross-fit'."
        )

    def comes_fitted(self, estimator: Any) -> bool:
        """Also when sigma was fitted elsewhere."""
        sigma = self.spread_estimator
        return super().comes_fitted(estimator) or (sigma is not None and is_frozen(sigma))

    def is_frozen(self, estimator: Any) -> bool:
        """Nothing is trained when both mu and sigma come fitted."""
        sigma = self.spread_estimator
        return is_frozen(estimator) and sigma is not None and is_frozen(sigma)
