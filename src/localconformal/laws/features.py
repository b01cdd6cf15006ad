"""The library's own numeric view of a table, made for any X that a model may take."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder

from localconformal.columns import split_columns
from localconformal.quantiles import Array

# Rarer categories share one column, so that an identifier does not fill the memory.
MAX_CATEGORIES = 50
# Squares of larger numbers, and sums of them, leave the range of float64.
LARGEST = 1e150


class FeatureEmbedding(BaseEstimator):
    """Numeric columns imputed by their median and standardised; the others one-hot.

    One-hot columns stay 0/1: scaling them by their spread would let rare categories dominate.

    Examples
    --------
    >>> import numpy as np
    >>> FeatureEmbedding().fit([[0.0], [2.0]], None).transform([[1.0], [np.nan]])
    array([[0.],
           [0.]])
    """

    def fit(self, X: Any, v: Any = None) -> FeatureEmbedding:
        """Learn kinds of columns, medians, scales and categories."""
        numbers, labels, self.kinds_ = split_columns(X)
        if np.isinf(numbers).any():
            raise ValueError(
                "X has infinite values; finite numbers or NaN were expected: clean X, or pass "
                "another embedding."
            )
        self.median_ = typical_values(numbers)
        known = bounded(fill_missing(numbers, self.median_))
        self.mean_ = known.mean(axis=0)
        spread = known.std(axis=0)
        # A constant column may show rounding noise as spread.
        constant = spread <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_ = np.where(constant, 1.0, spread)
        self.encoder_ = None
        if labels.shape[1]:
            self.encoder_ = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=MAX_CATEGORIES,
                sparse_output=False,
            ).fit(labels)
        return self

    def transform(self, X: Any) -> Array:
        """(n, columns) points."""
        numbers, labels, _ = split_columns(X, self.kinds_)
        # In place: the numbers are a copy already, and a million rows are worth it.
        points = fill_missing(numbers, self.median_)
        infinite = np.isinf(points)
        points = bounded(points)
        points -= self.mean_
        with np.errstate(over="ignore"):
            points /= self.scale_
        points = np.clip(points, -LARGEST, LARGEST, out=points)
        # They are nowhere, and whoever measures distances refuses them.
        points[infinite] = np.inf
        if self.encoder_ is not None:
            points = np.hstack([points, self.encoder_.transform(labels)])
        return np.asarray(points)


def fill_missing(numbers: Array, values: Array) -> Array:
    """The numbers, in place, with these values where they are NaN."""
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = np.broadcast_to(values, numbers.shape)[missing]
    return numbers


def bounded(numbers: Array) -> Array:
    """The numbers, in place, none larger than what can be squared but infinities."""
    return np.clip(numbers, -LARGEST, LARGEST, out=numbers, where=np.isfinite(numbers))


def typical_values(numbers: Array) -> Array:
    """What stands in for a missing value of each column: its median, 0 where nothing is known."""
    return np.array([_median(column[~np.isnan(column)]) for column in numbers.T])


def _median(known: Array) -> float:
    # The middle of two numbers is found by adding them.
    return float(np.median(bounded(known))) if len(known) else 0.0
