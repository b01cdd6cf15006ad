"""The centre of ``law="auto"``: an average of point models, weighted by their held-out error.

Every member predicts each training row without having seen it, except in the choice of a few
settings: boosting and the network by folds, kernel ridge by its leverages. Weights on the simplex
minimise the absolute error of the average. The response is in units of its own spread and on a
fine lattice, so that rounding errors of y, or of another machine, do not lead to different trees.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.neural_network import MLPRegressor
from sklearn.neural_network._base import ACTIVATIONS
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import LABEL, TIME, Features, split_columns
from localconformal.engine.trees import Bins, Boosting, in_parts
from localconformal.laws.base import fade, simplex_weights
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.rows import Curve, Index, Rows, fold_rows

EFFORTS = ("low", "default", "high")
#: Steps of the lattice in a unit of the response.
_LATTICE = 2.0**20
#: Responses are clipped at 10 times the 99 % quantile of the distance from the median.
_FAR, _USUAL = 10.0, 0.99
#: Above this number of rows there are fewer folds: folds for few rows, and for many.
_MANY, _FOLDS = 5_000, (5, 3)
#: Most rows that boosting and kernel ridge learn from; all rows get predictions.
_MOST_ROWS, _RIDGE_ROWS = 100_000, 6_000
#: Members whose error exceeds the best by more than this share are dropped after their first fold:
#: the share for boosting, for the others, and a slack for small folds.
_NEAR, _HOPELESS, _SLACK_ROWS = 0.1, 0.2, 30.0
#: Most rows on which weights are learned.
_WEIGHED = 10_000
#: Features are clipped at this many standard deviations.
_FARTHEST = 5.0
#: Seconds of a day, a week and a year.
_PERIODS = (86_400.0, 604_800.0, 31_556_952.0)
#: A row of more than one dimension is flattened to features if it has at most this many numbers.
_FLATTENED_UP_TO = 1_000
#: Widths of the Gaussian kernel, times the number of features; penalties of ridge regression.
_GAMMAS, _ALPHAS = (0.02, 0.06, 0.2, 0.6, 2.0, 6.0), np.logspace(-5, 2, 8)
#: Rows on which the width is chosen, landmarks for that, and landmarks of the final fit.
_SEARCH_ROWS, _SEARCH_LANDMARKS, _LANDMARKS = 1_500, 250, 500
#: Most rounds of stretching; the share by which the error must fall to continue; the smallest
#: stretch of a column that is used, in units of the root mean square.
_STRETCHES, _WORTH, _LEAST_STRETCH = 5, 0.01, 0.01
#: Lower limit of one minus a leverage: a row that only fits itself says nothing.
_LEAST_FREE = 1e-10
_NETWORK = {"hidden_layer_sizes": (64, 64), "alpha": 1e-3, "learning_rate_init": 3e-3}
_NETWORK |= {"n_iter_no_change": 8, "max_iter": 150}
#: Most rows for which a network is fitted, by effort.
_NETWORK_ROWS = {"low": 0, "default": 5_000, "high": 20_000}
#: Fewest rows for which a network stops early, on a held-out share.
_EARLY_STOPPING_FROM = 100


def on_lattice(values: Array) -> Array:
    """The nearest points of the lattice."""
    return np.asarray(np.round(values * _LATTICE) / _LATTICE)


@dataclass(frozen=True)
class Units:
    """The response in units of its spread, and a monotone map g of it.

    g = log(z + c) with a small c > 0 if y has no negative values; else asinh about the median.
    """

    centre: float
    unit: float
    far: float
    positive: bool
    offset: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, y: Array) -> Units:
        """From the responses of training rows; a few outliers do not affect the unit."""
        centre = float(np.median(y))
        distances = np.abs(y - centre)
        far = _FAR * float(np.quantile(distances, _USUAL, method="lower")) or float(distances.max())
        unit = float(np.minimum(distances, far).mean()) or 1.0
        positive = bool(y.min() >= 0.0 and y.max() > 0.0)
        offset = (centre + float(np.quantile(y[y > 0.0], 0.01))) / unit if positive else 0.0
        made = cls(centre, unit, far / unit, positive, offset, (-np.inf, np.inf))
        g = made.to_g((y - centre) / unit)
        spread = float(g.std())
        return replace(made, ends=(g.min() - spread, g.max() + spread))

    def to_target(self, z: Array) -> Array:
        """The target of models with squared error: responses in units, clipped."""
        return np.clip(z, -self.far, self.far)

    def to_z(self, y: Array) -> Array:
        """In units, on the lattice."""
        return on_lattice((y - self.centre) / self.unit)

    def to_y(self, z: Array) -> Array:
        """From units back to the response."""
        return np.asarray(self.centre + self.unit * z)

    def to_g(self, z: Array) -> Array:
        """g; if y has no negative values, values far below zero are clipped."""
        if not self.positive:
            return np.arcsinh(z)
        low = np.exp(self.ends[0]) if np.isfinite(self.ends[0]) else 0.0
        return np.log(np.maximum(z + self.offset, max(low, 1e-300)))

    def from_g(self, g: Array) -> Array:
        """The inverse of g, clipped one spread beyond the training rows."""
        g = np.clip(g, *self.ends)
        return np.asarray(np.exp(g) - self.offset if self.positive else np.sinh(g))


# ---- members ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Centre:
    """Fitted models of the response, or of g, on a view of the rows: their mean prediction."""

    models: tuple[Any, ...]
    view: str
    units: Units | None

    def answer(self, X: Any, n_jobs: int | None) -> Array:
        """(n,) numbers, in units."""
        out = np.empty(len(X))

        def one(part: slice) -> None:
            out[part] = self.back(np.mean([each.predict(X[part]) for each in self.models], axis=0))

        in_parts(one, len(X), n_jobs)
        return out

    def back(self, answer: Array) -> Array:
        """A model's prediction on the scale of the response."""
        return answer if self.units is None else self.units.from_g(answer)


