"""What ``law="auto"`` calls its centre: point models averaged by how they do on rows held out.

Every member answers for each training row as a model that has not seen it: boosting and the network
fold by fold, kernel ridge by its leverages, extra trees out of bag. Weights on the simplex minimise
the absolute error of the average. All of it happens on a response in units of its own spread and on
a fine lattice: a rounding error of y, or of another machine, does not grow into another tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.neural_network import MLPRegressor
from sklearn.utils.validation import check_is_fitted

from localconformal.columns import Features
from localconformal.engine.boosting import Boosting
from localconformal.engine.trees import Bins, Forest
from localconformal.laws.embeddings import activations
from localconformal.laws.stacked import simplex_weights
from localconformal.parallel import FEW_ROWS, in_threads
from localconformal.quantiles import Array
from localconformal.rows import Index, Rows, fold_rows

EFFORTS = ("low", "default", "high")
#: Steps of the lattice in a unit of the response.
_LATTICE = 2.0**20
#: Rows from which two folds do, as models of half the rows are nearly as good.
_MANY = 5_000
#: Rows that boosting learns from at most, and kernel ridge; all are answered.
_MOST_ROWS, _RIDGE_ROWS = 100_000, 20_000
#: Members whose error exceeds the best by more are dropped after their first fold: a booster beside
#: another one, and anyone. With few rows one fold does not tell.
_NEAR, _HOPELESS, _SLACK_ROWS = 0.1, 0.2, 30.0
#: Rows on which weights are found at most.
_WEIGHED = 10_000
#: Weights below this vanish, gradually from twice as much on.
_LEAST_WEIGHT = 0.05
#: Features further out than this many standard deviations count as this far.
_FARTHEST = 5.0
#: Numbers in a row of more than one dimension up to which they are taken for features.
_FLATTENED_UP_TO = 1_000
#: Widths of the Gaussian kernel, times the number of features; penalties of ridge regression.
_GAMMAS, _ALPHAS = (0.02, 0.06, 0.2, 0.6, 2.0), np.logspace(-5, 2, 8)
#: Rows on which a width is chosen, and landmarks there and at the end.
_SEARCH_ROWS, _SEARCH_LANDMARKS, _LANDMARKS = 1_000, 200, 500
#: One minus a leverage, at least: a row that fits itself tells nothing.
_LEAST_FREE = 1e-10
#: Rows from which a network holds some out to know when to stop.
_EARLY_STOPPING_FROM = 100


def on_lattice(values: Array) -> Array:
    """The nearest points of the lattice."""
    return np.asarray(np.round(values * _LATTICE) / _LATTICE)


@dataclass(frozen=True)
class Units:
    """The response in units of its spread, and a monotone map g of it.

    g = log(z + c) where y has no negative values, with a small c > 0; else asinh about the median.
    """

    centre: float
    unit: float
    positive: bool
    offset: float
    ends: tuple[float, float]

    @classmethod
    def of(cls, y: Array) -> Units:
        """From the responses of training rows."""
        centre = float(np.median(y))
        unit = float(np.abs(y - centre).mean()) or 1.0
        positive = bool(y.min() >= 0.0 and y.max() > 0.0)
        offset = (centre + float(np.quantile(y[y > 0.0], 0.01))) / unit if positive else 0.0
        made = cls(centre, unit, positive, offset, (-np.inf, np.inf))
        g = made.to_g((y - centre) / unit)
        spread = float(g.std())
        return cls(centre, unit, positive, offset, (g.min() - spread, g.max() + spread))

    def to_z(self, y: Array) -> Array:
        """In units, on the lattice."""
        return on_lattice((y - self.centre) / self.unit)

    def to_y(self, z: Array) -> Array:
        """In units -> as given."""
        return np.asarray(self.centre + self.unit * z)

    def to_g(self, z: Array) -> Array:
        """g; far below zero a response without negative values counts as its smallest."""
        if not self.positive:
            return np.arcsinh(z)
        low = np.exp(self.ends[0]) if np.isfinite(self.ends[0]) else 0.0
        return np.log(np.maximum(z + self.offset, max(low, 1e-300)))

    def from_g(self, g: Array) -> Array:
        """The inverse of g, within a spread of what training rows have."""
        g = np.clip(g, *self.ends)
        return np.asarray(np.exp(g) - self.offset if self.positive else np.sinh(g))


# ---- members ------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Member:
    """A model of the response on one view of the rows; ``held`` are its held-out answers."""

    make: Callable[[], Any]
    view: str
    target: Array
    units: Units | None = None
    by_folds: bool = True
    refits: bool = True
    models: list[Any] = field(default_factory=list)
    held: Array = field(default_factory=lambda: np.empty(0))

    def fit_fold(self, X: Any, rest: Index, fold: Index) -> tuple[Any, Array]:
        """The model of the rest, and its answers for the fold."""
        model, held_out = self.make(), (X[fold], self.target[fold])
        extra = (held_out,) if isinstance(model, Boosting) else ()
        model.fit(X[rest], self.target[rest], *extra)
        return model, self.back(model.predict(X[fold]))

    def fit_all(self, X: Any, rows: Index) -> None:
        """One fit on all rows; its ``held_out_`` answers where it has them."""
        model = self.make()
        if isinstance(model, Boosting):
            model.most_steps = int(1.1 * np.mean([one.steps_ for one in self.models])) + 1
        self.models = [model.fit(X[rows], self.target[rows])]

    def back(self, answer: Array) -> Array:
        return answer if self.units is None else self.units.from_g(answer)

    def answer(self, X: Any) -> Array:
        """The mean of the models' answers: (n,)."""
        return self.back(np.mean([model.predict(X) for model in self.models], axis=0))


