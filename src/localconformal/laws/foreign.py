"""Laws from elsewhere: any object with the public methods of a law."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.laws.base import BaseLaw
from localconformal.laws.outputs import Outputs
from localconformal.quantiles import Array

LAW_METHODS = ["fit", "quantile", "upper_quantile", "cdf", "mean", "effective_sample_size"]


class ForeignLaw(BaseLaw):
    """A law of this library around an object that only has the methods of one.

    Parameters
    ----------
    law : object
        With ``fit(X, v)``, ``quantile(X, levels)``, ``upper_quantile(X, levels)``,
        ``cdf(X, v, side)``, ``mean(X)`` and ``effective_sample_size(X)``.
    """

    def __init__(self, law: Any) -> None:
        self.law = law

    def fit(self, X: Any, v: Any, *, outputs: Outputs | None = None) -> ForeignLaw:
        """Fit a copy of the object."""
        self.engine_ = ForeignEngine(deepcopy(self.law).fit(X, v))
        return self

    def rows(self, X: Any) -> Any:
        """The rows themselves."""
        return X


class ForeignEngine:
    """Answers by the public methods of the object."""

    def __init__(self, law: Any) -> None:
        self.law = law

    def quantiles(self, rows: Any, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``; levels that differ by row are not asked of it."""
        if levels.ndim > 1:
            first = levels[:1]
            if not np.array_equal(np.broadcast_to(first, levels.shape), levels):
                raise ValueError(
                    f"{type(self.law).__name__} answers one set of levels for all rows, and this "
                    "adjustment needs one per row; subclass localconformal.laws.BaseLaw instead."
                )
            levels = first[0]
        below = np.asarray(self.law.quantile(rows, levels), dtype=np.float64)
        if not upper.any():
            return below
        above = np.asarray(self.law.upper_quantile(rows, levels), dtype=np.float64)
        return np.where(upper, above, below)

    def cdf(self, rows: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): one column of v at a time."""
        columns = [np.asarray(self.law.cdf(rows, column, side=side)) for column in v.T]
        return np.stack(columns, axis=1)

    def moments(self, rows: Any) -> Array:
        """As the object says; it knows of no mean of |V| (NaN), and never widens."""
        mean, size = self.law.mean(rows), self.law.effective_sample_size(rows)
        return np.column_stack([mean, np.full(len(mean), np.nan), size, np.zeros(len(mean))])
