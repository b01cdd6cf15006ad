"""Point models that a blend is made of, quick ones of different kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.neural_network import MLPRegressor

from localconformal.laws.layers import activations
from localconformal.quantiles import Array

#: Widths of the Gaussian kernel, times the number of features.
GAMMAS = (0.02, 0.06, 0.2, 0.6, 2.0)
ALPHAS = np.logspace(-5, 2, 8)
#: One minus a leverage, at least: a row that fits itself tells nothing.
LEAST_FREE = 1e-10
#: Rows from which a network holds some out to know when to stop.
EARLY_STOPPING_FROM = 100
#: Rows on which a width is chosen, and landmarks there and at the end.
SEARCH_ROWS, SEARCH_LANDMARKS, LANDMARKS = 1000, 200, 500


class NystroemRidge(RegressorMixin, BaseEstimator):
    """Kernel ridge regression on landmarks; width and penalty by leave-one-out error.

    Examples
    --------
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = NystroemRidge(random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(3.0)) < 0.05)
    True
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> NystroemRidge:
        """Choose the width on some rows, fit on all."""
        X = np.asarray(X, dtype=np.float64)
        rows = np.random.default_rng(self.random_state).permutation(len(X))[:SEARCH_ROWS]
        errors = [self._solve(X[rows], y[rows], g, SEARCH_LANDMARKS)[2] for g in GAMMAS]
        self.gamma_ = GAMMAS[int(np.argmin(errors))]
        features, slopes, _ = self._solve(X, y, self.gamma_, LANDMARKS)
        # One weight a landmark, so that a prediction is one sum, row by row.
        self.landmarks_ = features.components_
        self.weights_ = features.normalization_.T @ slopes
        self.intercept_ = float(y.mean() - features.transform(X).mean(axis=0) @ slopes)
        return self

    def _solve(self, X: Array, y: Array, gamma: float, landmarks: int) -> tuple[Any, Array, float]:
        count = max(1, min(landmarks, len(X) // 2))
        features = Nystroem(
            gamma=gamma / X.shape[1], n_components=count, random_state=self.random_state
        ).fit(X)
        return features, *ridge(features.transform(X), y)

    def predict(self, X: Array) -> Array:
        """(n,) predictions."""
        width = self.gamma_ / self.landmarks_.shape[1]
        kernel = np.exp(-width * cdist(np.asarray(X), self.landmarks_, "sqeuclidean"))
        # Not a matrix product, whose last bits depend on the number of rows.
        return np.asarray((kernel * self.weights_).sum(axis=1) + self.intercept_)


def ridge(Z: Array, y: Array) -> tuple[Array, float]:
    """Slopes (p,) under the penalty of least squared leave-one-out error, and that error.

    With Z'Z = U diag(s) U' of centred columns and Q = Z U, the fit is Q (s + a)^-1 Q'y, its
    leverages are h = 1 / n + sum_j Q_ij^2 / (s_j + a), and a residual left out is r / (1 - h): one
    eigenproblem serves all penalties a.
    """
    Z, y = Z - Z.mean(axis=0), y - y.mean()
    s, U = np.linalg.eigh(Z.T @ Z)
    s, Q = np.maximum(s, 0.0), Z @ U
    squares, projected = Q**2, Q.T @ y
    best, chosen = np.inf, U[:, 0]
    for alpha in ALPHAS:
        shrunk = projected / (s + alpha)
        free = 1.0 - 1.0 / len(y) - squares @ (1.0 / (s + alpha))
        error = float(np.mean(((y - Q @ shrunk) / np.maximum(free, LEAST_FREE)) ** 2))
        if error < best:
            best, chosen = error, U @ shrunk
    return chosen, best


class Network(MLPRegressor):
    """A small network that answers each row by itself."""

    def fit(self, X: Array, y: Array) -> Network:
        """Stop early where enough rows can be held out to tell when."""
        self.set_params(early_stopping=len(y) >= EARLY_STOPPING_FROM)
        return super().fit(X, y)

    def _update_no_improvement_count(self, *args: Any) -> None:
        """Settled at the last epoch too: scikit-learn would warn, which is no news in a blend.

        A filter of warnings would be one for all threads.
        """
        super()._update_no_improvement_count(*args)
        if self.n_iter_ == self.max_iter:
            self._no_improvement_count = self.n_iter_no_change + 1

    def predict(self, X: Array) -> Array:
        """(n,) predictions."""
        return activations(self, X, len(self.coefs_))[:, 0]


def default_models(seed: int) -> dict[str, Any]:
    """A network, kernel ridge, boosting and extra trees."""
    return {
        "extra-trees": ExtraTreesRegressor(
            60, min_samples_leaf=2, max_features=0.8, random_state=seed
        ),
        "boosting": HistGradientBoostingRegressor(
            max_iter=200,
            learning_rate=0.08,
            max_leaf_nodes=24,
            max_features=0.7,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=seed,
        ),
        "kernel-ridge": NystroemRidge(random_state=seed),
        "network": Network(
            hidden_layer_sizes=(64, 64),
            alpha=1e-3,
            learning_rate_init=3e-3,
            n_iter_no_change=8,
            max_iter=150,
            random_state=seed,
        ),
    }
