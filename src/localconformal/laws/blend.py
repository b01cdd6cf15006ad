"""Point models inside a law: a blend of several, and the law of what it leaves over."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import Features
from localconformal.laws.embeddings import activations
from localconformal.laws.stacked import prune, simplex_weights
from localconformal.laws.transformed import TransformedLaw, check_residual
from localconformal.parallel import FEW_ROWS, in_threads
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Curve, Rows, fit_model, fold_rows, predict_column
from localconformal.scores import Band

_N_FOLDS = 3
#: Models below this weight are left out: they cost more than they bring.
_MIN_WEIGHT = 0.05
#: Features further out than this many standard deviations count as this far.
_FARTHEST = 5.0
#: Widths of the Gaussian kernel, times the number of features.
_GAMMAS = (0.02, 0.06, 0.2, 0.6, 2.0)
_ALPHAS = np.logspace(-5, 2, 8)
#: One minus a leverage, at least: a row that fits itself tells nothing.
_LEAST_FREE = 1e-10
#: Rows from which a network holds some out to know when to stop.
_EARLY_STOPPING_FROM = 100
#: Rows on which a width is chosen, and landmarks there and at the end.
_SEARCH_ROWS, _SEARCH_LANDMARKS, _LANDMARKS = 1000, 200, 500


class ShiftedLaw(TransformedLaw):
    """V = m(x) - mu(x) + W: the law of the residual of a blend m of several point models.

    Where other models know more of y than the regressor's own, its residuals have a local mean
    that a law can learn: m is the convex combination of mu and the models here that has the
    least absolute error at rows they have not seen. The interval moves to where y is; `predict`
    remains the regressor's own.

    Parameters
    ----------
    law : str or law, default=None
        Law of W; None is the uniform law.
    models : mapping of str to estimators, default=None
        Point models to blend, fed with standardised features. None is a network, kernel ridge,
        boosting and extra trees.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Attributes
    ----------
    weights_ : dict
        Weight of each model in the blend; "point" is the regressor's own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.linspace(0, 1, 90)[:, None]
    >>> law = ShiftedLaw(models={"line": LinearRegression()}, random_state=0).fit(X, 3 * X[:, 0])
    >>> law.quantile([[0.5]], [0.5]).round(2)
    array([[1.5]])
    """

    def __init__(
        self,
        law: Any = None,
        models: Mapping[str, Any] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.law = law
        self.models = models
        self.random_state = random_state
        self.n_jobs = n_jobs

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Location m - mu; laws of W see the blend as their point model."""
        check_residual(rows, v, type(self).__name__)
        models = default_models(seed) if self.models is None else _check_models(self.models)
        self.model_, self.blend_ = rows.model, Blend().fit(models, rows, v, seed, self.n_jobs)
        return rows.of(self.blend_)

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location m - mu, scale 1."""
        shift = self.blend_(rows).point - rows.of(self.model_).point
        return shift, np.ones(len(rows))

    @property
    def weights_(self) -> dict[str, float]:
        """Weight of each model in the blend."""
        check_is_fitted(self, "blend_")
        return dict(self.blend_.weights_)


class Blend(Curve):
    """m(x): mu(x) and other models, averaged with fixed weights; a model is its folds' mean."""

    def fit(
        self, models: Mapping[str, Any], rows: Rows, v: Array, seed: int, n_jobs: int | None
    ) -> Blend:
        """From reference rows, which know the answer of models that have not seen them."""
        y = rows.response(v)
        self.n_jobs_, self.point_ = n_jobs, rows.model
        self.model_ = getattr(rows.model, "model_", None)
        self.features_ = Features().fit(rows.X)
        points = _clip(self.features_(rows))
        # In units of their own, y of any size is learned alike.
        self.centre_ = float(np.median(y))
        self.unit_ = typical_size(y - self.centre_)
        target = (y - self.centre_) / self.unit_
        folds = fold_rows(len(y), _N_FOLDS, seed) if len(y) > 1 else []
        places = [(name, rest, fold) for name in models for rest, fold in folds]
        fits = [
            partial(fit_model, models[name], points[rest], target[rest]) for name, rest, _ in places
        ]
        fitted: dict[str, list[Any]] = {}
        held_out = {"point": rows.point}
        for (name, _, fold), part in zip(places, in_threads(fits, n_jobs), strict=True):
            fitted.setdefault(name, []).append(part)
            table = held_out.setdefault(name, np.empty(len(y)))
            table[fold] = self.centre_ + self.unit_ * predict_column(part, points[fold])
        weights = _blend_weights(held_out, y)
        self.models_ = {name: fitted[name] for name in weights if name != "point"}
        self.weights_ = {"point": 0.0, **weights}
        known = sum(weight * held_out[name] for name, weight in weights.items())
        rows.known[self] = Band.around(np.asarray(known))
        return self

    def compute(self, rows: Rows) -> Band:
        """A band of no width around m(x)."""
        total = self.weights_["point"] * rows.of(self.point_).point
        points = _clip(self.features_(rows)) if self.models_ else None
        tasks = [(name, model) for name, folds in self.models_.items() for model in folds]
        asked = [partial(predict_column, model, points) for _, model in tasks]
        answers = in_threads(asked, self.n_jobs_ if len(rows) > FEW_ROWS else 1)
        for (name, _), answer in zip(tasks, answers, strict=True):
            share = self.weights_[name] / len(self.models_[name])
            total = total + share * (self.centre_ + self.unit_ * answer)
        return Band.around(np.asarray(total))