class BlendedRegressor(RegressorMixin, BaseEstimator):
    """m(x): boosting, boosting of a transformed response, kernel ridge, trees, a network, averaged.

    Parameters
    ----------
    effort : {"low", "default", "high"}, default="default"
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one for each core.

    Attributes
    ----------
    weights_ : dict
        Weight of each member.
    errors_ : dict
        Mean absolute error of each at rows held out.
    dropped_ : dict
        Why the others were left out.
    oob_prediction_ : array of shape (n,)
        The average at the training rows, held out.

    Examples
    --------
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = BlendedRegressor(random_state=0).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(abs(model.predict([[0.5]])[0] - np.sin(3.0)) < 0.05)
    True
    """

    def __init__(
        self, effort: str = "default", random_state: Any = None, n_jobs: int | None = None
    ) -> None:
        self.effort = effort
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: ArrayLike, own: Array | None = None) -> BlendedRegressor:
        """``own`` (n,) are held-out answers of the user's own model, which is a member then."""
        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        y = np.asarray(y, dtype=np.float64)
        self.units_ = units = Units.of(y)
        z, n = units.to_z(y), len(y)
        self.errors_: dict[str, float] = {}
        self.dropped_: dict[str, str] = {}
        held: dict[str, Array] = {}
        if own is not None:
            held["own model"] = units.to_z(own)
        self.readable_ = _is_readable(X)
        views = self._fit_views(X) if self.readable_ else {}
        drawn = np.sort(np.random.default_rng(seed).permutation(n)[:_MOST_ROWS])
        members = self._members(z, seed, views) if self.readable_ and n > 1 else {}
        self._fit_members(members, views, z, drawn, seed)
        held.update({name: member.held for name, member in members.items()})
        self.errors_.update(
            {name: float(np.abs(z - m).mean()) * units.unit for name, m in held.items()}
        )
        self.weights_ = _weigh(held, z, seed) if held else {}
        self.members_ = {name: m for name, m in members.items() if name in self.weights_}
        few = n <= _MANY or self.effort == "high"
        refits = [
            partial(m.fit_all, views[m.view], drawn)
            for m in self.members_.values()
            if m.by_folds and m.refits and few
        ]
        in_threads(refits, self.n_jobs)
        blend = sum((w * held[name] for name, w in self.weights_.items()), np.zeros(n))
        self.held_out_ = on_lattice(np.asarray(blend))
        self.oob_prediction_ = units.to_y(self.held_out_)
        for member in self.members_.values():
            member.held = member.target = np.empty(0)
        return self

    def _members(self, z: Array, seed: int, views: dict[str, Any]) -> dict[str, _Member]:
        g = self.units_.to_g(z)
        spread = float(np.abs(g - np.median(g)).mean()) or 1.0
        n, d = len(z), views["codes"].shape[1]
        boosting = partial(Boosting, share=float(np.clip(24 / d, 0.2, 0.6)), seed=seed)
        members = {
            "boosting": _Member(boosting, "codes", z),
            "boosting of g": _Member(
                boosting, "codes", on_lattice(g / spread) * spread, self.units_
            ),
            "extra trees": _Member(partial(ExtraTrees, seed), "codes", z, by_folds=False),
            "kernel ridge": _Member(partial(NystroemRidge, seed), "box", z, by_folds=False),
        }
        if n <= (_MANY if self.effort == "default" else 4 * _MANY) and self.effort != "low":
            members["network"] = _Member(partial(_network, seed), "box", z, refits=False)
        return members

    def _fit_members(
        self, members: dict[str, _Member], views: Any, z: Array, drawn: Index, seed: int
    ) -> None:
        """Held-out answers of all members; those that are hopeless after a first look go."""
        if not members:
            return
        n = len(z)
        n_folds = {"low": 2, "high": 5}.get(self.effort, 3 if n <= _MANY else 2)
        folds = [(drawn[a], drawn[b]) for a, b in fold_rows(len(drawn), n_folds, seed)]
        rest, first = folds[0]
        folded = [m for m in members.values() if m.by_folds]
        whole = [m for m in members.values() if not m.by_folds]
        tasks = [partial(m.fit_fold, views[m.view], rest, first) for m in folded]
        tasks += [partial(_fit_whole, m, views[m.view], drawn) for m in whole]
        answers = in_threads(tasks, self.n_jobs)
        for member, (model, answer) in zip(folded, answers, strict=False):
            member.held = np.full(n, np.nan)
            member.models, member.held[first] = [model], answer
        for member, (model, answer) in zip(whole, answers[len(folded) :], strict=True):
            member.models, member.held = [model], answer
        errors = {
            name: float(np.abs(z[first] - m.held[first]).mean()) for name, m in members.items()
        }
        best, slack = min(errors.values()), _SLACK_ROWS / len(first)
        for name, error in errors.items():
            most = _NEAR if name.startswith("boosting") else _HOPELESS
            if error > (1.0 + most + slack) * best:
                del members[name]
                self.errors_[name] = error * self.units_.unit
                self.dropped_[name] = (
                    f"its error of {error * self.units_.unit:.3g} is far from the least"
                )
        tasks, folded = [], [m for m in members.values() if m.by_folds]
        places = [(m, fold) for m in folded for fold in folds[1:]]
        for member, (rest, fold) in places:
            tasks.append(partial(member.fit_fold, views[member.view], rest, fold))
        for (member, (_, fold)), (model, answer) in zip(
            places, in_threads(tasks, self.n_jobs), strict=True
        ):
            member.models.append(model)
            member.held[fold] = answer
        for member in folded:
            unseen = np.flatnonzero(np.isnan(member.held))
            if len(unseen):
                member.held[unseen] = member.answer(views[member.view][unseen])
        for member in members.values():
            member.held = on_lattice(member.held)

    # ---- predicting ---------------------------------------------------------------------------

    def _fit_views(self, X: Any) -> dict[str, Any]:
        self.features_ = Features().fit(X)
        rows = Rows(X)
        self.bins_ = Bins().fit(self.features_(rows), 255, 0)
        return self.views(rows)

    def views(self, rows: Rows) -> dict[str, Any]:
        """What members see of rows: columns in bins, or points within a box."""
        points = self.features_(rows)
        return {"codes": self.bins_.codes(points), "box": np.clip(points, -_FARTHEST, _FARTHEST)}

    def answer(self, rows: Rows, own: Array | None = None) -> Array:
        """m in units of the response, on the lattice: (n,)."""
        total = np.zeros(len(rows))
        if own is not None:
            total += self.weights_.get("own model", 0.0) * self.units_.to_z(own)
        if self.members_:
            views = self.views(rows)
            asked = [partial(m.answer, views[m.view]) for m in self.members_.values()]
            answers = in_threads(asked, self.n_jobs if len(rows) > FEW_ROWS else 1)
            for name, found in zip(self.members_, answers, strict=True):
                total += self.weights_[name] * found
        return on_lattice(total)

    def predict(self, X: Any) -> Array:
        """(n,) numbers."""
        check_is_fitted(self)
        return self.units_.to_y(self.answer(Rows(X)))


