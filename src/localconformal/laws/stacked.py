"""Several laws averaged, with weights chosen by a proper score."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from localconformal.engine.knots import KnotEngine, Knots
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.changed import ScaledLaw
from localconformal.laws.crossfit import held_out_quantiles, make_folds
from localconformal.laws.knots import GRID, knots_of
from localconformal.laws.learned import check_levels
from localconformal.laws.names import make_law, seeded
from localconformal.laws.outputs import Outputs, blank_outputs, with_spread
from localconformal.laws.simplex import pinball, prune, simplex_weights
from localconformal.laws.view import in_canonical_order
from localconformal.parallel import in_threads
from localconformal.quantiles import Array

#: Laws below this weight are left out: they cost more than they bring.
MIN_WEIGHT = 0.08


class StackedLaw(BaseLaw):
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

    def __init__(
        self,
        laws: Sequence[Any] = ("uniform", "kernel", "neighbors"),
        weights: Sequence[float] | None = None,
        levels: Sequence[float] = (0.05, 0.95),
        n_folds: int = 3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.laws = laws
        self.weights = weights
        self.levels = levels
        self.n_folds = n_folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> StackedLaw:
        """Choose the weights by cross-fitting, then fit the laws that have one on all rows."""
        scores = check_reference_scores(v)
        known = blank_outputs(scores) if outputs is None else outputs
        X, scores, known = in_canonical_order(X, scores, known)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        laws = self._members(seed)
        self.__dict__.pop("losses_", None)
        if any(isinstance(law, ScaledLaw) for law in laws):
            # One spread for all; laws that look at the point model see it too.
            known = with_spread(known, X, scores, seed, self.n_jobs)
        self.weights_ = self._weights(laws, X, scores, known, seed)
        pairs = zip(laws, self.weights_, strict=True)
        kept = [law for law, weight in pairs if weight > 0.0]
        self.laws_ = in_threads(
            [partial(law.fit, X, scores, outputs=known) for law in kept], self.n_jobs
        )
        self.engine_ = KnotEngine(GRID)
        return self

    def _members(self, seed: int) -> list[BaseLaw]:
        if not isinstance(self.laws, (list, tuple)) or len(self.laws) == 0:
            raise ValueError(f"laws is {self.laws!r}; a list of at least one law was expected.")
        if not isinstance(self.n_folds, Integral) or self.n_folds < 2:
            raise ValueError(f"n_folds is {self.n_folds!r}; an integer of at least 2 was expected.")
        return [seeded(make_law(law), seed, self.n_jobs) for law in self.laws]

    def _weights(self, laws: list[BaseLaw], X: Any, v: Array, outputs: Outputs, seed: int) -> Array:
        if self.weights is not None:
            return check_weights(self.weights, len(laws))
        if len(laws) == 1 or len(v) < 2 * self.n_folds:
            return np.full(len(laws), 1.0 / len(laws))
        levels = check_levels(self.levels)
        folds = make_folds(X, v, outputs, self.n_folds, seed, self.n_jobs)
        found = held_out_quantiles(
            {str(k): law for k, law in enumerate(laws)}, folds, levels, self.n_jobs
        )
        table = np.stack(list(found.values()))
        self.losses_ = pinball(table, v, levels)
        return prune(simplex_weights(table, v, levels), MIN_WEIGHT)

    def rows(self, X: Any) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        weights = self.weights_[self.weights_ > 0.0]
        members = list(zip(weights, (knots_of(law, X) for law in self.laws_), strict=True))
        values = np.sum([weight * member.values for weight, member in members], axis=0)
        behind = [
            law._replace(weight=weight * law.weight)
            for weight, member in members
            for law in member.behind
        ]
        return Knots(values, behind=tuple(behind))


def check_weights(weights: Any, count: int) -> Array:
    """Non-negative weights, one a law, scaled to sum to 1."""
    words = (
        f"weights are {weights!r} for {count} laws; one finite number for each, none negative and "
        "not all zero, were expected."
    )
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(words) from error
    fine = given.shape == (count,) and np.all(np.isfinite(given)) and np.all(given >= 0)
    if not fine or not given.sum() > 0:
        raise ValueError(words)
    return np.asarray(given / given.sum())
