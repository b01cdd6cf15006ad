"""The model of ``estimator=None``: gradient boosting that takes any table.

Arrays are passed to `HistGradientBoostingRegressor` unchanged. Frames become numbers: times in
seconds, labels as codes of categories. Missing values stay missing, which it handles.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from localconformal.columns import EMPTY, LABEL, split_columns
from localconformal.quantiles import Array
from localconformal.rows import is_frame

#: Most codes of a column of labels: as many as gradient boosting accepts.
_MOST_CODES = 255


class TableCodes(BaseEstimator):
    """Frames as numbers: numbers and times first, then codes of labels; arrays stay unchanged.

    Each of the most frequent labels has its own code, rarer labels of training rows share the last;
    labels that training rows do not have count as missing.

    >>> import pandas as pd
    >>> codes = TableCodes().fit(pd.DataFrame({"city": ["a", "b", "b"], "size": [1, 2, 3]}))
    >>> codes.transform(pd.DataFrame({"city": ["a", "z"], "size": [4, None]}))
    array([[ 4.,  1.],
           [nan, nan]])
    """

    kinds_: list[str] | None

    def fit(self, X: Any, y: Any = None) -> TableCodes:
        """Learn the kinds of columns, and the labels."""
        self.kinds_, self.codes_ = None, []
        if is_frame(X):
            _, labels, self.kinds_ = split_columns(X)
            self.codes_ = [_codes_of(column) for column in labels.T]
        return self

    def transform(self, X: Any) -> Any:
        """(n, columns) numbers."""
        if self.kinds_ is None:
            return X
        numbers, labels, _ = split_columns(X, self.kinds_)
        # Boosting rejects a column without any number.
        numbers[:, [kind == EMPTY for kind in self.kinds_ if kind != LABEL]] = 0.0
        columns = [
            [codes.get(label, np.nan) for label in column]
            for codes, column in zip(self.codes_, labels.T, strict=True)
        ]
        return np.column_stack([numbers, *columns])


def _codes_of(labels: NDArray[Any]) -> dict[str, float]:
    """Label -> code, the most frequent first; ties in the order of labels."""
    counts = Counter(label for label in labels if label is not None)
    ordered = sorted(counts, key=lambda label: (-counts[label], label))
    return {label: float(min(code, _MOST_CODES - 1)) for code, label in enumerate(ordered)}


@dataclass(eq=False, repr=False)
class TableBoostingRegressor(RegressorMixin, BaseEstimator):
    """HistGradientBoostingRegressor, also for frames with labels, times and missing values.

    Its parameters are passed on; ``regressor_`` is the fitted Pipeline, with `TableCodes` first.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"city": ["a", "b", None] * 30})
    >>> TableBoostingRegressor().fit(X, [1.0, 2.0, 3.0] * 30).predict(X[:3]).round(1)
    array([1., 2., 3.])
    """

    loss: str = "squared_error"
    quantile: float | None = None
    random_state: int | None = None

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> TableBoostingRegressor:
        """Learn how to read X, and fit the trees."""
        codes = TableCodes().fit(X)
        # Codes come after all numbers.
        mask = np.sort([kind == LABEL for kind in codes.kinds_ or []]).astype(bool)
        boosting = HistGradientBoostingRegressor(
            loss=self.loss,
            quantile=self.quantile,
            categorical_features=mask if mask.any() else None,
            random_state=self.random_state,
        )
        boosting.fit(codes.transform(X), y, sample_weight)
        self.regressor_ = Pipeline([("codes", codes), ("boosting", boosting)])
        validate_data(self, X, skip_check_array=True)
        return self

    def predict(self, X: Any) -> Array:
        """(n,) numbers."""
        check_is_fitted(self)
        if is_frame(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        return np.asarray(self.regressor_.predict(X))

    def __sklearn_tags__(self) -> Any:
        """Missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