def _is_readable(X: Any) -> bool:
    """Whether rows are features: images and texts are the business of the user's own model."""
    return prod(np.shape(X)[1:]) <= _FLATTENED_UP_TO or len(np.shape(X)) == 2


def _fit_whole(member: _Member, X: Any, rows: Index) -> tuple[Any, Array]:
    """One model that holds out its own training rows: its answers for all rows."""
    model = member.make()
    answers, known = model.fit_held_out(X[rows], member.target[rows])
    held = np.empty(len(X))
    held[rows[known]] = answers
    others = np.setdiff1d(np.arange(len(X)), rows[known], assume_unique=True)
    if len(others):
        held[others] = model.predict(X[others])
    return model, held


def _weigh(held: dict[str, Array], z: Array, seed: int) -> dict[str, float]:
    """Weights by absolute error on at most so many rows; small ones vanish."""
    some = np.random.default_rng(seed).permutation(len(z))[:_WEIGHED]
    table = np.stack([m[some] for m in held.values()])[:, :, None]
    kept = fade(simplex_weights(table, z[some], np.array([0.5])))
    return {name: float(w) for name, w in zip(held, kept, strict=True) if w > 0.0}


def fade(weights: Array) -> Array:
    """Weights below the least become 0, those below twice as much shrink towards it.

    >>> fade(np.array([0.04, 0.06, 0.9])).round(3)
    array([0.   , 0.022, 0.978])
    """
    least = min(_LEAST_WEIGHT, weights.max() / 2.0)
    kept = np.where(weights >= 2 * least, weights, np.maximum(2.0 * (weights - least), 0.0))
    return np.asarray(kept / kept.sum())


