"""The contract of a law."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from localconformal.engine import Engine
from localconformal.laws.localizer import Localizer
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array


class BaseLaw(BaseEstimator):
    """Law of V given x. A subclass's `fit` ends by setting ``engine_``; `rows` is its view of X.

    Everything is frozen by `fit` from reference rows alone, and each row of X is answered by
    itself. Every law keeps the law of inverses: F(v- | x) <= t exactly when v <= Q+(t | x).
    """

    engine_: Engine
    #: How often the law was added to since it was fitted.
    n_updates_: int = 0

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> BaseLaw:
        """Estimate the law from reference rows X (n, d) and their scores v (n,).

        ``outputs`` has what the point model says, for laws that look at more than the features.
        """
        raise NotImplementedError

    def at_levels(self, levels: Array) -> BaseLaw:
        """An unfitted law, cheaper where possible, that will be asked for these levels only."""
        return self

    def update(self, X: Any, v: ArrayLike) -> BaseLaw:
        """Add reference rows, where the law can be added to."""
        raise ValueError(f"{type(self).__name__} cannot be added to; fit it again.")

    def rows(self, X: Any) -> Any:
        """What the engine needs of each row of X."""
        raise NotImplementedError

    def localizer(self) -> Localizer:
        """The kernel between two rows behind the fitted law, for methods that weigh other rows."""
        raise ValueError(
            f"{type(self).__name__} has no kernel between two rows; a kernel, neighbors, forest or "
            "uniform law was expected."
        )

    def quantile(self, X: Any, levels: ArrayLike) -> Array:
        """Q(t | x) = inf{v : F(v | x) >= t}: levels (L,) -> (n, L)."""
        return self._quantiles(X, levels, upper=False)

    def upper_quantile(self, X: Any, levels: ArrayLike) -> Array:
        """Q+(t | x) = inf{v : F(v | x) > t}: levels (L,) -> (n, L); +inf where t >= 1."""
        return self._quantiles(X, levels, upper=True)

    def cdf(self, X: Any, v: ArrayLike, side: str = "right") -> Array:
        """F(v | x) (``side="right"``) or F(v- | x) (``"left"``): v (n,) or (n, k), same out."""
        if side not in ("right", "left"):
            raise ValueError(f"side is {side!r}; 'right' or 'left' was expected.")
        check_is_fitted(self)
        values = np.asarray(v, dtype=np.float64)
        if np.isnan(values).any():
            raise ValueError("v has NaN; numbers were expected.")
        table = values.reshape(len(values), -1) if values.ndim < 2 else values
        return self.engine_.cdf(self.rows(X), table, side).reshape(values.shape)

    def mean(self, X: Any, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x] where ``absolute``: (n,)."""
        check_is_fitted(self)
        return self.engine_.moments(self.rows(X))[:, int(absolute)]

    def effective_sample_size(self, X: Any) -> Array:
        """How many equally weighted reference rows would be as informative: (n,)."""
        check_is_fitted(self)
        return self.engine_.moments(self.rows(X))[:, 2]

    def fallback(self, X: Any) -> NDArray[np.bool_]:
        """Where the law had to widen its neighbourhood: (n,)."""
        check_is_fitted(self)
        return self.engine_.moments(self.rows(X))[:, 3] > 0

    def _quantiles(self, X: Any, levels: ArrayLike, upper: bool) -> Array:
        check_is_fitted(self)
        t = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if not np.all((t >= 0.0) & (t <= 1.0)):
            raise ValueError(f"levels are {levels!r}; numbers in [0, 1] were expected.")
        return self.engine_.quantiles(self.rows(X), t, np.full(t.shape[-1], upper))


def check_reference_scores(v: ArrayLike) -> Array:
    """Scores as a finite float64 array of shape (n,)."""
    scores = np.asarray(column_or_1d(v), dtype=np.float64)
    if len(scores) == 0:
        raise ValueError("0 reference rows came; a law needs at least 1.")
    if not np.all(np.isfinite(scores)):
        raise ValueError(
            f"{np.count_nonzero(~np.isfinite(scores))} of {len(scores)} reference scores are NaN "
            "or infinite; finite scores were expected: check y and the model's predictions."
        )
    return scores