class _Member:
    """A centre being fitted: how to make models, and the held-out predictions so far."""

    def __init__(self, make: Any, view: str, target: Array, units: Units | None = None) -> None:
        self.make, self.target, self.centre = make, target, _Centre((), view, units)
        self.held = np.full(len(target), np.nan)

    @property
    def by_folds(self) -> bool:
        """Whether it needs folds: other models compute held-out predictions themselves."""
        return not hasattr(self.make, "fit_held_out")

    def fit(self, X: Any, rest: Index, fold: Index) -> tuple[Any, Index, Array]:
        """A model fitted to the rest, the rows it predicts held out (the fold), and predictions.

        A model that computes held-out predictions itself is fitted to both, and predicts both.
        """
        if not self.by_folds:
            both = np.sort(np.concatenate([rest, fold]))
            model, answers, known = self.make.fit_held_out(X[both], self.target[both])
            return model, both[known], answers
        held_out = (X[fold], self.target[fold]) if isinstance(self.make, Boosting) else ()
        model = copy(self.make).fit(X[rest], self.target[rest], *held_out)
        return model, fold, self.centre.back(model.predict(X[fold]))

    def add(self, model: Any, rows: Index, answers: Array) -> None:
        """Add a model and its predictions."""
        self.centre = replace(self.centre, models=(*self.centre.models, model))
        self.held[rows] = answers


class _Columns(Features):
    """Features, and for times the elapsed share of the day, the week and the year."""

    def transform(self, X: Any) -> Array:
        points = super().transform(X)
        if TIME not in self.kinds_:
            return points
        numbers = split_columns(X, self.kinds_)[0]
        times = numbers[:, [kind == TIME for kind in self.kinds_ if kind != LABEL]]
        passed = [np.nan_to_num(times % period / period, nan=0.5) for period in _PERIODS]
        return np.hstack([points, *passed])


class _Codes(Curve):
    """Columns in bins, one byte each: the inputs of trees."""

    def __init__(self, rows: Rows, seed: int) -> None:
        self.features = _Columns().fit(rows.X)
        self.bins = Bins().fit(self.features(rows), 255, seed)

    def compute(self, rows: Rows) -> Any:
        return self.bins.codes(self.features(rows))


