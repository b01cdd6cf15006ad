"""Several laws averaged, with weights on the simplex that minimise the pinball loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils import check_random_state

from localconformal.laws.base import (
    GRID,
    Knots,
    Law,
    fade,
    make_law,
    pinball,
    reference_rows,
    simplex_weights,
)
from localconformal.laws.learned import check_levels
from localconformal.laws.transformed import ScaledLaw, with_spread
from localconformal.parallel import in_threads
from localconformal.quantiles import Array
from localconformal.rows import Index, Rows, fold_rows


@dataclass(eq=False, repr=False)
class StackedLaw(Law):
    """Q(t | x) = sum_k w_k Q_k(t | x), with w on the simplex.

    The weights minimise the pinball loss at ``levels`` over reference rows, each answered by
    laws that were fitted without its fold. Quantiles are averaged, not probabilities: laws that
    agree on the width but not on the place stay sharp. The average is kept on a fixed grid of
    levels, so that CDF and quantile are inverses.

    Parameters
    ----------
    laws : sequence of names or laws, default=("uniform", "kernel", "neighbors")
    weights : sequence of floats, default=None
        Fixed weights instead of chosen ones; they are scaled to sum to 1.
    levels : sequence of floats, default=(0.05, 0.95)
        Levels that matter.
    n_folds : int, default=3
    random_state : int or None, default=None
        Seed of the folds, and of laws that have none.
    n_jobs : int or None, default=None
        Threads of laws that do not say; None is one for each core.

    Attributes
    ----------
    laws_ : list of fitted laws, those with weight only
    weights_ : array, one for each of ``laws``
    losses_ : array
        Held-out pinball loss of each of ``laws``; missing where nothing was compared.

    Examples
    --------
    >>> import numpy as np
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
    n_folds: int = 3
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> StackedLaw:
        """Choose the weights by cross-fitting, then fit the laws that have one on all rows."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        laws = self._members(seed)
        self.__dict__.pop("losses_", None)
        if any(isinstance(law, ScaledLaw) for law in laws):
            # One spread for all; laws that look at the point model see it too.
            rows = with_spread(rows, scores, seed, self.n_jobs)
        self.weights_ = self._weights(laws, rows, scores, seed)
        kept = [law for law, weight in zip(laws, self.weights_, strict=True) if weight > 0.0]
        self.laws_ = in_threads([partial(law.fit, rows, scores) for law in kept], self.n_jobs)
        return self

    def _members(self, seed: int) -> list[Law]:
        if not isinstance(self.laws, (list, tuple)) or len(self.laws) == 0:
            raise ValueError(f"got laws={self.laws!r}; expected a list of at least one law.")
        if not isinstance(self.n_folds, Integral) or self.n_folds < 2:
            raise ValueError(f"got n_folds={self.n_folds!r}; expected an integer of at least 2.")
        return [make_law(law, seed, self.n_jobs) for law in self.laws]

    def _weights(self, laws: list[Law], rows: Rows, v: Array, seed: int) -> Array:
        if self.weights is not None:
            return _check_weights(self.weights, len(laws))
        if len(laws) == 1 or len(v) < 2 * self.n_folds:
            return np.full(len(laws), 1.0 / len(laws))
        levels = check_levels(self.levels)
        folds = make_folds(rows, v, self.n_folds, seed, self.n_jobs)
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
    words = (
        f"got weights={weights!r} for {count} laws; expected one finite number for each, none "
        "negative and not all zero."
    )
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(words) from error
    fine = given.shape == (count,) and np.all(np.isfinite(given)) and np.all(given >= 0)
    if not fine or not given.sum() > 0:
        raise ValueError(words)
    return np.asarray(given / given.sum())


# ---- quantiles of a law at the reference rows themselves, by laws that have not seen them --------


@dataclass(frozen=True)
class Fold:
    """Some reference rows, to be answered by laws of the rest; and which they are."""

    index: Index
    rows: Rows
    rest: Rows
    v_rest: Array


def make_folds(rows: Rows, v: Array, n_folds: int, seed: int, n_jobs: int | None) -> list[Fold]:
    """Folds of the reference rows; the spread, if it is known, is learned anew without each."""
    folds = []
    for rest, index in fold_rows(len(v), n_folds, seed):
        # The spread that is known has seen the scores of the fold.
        others = rows.take(rest).of(rows.model)
        if rows.spread is not None:
            others = with_spread(others, v[rest], seed, n_jobs)
        folds.append(Fold(index, rows.take(index).of(rows.model), others, v[rest]))
    return folds


def _held_out_quantiles(
    laws: list[Law], folds: list[Fold], levels: Array, n_jobs: int | None
) -> Array:
    """Quantiles at each reference row by laws fitted on the other folds: (laws, n, L).

    A task is a law and a fold, so that no core waits for one that has a law left.
    """
    asked = [law.at_levels(levels) for law in laws]
    found = np.empty((len(laws), sum(len(fold.index) for fold in folds), len(levels)))

    def answer(k: int, fold: Fold) -> None:
        fitted = clone(asked[k]).fit(fold.rest, fold.v_rest)
        found[k, fold.index] = Knots.of(fitted.at(fold.rows), levels).values

    in_threads([partial(answer, k, fold) for k in range(len(laws)) for fold in folds], n_jobs)
    return found
