"""Laws made of laws: of a transformed score, and the average of several.

V = location(x) + scale(x) W: a law of W gives a law of V, where W is the response (location -mu) or
the normalised residual (scale sigma). Location and scale are learned once; at reference rows they
come from models that have not seen them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_random_state

from localconformal.columns import View
from localconformal.laws.base import (
    GRID,
    Knots,
    Law,
    UniformLaw,
    check_levels,
    fade,
    make_law,
    pinball,
    reference_rows,
    seeded,
    simplex_weights,
)
from localconformal.laws.forest import default_forest
from localconformal.parallel import in_threads, kept_filters
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Curve, Index, Rows, fold_rows

#: Trees, rows per leaf and share of the columns at a split: fine trees, and coarse ones.
_SPREAD_FORESTS = ((100, 5, 0.5), (50, 30, 1.0))
#: With fewer rows, some are in every tree and have no out-of-bag prediction.
_FEW = 10
#: Folds on which laws are compared.
_STACK_FOLDS = 3
#: sigma stays above this share of the typical score, to avoid division by zero.
_FLOOR = 0.01


class _Spread(Curve):
    """sigma(x) = unit max(s(x), floor), s a forest's model of |v| / unit on (x, mu(x)).

    In these units, the scale of the response does not matter. At its reference rows, sigma comes
    from the trees that have not seen them.
    """

    def fit(self, rows: Rows, v: Array, seed: int, n_jobs: int | None) -> _Spread:
        # From now on the reference rows hold its answer.
        self.unit_, self.view_ = typical_size(v), View().fit(rows.of(rows.model))
        self.model_, sigma = _grow(self.view_(rows), np.abs(v) / self.unit_, seed, n_jobs)
        rows.known[self] = self.unit_ * sigma
        return self

    def compute(self, rows: Rows) -> Array:
        return np.asarray(self.unit_ * np.maximum(self.model_.predict(self.view_(rows)), _FLOOR))


def with_spread(rows: Rows, v: Array, seed: int, n_jobs: int | None) -> Rows:
    """The same rows with sigma(x) known; unchanged if it already is."""
    if rows.spread is not None:
        return rows
    return rows.of(rows.model, _Spread().fit(rows, v, seed, n_jobs))


@kept_filters
def _grow(
    points: Array, sizes: Array, seed: int, n_jobs: int | None
) -> tuple[RandomForestRegressor, Array]:
    """A forest for the sizes, and its out-of-bag predictions for its own rows.

    Noise may change from row to row or smoothly with a few columns: of two forests, the one is
    chosen whose out-of-bag sigma gives the sizes the higher likelihood, as exponential variables.
    """
    n, best = len(sizes), np.inf
    for trees, leaf_rows, share in _SPREAD_FORESTS if n >= _FEW else _SPREAD_FORESTS[:1]:
        model = default_forest(n, seed, n_jobs, trees, leaf_rows, share)
        model.set_params(oob_score=n >= _FEW).fit(points, sizes)
        # Threads add up the trees' predictions in any order, which changes their last bits.
        model.set_params(n_jobs=1)
        sigma = model.oob_prediction_ if n >= _FEW else model.predict(points)
        sigma = np.maximum(sigma, _FLOOR)
        loss = float(np.mean(np.log(sigma) + sizes / sigma))
        if loss < best:
            best, chosen, known = loss, model, sigma
    return chosen, known


@dataclass(eq=False, repr=False)
class _TransformedLaw(Law):
    """The law of V = location(x) + scale(x) W; a subclass defines the transformation."""

    law: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Learn location and scale; return the rows as laws of W should see them."""
        raise NotImplementedError

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location and scale at rows: (n,) each."""
        raise NotImplementedError

    def fit(self, X: Any, v: ArrayLike) -> _TransformedLaw:
        """Learn the transformation, then the law of W."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        changed = self.change(rows, scores, seed)
        location, scale = self.terms(changed)
        self.law_ = self._inner_law().fit(changed, (scores - location) / scale)
        return self

    def _inner_law(self) -> Law:
        """The unfitted law of W, with this law's seed and threads if it has none."""
        made = UniformLaw() if self.law is None else make_law(self.law)
        return seeded(made, self.random_state, self.n_jobs)

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        return Knots.of(self.law_.at(rows)).changed(*self.terms(rows))