# ---- models -------------------------------------------------------------------------------------


class ExtraTrees:
    """Trees with cuts at random, on columns in bins."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit_held_out(self, X: Any, y: Array) -> tuple[Array, Index]:
        """Answers at the training rows by trees that were not grown on them, and which rows."""
        n, d = X.shape
        share, rows = min(0.8, max(16 / d, 0.1)), max(2, min(10_000, round(0.632 * n)))
        options = {"n_trees": 50, "leaf": 2, "rows": rows, "share": share, "at_random": True}
        self.forest_ = Forest().grow(X, y[:, None], seed=self.seed, n_jobs=1, **options)
        return self.forest_.fit_means(X, y), np.arange(n)

    def predict(self, X: Any) -> Array:
        """(n,) numbers."""
        return self.forest_.means(X)


class NystroemRidge:
    """Kernel ridge regression on landmarks; width and penalty by leave-one-out error."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit_held_out(self, X: Array, y: Array) -> tuple[Array, Index]:
        """Choose the width on some rows, fit on more; answers left out of those, and which."""
        rows = np.random.default_rng(self.seed).permutation(len(X))[:_RIDGE_ROWS]
        some = rows[:_SEARCH_ROWS]
        errors = [self._solve(X[some], y[some], g, _SEARCH_LANDMARKS)[3] for g in _GAMMAS]
        self.gamma_ = _GAMMAS[int(np.argmin(errors))]
        features, slopes, held, _ = self._solve(X[rows], y[rows], self.gamma_, _LANDMARKS)
        # One weight a landmark, so that a prediction is one sum, row by row.
        self.landmarks_ = features.components_
        self.weights_ = features.normalization_.T @ slopes
        self.intercept_ = 0.0
        self.intercept_ = float(np.mean(y[rows] - self.predict(X[rows])))
        return held, rows

    def _solve(self, X: Array, y: Array, gamma: float, landmarks: int) -> Any:
        count = max(1, min(landmarks, len(X) // 2))
        features = Nystroem(
            gamma=gamma / X.shape[1], n_components=count, random_state=self.seed % 2**31
        ).fit(X)
        return features, *_ridge(features.transform(X), y)

    def predict(self, X: Array) -> Array:
        """(n,) numbers."""
        width = self.gamma_ / self.landmarks_.shape[1]
        kernel = np.exp(-width * cdist(X, self.landmarks_, "sqeuclidean"))
        # Not a matrix product, whose last bits depend on the number of rows.
        kernel *= self.weights_
        return np.asarray(kernel.sum(axis=1) + self.intercept_)


def _ridge(Z: Array, y: Array) -> tuple[Array, Array, float]:
    """Slopes (p,) under the penalty of least squared leave-one-out error, answers left out, error.

    With Z'Z = U diag(s) U' of centred columns and Q = Z U, the fit is Q (s + a)^-1 Q'y, its
    leverages are h = 1 / n + sum_j Q_ij^2 / (s_j + a), and a residual left out is r / (1 - h): one
    eigenproblem serves all penalties a.
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


def _network(seed: int) -> Network:
    return Network(
        hidden_layer_sizes=(64, 64),
        alpha=1e-3,
        learning_rate_init=3e-3,
        n_iter_no_change=8,
        max_iter=150,
        random_state=seed % 2**31,
    )
