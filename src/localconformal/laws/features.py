"""A row as a point: the library's own numeric view of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder

from localconformal.columns import split_columns
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Curve, Rows

# Rarer categories share one column, so that an identifier does not fill the memory.
_MAX_CATEGORIES = 50
# Squares of larger numbers, and sums of them, leave the range of float64.
_LARGEST = 1e150
# Squared distances of points within this box stay finite for any bandwidth a kernel may have.
_FARTHEST_POINT = 1e50
#: Predictions further from their centre count as this far: trees compare in float32.
_FARTHEST_PREDICTION = 1e30


class Features(Curve, BaseEstimator):
    """Numeric columns imputed by their median and standardised; the others one-hot.

    One-hot columns stay 0/1: scaling them by their spread would let rare categories dominate.

    Examples
    --------
    >>> import numpy as np
    >>> Features().fit([[0.0], [2.0]]).transform([[1.0], [np.nan]])
    array([[0.],
           [0.]])
    """

    def fit(self, X: Any, v: Any = None) -> Features:
        """Learn kinds of columns, medians, scales and categories."""
        numbers, labels, self.kinds_ = split_columns(X)
        if np.isinf(numbers).any():
            raise ValueError(
                "X has infinite values; expected finite numbers or NaN: clean X, or pass another "
                "embedding."
            )
        # Bounded first: the middle of two numbers is found by adding them.
        known = [_bounded(column[~np.isnan(column)]) for column in numbers.T]
        self.median_ = np.array([np.median(one) if len(one) else 0.0 for one in known])
        filled = _bounded(_fill_missing(numbers, self.median_))
        self.mean_, spread = filled.mean(axis=0), filled.std(axis=0)
        # A constant column may show rounding noise as spread.
        constant = spread <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_ = np.where(constant, 1.0, spread)
        self.encoder_ = None
        if labels.shape[1]:
            self.encoder_ = OneHotEncoder(
                handle_unknown="infrequent_if_exist",
                max_categories=_MAX_CATEGORIES,
                sparse_output=False,
            ).fit(labels)
        return self

    def transform(self, X: Any) -> Array:
        """(n, columns) points."""
        numbers, labels, _ = split_columns(X, self.kinds_)
        # In place: the numbers are a copy already, and a million rows are worth it.
        points = _fill_missing(numbers, self.median_)
        infinite = np.isinf(points)
        points = _bounded(points)
        points -= self.mean_
        with np.errstate(over="ignore"):
            points /= self.scale_
        points = np.clip(points, -_LARGEST, _LARGEST, out=points)
        # They are nowhere, and whoever measures distances refuses them.
        points[infinite] = np.inf
        if self.encoder_ is not None:
            points = np.hstack([points, self.encoder_.transform(labels)])
        return np.asarray(points)

    def compute(self, rows: Rows) -> Array:
        """Finite points within a box, (n, columns)."""
        return in_box(self.transform(rows.X), "the features")


def in_box(points: Array, whose: str) -> Array:
    """Finite points, none too far out for a squared distance; others are refused."""
    if not np.all(np.isfinite(points)):
        raise ValueError(
            f"{whose} gave NaN or infinite coordinates; expected finite numbers: clean X, or pass "
            "another embedding."
        )
    return np.clip(points, -_FARTHEST_POINT, _FARTHEST_POINT)


def _fill_missing(numbers: Array, values: Array) -> Array:
    """The numbers, in place, with these values where they are NaN."""
    missing = np.isnan(numbers)
    if missing.any():
        numbers[missing] = np.broadcast_to(values, numbers.shape)[missing]
    return numbers


def _bounded(numbers: Array) -> Array:
    """The numbers, in place, none larger than what can be squared but infinities."""
    return np.clip(numbers, -_LARGEST, _LARGEST, out=numbers, where=np.isfinite(numbers))


class View(Curve):
    """What a supervised law sees: features, mu(x), and sigma(x) where it is known.

    The last two are in units of the spread of mu(x), mu(x) around its centre, so that models work
    alike for responses of any size, wherever they lie.
    """

    def fit(self, rows: Rows) -> View:
        """Learn the features' scale and that of the predictions."""
        self.features_ = Features().fit(rows.X)
        self.model_, self.spread_ = rows.model, rows.spread
        self.centre_ = float(np.median(rows.point))
        self.scale_ = typical_size(rows.point - self.centre_)
        return self

    def compute(self, rows: Rows) -> Array:
        """(n, columns) numbers."""
        columns = [self.features_(rows)]
        if self.model_ is not None:
            columns.append(self._in_units(self.model_(rows).point - self.centre_))
        if self.spread_ is not None:
            columns.append(self._in_units(self.spread_(rows)))
        return np.column_stack(columns)

    def _in_units(self, values: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.clip(values / self.scale_, -_FARTHEST_PREDICTION, _FARTHEST_PREDICTION)