class ScaledLaw(_TransformedLaw):
    """V = sigma(x) W: the law of the score in units of a learned spread.

    sigma is a forest's model of |V|; at reference rows, from the trees that have not seen them.

    Parameters
    ----------
    law : str or law, default=None
        Law of W; None is the uniform law, which makes this the normalised residual (MADSplit).
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one per core.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> law = ScaledLaw(random_state=0).fit(X, X[:, 0] * rng.normal(size=500))
    >>> low, high = law.quantile([[0.1], [0.9]], [0.95])[:, 0]
    >>> bool(low < high)
    True
    """

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Scale sigma."""
        known = with_spread(rows, v, seed, self.n_jobs)
        self.spread_ = known.spread
        return known

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location 0, scale sigma."""
        return np.zeros(len(rows)), self.spread_(rows)  # type: ignore[misc]


class ResponseLaw(_TransformedLaw):
    """V = Y - mu(x): the law of the response itself, independent of the point model.

    Parameters
    ----------
    law : str or law, default=None
        Law of Y given x, such as ``LearnedLaw()`` (CQR) or ``ForestLaw(target="response")`` (a
        quantile forest); None is the uniform law.
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads; None is one per core.

    Examples
    --------
    >>> X, v = np.zeros((3, 1)), [1.0, 2.0, 3.0]
    >>> ResponseLaw().fit(X, v).quantile(X[:1], [0.5]).round(6)
    array([[2.]])
    """

    def change(self, rows: Rows, v: Array, seed: int) -> Rows:
        """Location -mu."""
        if not rows.are_residuals(v):
            raise ValueError(
                f"got {type(self).__name__} with a score other than y - mu(x), from which it "
                "cannot recover the response; use conformity_score='residual', or another law."
            )
        self.model_ = rows.model
        # The spread is the residual's, not the response's.
        return rows.of(rows.model)

    def terms(self, rows: Rows) -> tuple[Array, Array]:
        """Location -mu, scale 1."""
        return -rows.of(self.model_).point, np.ones(len(rows))