def _blend_weights(predictions: dict[str, Array], y: Array) -> dict[str, float]:
    """Weights by absolute error, the small ones left out."""
    table = np.stack(list(predictions.values()))[:, :, None]
    weights = simplex_weights(table, y, np.array([0.5]))
    kept = prune(weights, _MIN_WEIGHT)
    return {name: float(w) for name, w in zip(predictions, kept, strict=True) if w > 0.0}


def _clip(points: Array) -> Array:
    """Points within a box: models of any kind stay sane far outside."""
    return np.clip(points, -_FARTHEST, _FARTHEST)


def _check_models(models: Any) -> Mapping[str, Any]:
    """Estimators by name, or refused."""
    named = isinstance(models, Mapping) and all(hasattr(m, "fit") for m in models.values())
    if not named or "point" in models:
        raise ValueError(
            f"got models={models!r}; expected estimators by name, such as {{'ridge': Ridge()}}, "
            "none of them called 'point', which is the regressor's own."
        )
    return models


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
        rows = np.random.default_rng(self.random_state).permutation(len(X))[:_SEARCH_ROWS]
        errors = [self._solve(X[rows], y[rows], g, _SEARCH_LANDMARKS)[2] for g in _GAMMAS]
        self.gamma_ = _GAMMAS[int(np.argmin(errors))]
        features, slopes, _ = self._solve(X, y, self.gamma_, _LANDMARKS)
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
        return features, *_ridge(features.transform(X), y)

    def predict(self, X: Array) -> Array:
        """(n,) predictions."""
        width = self.gamma_ / self.landmarks_.shape[1]
        kernel = np.exp(-width * cdist(np.asarray(X), self.landmarks_, "sqeuclidean"))
        # Not a matrix product, whose last bits depend on the number of rows.
        return np.asarray((kernel * self.weights_).sum(axis=1) + self.intercept_)


def _ridge(Z: Array, y: Array) -> tuple[Array, float]:
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
    for alpha in _ALPHAS:
        shrunk = projected / (s + alpha)
        free = 1.0 - 1.0 / len(y) - squares @ (1.0 / (s + alpha))
        error = float(np.mean(((y - Q @ shrunk) / np.maximum(free, _LEAST_FREE)) ** 2))
        if error < best:
            best, chosen = error, U @ shrunk
    return chosen, best


class Network(MLPRegressor):
    """A small network that answers each row by itself."""

    def fit(self, X: Array, y: Array) -> Network:
        """Stop early where enough rows can be held out to tell when."""
        self.set_params(early_stopping=len(y) >= _EARLY_STOPPING_FROM)
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