@dataclass(eq=False, repr=False)
class BlendedRegressor(Curve, RegressorMixin, BaseEstimator):
    """m(x): boosting, boosting of a transformed response, kernel ridge and a network, averaged.

    Parameters
    ----------
    effort : {"low", "default", "high"}, default="default"
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one per core.

    Attributes
    ----------
    weights_ : dict
        Weight of each member.
    errors_ : dict
        Mean absolute error of each on held-out rows.
    dropped_ : dict
        Why the others were left out.
    oob_prediction_ : array of shape (n,)
        Held-out predictions for the training rows.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = BlendedRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(3.0)) < 0.05)
    True
    """

    effort: str = "default"
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: ArrayLike, own: Array | None = None) -> BlendedRegressor:
        """Fit the members; ``own`` (n,), held-out predictions of the user's model, are one more."""
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        y = np.asarray(y, dtype=np.float64)
        self.units_ = units = Units.of(y)
        z, n = units.to_target(units.to_z(y)), len(y)
        self.errors_: dict[str, float] = {}
        self.dropped_: dict[str, str] = {}
        self.readable_, members = _is_readable(X), dict[str, _Member]()
        if self.readable_:
            self.codes_, rows = _Codes(Rows(X), seed), Rows(X)
            views = {name: self._view(name, rows) for name in ("codes", "box")}
            members = self._fit_members(views, z, seed) if n > 1 else {}
        held = {} if own is None else {"own model": units.to_z(own)}
        held |= {name: member.held for name, member in members.items()}
        errors = {name: float(np.abs(z - m).mean()) for name, m in held.items()}
        self.errors_.update({name: error * units.unit for name, error in errors.items()})
        self.weights_ = _weigh(held, z, seed) if held else {}
        self.centres_ = {name: m.centre for name, m in members.items() if name in self.weights_}
        blend = sum((w * held[name] for name, w in self.weights_.items()), np.zeros(n))
        self.held_out_ = on_lattice(np.asarray(blend))
        self.oob_prediction_ = units.to_y(self.held_out_)
        return self

    def _fit_members(self, views: dict[str, Any], z: Array, seed: int) -> dict[str, _Member]:
        """Held-out predictions of all members, except those dropped after the first fold."""
        n, members = len(z), self._members(z, views["codes"].shape[1], seed)
        drawn = np.sort(np.random.default_rng(seed).permutation(n)[:_MOST_ROWS])
        n_folds = {"low": 2, "high": 8}.get(self.effort, _FOLDS[n > _MANY])
        folds = [(drawn[a], drawn[b]) for a, b in fold_rows(len(drawn), n_folds, seed)]
        self._fit_side_by_side(list(members.values()), folds[:1], views)
        self._answer_others(members, views, folds[0][1])
        self._drop_hopeless(members, z, folds[0][1])
        self._fit_side_by_side([m for m in members.values() if m.by_folds], folds[1:], views)
        self._answer_others(members, views, np.arange(n))
        for member in members.values():
            member.held = on_lattice(member.held)
        return members

    def _members(self, z: Array, n_columns: int, seed: int) -> dict[str, _Member]:
        n, g = len(z), self.units_.to_g(z)
        spread = float(np.abs(g - np.median(g)).mean()) or 1.0
        boosting = _boosting(n, n_columns, seed)
        members = {
            "boosting": _Member(boosting, "codes", z),
            "boosting of g": _Member(
                boosting, "codes", on_lattice(g / spread) * spread, self.units_
            ),
            "kernel ridge": _Member(NystroemRidge(seed), "box", z),
        }
        if n <= _NETWORK_ROWS[self.effort]:
            members["network"] = _Member(Network(random_state=seed, **_NETWORK), "box", z)
        return members

    def _fit_side_by_side(self, members: list[_Member], folds: list[Any], views: Any) -> None:
        places = [(member, fold) for member in members for fold in folds]
        tasks = [partial(m.fit, views[m.centre.view], *fold) for m, fold in places]
        for (member, _), found in zip(places, in_threads(tasks, self.n_jobs), strict=True):
            member.add(*found)

    def _answer_others(self, members: dict[str, _Member], views: Any, rows: Index) -> None:
        """Predict rows that no model was fitted on: all models have them held out."""
        for member in members.values():
            unseen = rows[np.isnan(member.held[rows])]
            if len(unseen):
                view = views[member.centre.view][unseen]
                member.held[unseen] = member.centre.answer(view, self.n_jobs)

    def _drop_hopeless(self, members: dict[str, _Member], z: Array, fold: Index) -> None:
        """Drop those that are far worse than the best on the first fold."""
        errors = {name: np.abs(z[fold] - m.held[fold]).mean() for name, m in members.items()}
        best, slack = min(errors.values()), _SLACK_ROWS / len(fold)
        for name, error in errors.items():
            most = _NEAR if name.startswith("boosting") else _HOPELESS
            if error > (1.0 + most + slack) * best:
                del members[name]
                self.errors_[name] = float(error) * self.units_.unit
                self.dropped_[name] = "dropped after the first fold; the loss is of that fold"

    # ---- predicting ---------------------------------------------------------------------------

    def _view(self, name: str, rows: Rows) -> Any:
        """The inputs of members: columns in bins, or clipped points."""
        if name == "codes":
            return self.codes_(rows)
        return np.clip(self.codes_.features(rows), -_FARTHEST, _FARTHEST)

    def answer(self, rows: Rows, own: Array | None = None) -> Array:
        """m in units of the response, on the lattice: (n,)."""
        total = np.zeros(len(rows))
        if own is not None:
            total += self.weights_.get("own model", 0.0) * self.units_.to_z(own)
        views = {one: self._view(one, rows) for one in {c.view for c in self.centres_.values()}}
        for name, centre in self.centres_.items():
            total += self.weights_[name] * centre.answer(views[centre.view], self.n_jobs)
        return on_lattice(total)

    def forget(self) -> None:
        """Drop the predictions at training rows, which the law no longer needs."""
        self.oob_prediction_ = self.held_out_ = np.empty(0)

    def predict(self, X: Any) -> Array:
        """(n,) numbers."""
        check_is_fitted(self)
        return self.compute(Rows(X))

    def compute(self, rows: Rows) -> Array:
        """The same for rows that may already hold their bins."""
        return self.units_.to_y(self.answer(rows))


