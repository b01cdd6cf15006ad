"""Signed residual: the score of SLCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from localconformal.models import fit_model, is_frozen, predict_column
from localconformal.quantiles import Array
from localconformal.scores.base import Band, BaseScore


class ResidualScore(BaseScore):
    """V_upper = y - mu(x), V_lower = mu(x) - y.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.arange(4.0)[:, None], np.arange(4.0)
    >>> score = ResidualScore().fit(LinearRegression(), X, y)
    >>> score.values(score.band(X), y + 1.0)[0].round(6)
    array([-1.,  1.])
    """

    def fit(
        self,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        confidence_level: float = 0.9,
        random_state: int = 0,
        fit_params: Mapping[str, Any] | None = None,
    ) -> ResidualScore:
        """Fit mu."""
        self.model_ = fit_model(estimator, X, y, fit_params)
        return self

    def band(self, X: Any) -> Band:
        """No width around mu(x)."""
        return Band.around(self.point(X))

    def point(self, X: Any) -> Array:
        """mu(x)."""
        return predict_column(self.model_, X)

    def out_of_bag_band(self) -> Band:
        """No width around the forest's own out-of-bag prediction."""
        if not hasattr(self.model_, "oob_prediction_"):
            raise ValueError(
                f"reference='oob' came with {type(self.model_).__name__}, which has no "
                "oob_prediction_; use a bagged model such as RandomForestRegressor, or choose "
                "reference='cross-fit'."
            )
        return Band.around(np.asarray(self.model_.oob_prediction_, dtype=np.float64))

    def is_frozen(self, estimator: Any) -> bool:
        """Nothing is trained when mu comes fitted."""
        return is_frozen(estimator)