# ---- several laws averaged ----------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class StackedLaw(Law):
    """Q(t | x) = sum_k w_k Q_k(t | x), with w on the simplex.

    The weights minimise the pinball loss at ``levels`` over reference rows, with laws fitted
    without each row's fold. Quantiles are averaged, not probabilities: laws that agree on the
    width but not on the location stay sharp. The average is kept on a fixed grid of levels, so
    the CDF and the quantile function are inverses.

    Parameters
    ----------
    laws : sequence of names or laws, default=("uniform", "kernel", "neighbors")
    weights : sequence of floats, default=None
        Fixed weights instead of learned ones; they are scaled to sum to 1.
    levels : sequence of floats, default=(0.05, 0.95)
        Levels at which the loss is measured.
    random_state : int or None, default=None
        Seed of the folds, and of laws that have none.
    n_jobs : int or None, default=None
        Threads of laws that do not set them; None is one per core.

    Attributes
    ----------
    laws_ : list of fitted laws, only those with weight
    weights_ : array, one for each of ``laws``
    losses_ : array
        Held-out pinball loss of each of ``laws``; missing if nothing was compared.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 1))
    >>> law = StackedLaw(["uniform", "kernel"], random_state=0)
    >>> law = law.fit(X, X[:, 0] * rng.normal(size=300))
    >>> bool(law.weights_[1] > law.weights_[0])
    True
    """

    laws: Sequence[Any] = ("uniform", "kernel", "neighbors")
    weights: Sequence[float] | None = None
    levels: Sequence[float] = (0.05, 0.95)
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> StackedLaw:
        """Choose the weights by cross-fitting, then fit the laws with weight on all rows."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        laws = self._members(seed)
        self.__dict__.pop("losses_", None)
        if any(isinstance(law, ScaledLaw) for law in laws):
            # One spread for all; laws that see the point prediction see it too.
            rows = with_spread(rows, scores, seed, self.n_jobs)
        self.weights_ = self._weights(laws, rows, scores, seed)
        kept = [law for law, weight in zip(laws, self.weights_, strict=True) if weight > 0.0]
        self.laws_ = in_threads([partial(law.fit, rows, scores) for law in kept], self.n_jobs)
        return self

    def _members(self, seed: int) -> list[Law]:
        if not isinstance(self.laws, (list, tuple)) or len(self.laws) == 0:
            raise ValueError(f"got laws={self.laws!r}; expected a list of at least one law.")
        return [make_law(law, seed, self.n_jobs) for law in self.laws]

    def _weights(self, laws: list[Law], rows: Rows, v: Array, seed: int) -> Array:
        if self.weights is not None:
            return _check_weights(self.weights, len(laws))
        if len(laws) == 1 or len(v) < 2 * _STACK_FOLDS:
            return np.full(len(laws), 1.0 / len(laws))
        levels = check_levels(self.levels)
        folds = make_folds(rows, v, _STACK_FOLDS, seed, self.n_jobs)
        table = _held_out_quantiles(laws, folds, levels, self.n_jobs)
        self.losses_ = pinball(table, v, levels)
        return fade(simplex_weights(table, v, levels))

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        weights = self.weights_[self.weights_ > 0.0]
        members = [(float(w), law.at(rows)) for w, law in zip(weights, self.laws_, strict=True)]
        values = np.sum([weight * Knots.of(F).values for weight, F in members], axis=0)
        return Knots(GRID, values, behind=tuple(members))


def _check_weights(weights: Any, count: int) -> Array:
    """Non-negative weights, one per law, scaled to sum to 1."""
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.empty(0)
    fine = given.shape == (count,) and np.all(given >= 0)
    if not fine or not 0.0 < given.sum() < np.inf:
        raise ValueError(
            f"got weights={weights!r} for {count} laws; expected one finite number for each, none "
            "negative and not all zero."
        )
    return np.asarray(given / given.sum())


@dataclass(frozen=True)
class _Fold:
    """Some reference rows and their index, and the rest, to which laws are fitted."""

    index: Index
    rows: Rows
    rest: Rows
    v_rest: Array


def make_folds(rows: Rows, v: Array, n_folds: int, seed: int, n_jobs: int | None) -> list[_Fold]:
    """Folds of the reference rows; the spread, if known, is learned again without each fold."""
    folds = []
    for rest, index in fold_rows(len(v), n_folds, seed):
        # The known spread has seen the scores of the fold.
        others = rows.take(rest).of(rows.model)
        if rows.spread is not None:
            others = with_spread(others, v[rest], seed, n_jobs)
        folds.append(_Fold(index, rows.take(index).of(rows.model), others, v[rest]))
    return folds


def _held_out_quantiles(
    laws: list[Law], folds: list[_Fold], levels: Array, n_jobs: int | None
) -> Array:
    """Quantiles at each reference row from laws fitted on the other folds: (laws, n, L).

    A task is a law and a fold, which spreads the work evenly over cores.
    """
    found = np.empty((len(laws), sum(len(fold.index) for fold in folds), len(levels)))

    def answer(k: int, fold: _Fold) -> None:
        fitted = clone(laws[k]).fit(fold.rest, fold.v_rest)
        found[k, fold.index] = Knots.of(fitted.at(fold.rows), levels).values

    in_threads([partial(answer, k, fold) for k in range(len(laws)) for fold in folds], n_jobs)
    return found