def _is_readable(X: Any) -> bool:
    """Whether rows are features: images and texts are left to the user's own model."""
    return prod(np.shape(X)[1:]) <= _FLATTENED_UP_TO or len(np.shape(X)) == 2


def _weigh(held: dict[str, Array], z: Array, seed: int) -> dict[str, float]:
    """Weights that minimise the absolute error on a sample of rows; small ones become 0."""
    some = np.random.default_rng(seed).permutation(len(z))[:_WEIGHED]
    table = np.stack([m[some] for m in held.values()])[:, :, None]
    kept = fade(simplex_weights(table, z[some], np.array([0.5])))
    return {name: float(w) for name, w in zip(held, kept, strict=True) if w > 0.0}


# ---- models -------------------------------------------------------------------------------------


def _boosting(n: int, n_columns: int, seed: int) -> Boosting:
    """With many rows, trees and steps are larger, and there are fewer of them."""
    many = n > 2 * _MANY
    return Boosting(
        rate=0.15 if many else 0.1,
        most_steps=250 if many else 500,
        leaves=int(np.clip(n / 150, 32, 128)),
        share=float(np.clip(24 / n_columns, 0.2, 0.6)),
        seed=seed,
    )


class NystroemRidge:
    """Kernel ridge regression on landmarks, with columns weighted by how much they matter.

    The slopes of a first fit stretch the columns of the next one, and so on while the leave-one-out
    error falls: a recursive feature machine (Radhakrishnan et al., 2024) with a diagonal metric.
    Width and penalty minimise the leave-one-out error.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit_held_out(self, X: Array, y: Array) -> tuple[NystroemRidge, Array, Index]:
        """Choose distances on some rows, fit on more; return self, held-out predictions, rows."""
        rows = np.random.default_rng(self.seed).permutation(len(X))[:_RIDGE_ROWS]
        some = rows[:_SEARCH_ROWS]
        self._place(*self._search(X[some], y[some]))
        held, _ = self._solve(X[rows], y[rows], _LANDMARKS)
        return self, held, rows

    def _place(self, stretch: Array, gamma: float) -> None:
        """Set the distances; columns that hardly matter are left out."""
        self.columns_ = np.flatnonzero(stretch > _LEAST_STRETCH)
        self.stretch_, self.width_ = stretch[self.columns_], gamma / len(stretch)

    def _search(self, X: Array, y: Array) -> tuple[Array, float]:
        """Stretches (d,), about 1, and the width of the kernel."""
        stretch, best, found = np.ones(X.shape[1]), np.inf, (np.ones(X.shape[1]), _GAMMAS[0])
        tried: Any = range(len(_GAMMAS))
        for step in range(_STRETCHES):
            # The leave-one-out error ignores that stretches are parameters: add 2 / n for each.
            price = 1.0 + 2.0 * X.shape[1] / len(X) if step else 1.0
            errors = {}
            for k in tried:
                self._place(stretch, _GAMMAS[k])
                errors[k] = price * self._solve(X, y, _SEARCH_LANDMARKS)[1]
            k = min(errors, key=lambda k: errors[k])
            if errors[k] >= (1.0 - _WORTH) * best:
                break
            best, found = errors[k], (stretch, _GAMMAS[k])
            self._place(*found)
            self._solve(X, y, _SEARCH_LANDMARKS)
            slopes = self._slopes(X)
            if not slopes.any():
                break
            stretch = slopes / np.sqrt(np.mean(slopes**2))
            # The next width is near this one.
            tried = range(max(k - 1, 0), min(k + 2, len(_GAMMAS)))
        return found

    def _solve(self, X: Array, y: Array, landmarks: int) -> tuple[Array, float]:
        """Fit with these distances: leave-one-out predictions, and their mean squared error."""
        Z, count = self._stretched(X), max(1, min(landmarks, len(X) // 2))
        features = Nystroem(gamma=self.width_, n_components=count, random_state=self.seed).fit(Z)
        slopes, held, error = _ridge(features.transform(Z), y)
        # One weight per landmark, so a prediction is one sum, row by row.
        self.landmarks_ = features.components_
        self.weights_ = features.normalization_.T @ slopes
        self.intercept_ = 0.0
        self.intercept_ = float(np.mean(y - self.predict(X)))
        return held, error

    def _stretched(self, X: Array) -> Array:
        return np.asarray(X[:, self.columns_] * self.stretch_)

    def _slopes(self, X: Array) -> Array:
        """Root of the mean squared slope along each column of X, at its rows: (d,)."""
        Z, out = self._stretched(X), np.zeros(X.shape[1])
        terms = np.exp(-self.width_ * cdist(Z, self.landmarks_, "sqeuclidean")) * self.weights_
        along = Z * terms.sum(axis=1, keepdims=True) - terms @ self.landmarks_
        out[self.columns_] = self.stretch_ * np.sqrt(np.mean(along**2, axis=0))
        return out

    def predict(self, X: Array) -> Array:
        """(n,) numbers."""
        kernel = cdist(self._stretched(X), self.landmarks_, "sqeuclidean")
        # In place, which is faster, and not a matrix product, whose last bits depend on the rows.
        kernel *= -self.width_
        np.exp(kernel, out=kernel)
        kernel *= self.weights_
        return np.asarray(kernel.sum(axis=1) + self.intercept_)


def _ridge(Z: Array, y: Array) -> tuple[Array, Array, float]:
    """Slopes (p,), leave-one-out predictions and their error, at the penalty where it is smallest.

    With Z'Z = U diag(s) U' of centred columns and Q = Z U, the fit is Q (s + a)^-1 Q'y, its
    leverages are h = 1 / n + sum_j Q_ij^2 / (s_j + a), and a leave-one-out residual is r / (1 - h):
    one eigenproblem serves all penalties a.
    """
    Z, centred = Z - Z.mean(axis=0), y - y.mean()
    s, U = np.linalg.eigh(Z.T @ Z)
    s, Q = np.maximum(s, 0.0), Z @ U
    squares, projected = Q**2, Q.T @ centred
    best, chosen, held = np.inf, U[:, 0], y
    for alpha in _ALPHAS:
        shrunk = projected / (s + alpha)
        free = 1.0 - 1.0 / len(y) - squares @ (1.0 / (s + alpha))
        left_out = (centred - Q @ shrunk) / np.maximum(free, _LEAST_FREE)
        error = float(np.mean(left_out**2))
        if error < best:
            best, chosen, held = error, U @ shrunk, y - left_out
    return chosen, held, best


class Network(MLPRegressor):
    """A small network whose prediction for a row does not depend on the batch."""

    def fit(self, X: Array, y: Array) -> Network:
        """Stop early if there are enough rows to hold some out."""
        self.set_params(early_stopping=len(y) >= _EARLY_STOPPING_FROM)
        return super().fit(X, y)

    def _update_no_improvement_count(self, *args: Any) -> None:
        """Count the last epoch as converged: scikit-learn's warning is no help in a blend.

        A warnings filter would affect all threads.
        """
        super()._update_no_improvement_count(*args)
        if self.n_iter_ == self.max_iter:
            self._no_improvement_count = self.n_iter_no_change + 1

    def predict(self, X: Array) -> Array:
        """(n,) predictions."""
        return activations(self, X, len(self.coefs_))[:, 0]


def activations(network: Any, X: Any, layers: int) -> Array:
    """Activations after this many layers of a fitted network, row by row."""
    values, last = np.asarray(X, dtype=np.float64), len(network.coefs_) - 1
    for k in range(layers):
        # Not a matrix product, whose last bits depend on the number of rows.
        values = np.einsum("ij,jk->ik", values, network.coefs_[k]) + network.intercepts_[k]
        if k < last:
            # In place.
            ACTIVATIONS[network.activation](values)
    return values
