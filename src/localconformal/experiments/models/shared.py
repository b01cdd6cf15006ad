"""Base models that are fitted once and shared by all methods of a task.

Methods of the library clone and fit the models they are given, some of them on folds too. A
`SharedModel` looks up whether these very rows were fitted before, so that methods with the same
seed, and hence the same folds, share every fit. It is no frozen model: a method that needs scores
of rows that a model has not seen gets them, by the fits that left them out.
"""

from __future__ import annotations

from typing import Any

import joblib
from sklearn.base import BaseEstimator, RegressorMixin, clone

from localconformal.quantiles import Array


class Memory:
    """Fitted models by what they are and the rows that they were fitted to."""

    def __init__(self) -> None:
        self.fitted: dict[tuple[str, str], Any] = {}
        #: How often a model was trained, and not found.
        self.trained = 0

    def fit(self, name: str, model: Any, X: Array, y: Array) -> Any:
        """The model of this name fitted to these rows."""
        key = (name, joblib.hash((X, y)))
        if key not in self.fitted:
            self.fitted[key] = clone(model).fit(X, y)
            self.trained += 1
        return self.fitted[key]


class SharedModel(RegressorMixin, BaseEstimator):
    """A model whose clones share their fits.

    Parameters
    ----------
    name : str
        What tells this model from others of the same memory.
    model : estimator
    memory : Memory

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> memory, X = Memory(), np.arange(6.0)[:, None]
    >>> shared = SharedModel("mean", LinearRegression(), memory)
    >>> for _ in range(3):
    ...     _ = clone(shared).fit(X, X[:, 0])
    >>> memory.trained
    1
    """

    def __init__(self, name: str, model: Any, memory: Memory) -> None:
        self.name = name
        self.model = model
        self.memory = memory

    def __sklearn_clone__(self) -> SharedModel:
        """Another one with the same memory; scikit-learn would copy the memory."""
        return type(self)(self.name, self.model, self.memory)

    def fit(self, X: Any, y: Any) -> SharedModel:
        """Look the fit up, or make it."""
        self.regressor_ = self.memory.fit(self.name, self.model, X, y)
        return self

    def predict(self, X: Any) -> Any:
        """As the model does."""
        return self.regressor_.predict(X)


class SharedQuantiles(SharedModel):
    """The same for a model that answers ``predict(X, quantiles=[...])``."""

    def predict(self, X: Any, quantiles: Any = None) -> Any:
        """(n, L) for L levels."""
        return self.regressor_.predict(X, quantiles=quantiles)
