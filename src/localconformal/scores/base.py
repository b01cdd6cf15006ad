"""The contract of a score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from localconformal.intervals import round_up
from localconformal.models import comes_fitted
from localconformal.quantiles import Array


class Band(NamedTuple):
    """What the model says at each x: two edges, and the unit of distance from each; (n,) each."""

    lower: Array
    upper: Array
    lower_unit: Array
    upper_unit: Array

    @classmethod
    def around(cls, centre: Array, unit: Array | None = None) -> Band:
        """A band of no width around a centre."""
        scale = np.ones_like(centre) if unit is None else unit
        return cls(centre, centre, scale, scale)


class BaseScore(BaseEstimator):
    """Two-sided score: how many units y lies below the lower and above the upper edge.

    V_lower(x, y) = (lower(x) - y) / lower_unit(x),  V_upper(x, y) = (y - upper(x)) / upper_unit(x)

    A subclass says how to fit and what its band is. A score of another form overrides `values`
    and `bounds`, which must be inverses: {y : V_s(x, y) <= T_s for both s} = [lower, upper].
    """

    #: True for a score whose two sides are one number, their maximum, whatever `sides` says.
    one_sided = False

    def fit(
        self,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        confidence_level: float = 0.9,
        random_state: int = 0,
        fit_params: Mapping[str, Any] | None = None,
    ) -> BaseScore:
        """Fit the models behind the score on training rows; return self."""
        raise NotImplementedError

    def band(self, X: Any) -> Band:
        """The model's band at each row of X."""
        raise NotImplementedError

    def point(self, X: Any) -> Array:
        """Point predictions, (n,)."""
        raise NotImplementedError

    def out_of_bag_band(self) -> Band:
        """Bands at the training rows by the models that have not seen them."""
        raise ValueError(
            f"reference='oob' came with {type(self).__name__}, which has no out-of-bag version; "
            "choose reference='cross-fit'."
        )

    def is_frozen(self, estimator: Any) -> bool:
        """Whether `fit` trains nothing, so that every row given to it is unseen by the models."""
        raise NotImplementedError

    def comes_fitted(self, estimator: Any) -> bool:
        """Whether any model behind the score was fitted elsewhere, on rows we do not know."""
        return comes_fitted(estimator)

    def values(self, band: Band, y: Array) -> Array:
        """Scores of (x, y): (n, 2), columns lower and upper."""
        # Whoever asks says what becomes of scores that are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            below = (band.lower - y) / band.lower_unit
            above = (y - band.upper) / band.upper_unit
        return np.stack([below, above], axis=1)

    def bounds(self, band: Band, thresholds: Array) -> Array:
        """Intervals {y : V <= threshold}, rounded outward: (n, 2, L) -> (n, 2, L)."""
        with np.errstate(over="ignore"):
            below = thresholds[:, 0] * band.lower_unit[:, None]
            above = thresholds[:, 1] * band.upper_unit[:, None]
        # No bound lies at the infinity beyond it: an empty set must have a midpoint.
        largest = np.finfo(np.float64).max
        lower = -np.maximum(round_up(-band.lower[:, None], below), -largest)
        upper = np.maximum(round_up(band.upper[:, None], above), -largest)
        return np.stack([lower, upper], axis=1)
