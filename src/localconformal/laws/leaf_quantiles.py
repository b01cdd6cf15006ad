"""Quantiles averaged over the leaves of a forest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import RandomForestRegressor
from sklearn.utils import check_random_state

from localconformal.engine.knots import KnotEngine, Knots
from localconformal.laws.base import BaseLaw, check_reference_scores
from localconformal.laws.forest import as_points
from localconformal.laws.knots import GRID, SMALLEST
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order
from localconformal.laws.outputs import GROWN_ON, Outputs
from localconformal.laws.view import fit_view
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array, weighted_quantile


class LeafQuantilesLaw(BaseLaw):
    """Q(t | x) = (1/T) sum_t Q(t; scores of the reference rows in leaf_t(x)).

    Averages quantiles, where `ForestLaw` averages weights: with leaves of a hundred rows and more,
    each of them has a quantile worth averaging (LOFOREST).

    Parameters
    ----------
    n_estimators : int, default=100
    min_samples_leaf : int, default=100
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Threads that grow the trees; None is one for each core.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> law = LeafQuantilesLaw(10, min_samples_leaf=10, random_state=0).fit(X, X[:, 0])
    >>> law.quantile([[0.2], [0.8]], [0.5]).round(1)
    array([[0.2],
           [0.8]])
    """

    def __init__(
        self,
        n_estimators: int = 100,
        min_samples_leaf: int = 100,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, v: ArrayLike, *, outputs: Outputs | None = None) -> LeafQuantilesLaw:
        """Grow the trees and keep the quantiles of each leaf."""
        scores = check_reference_scores(v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.view_, seen = fit_view(None, X, scores, outputs)
        points = as_points(seen).astype(np.float64)
        if len(scores) <= CANONICAL_UP_TO:
            order = canonical_order(points, scores)
            points, scores = points[order], scores[order]
        self.model_ = RandomForestRegressor(
            self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_samples=GROWN_ON if len(scores) > GROWN_ON else None,
            n_jobs=asked_jobs(self.n_jobs),
            random_state=seed,
        ).fit(points, scores)
        self.tables_ = [leaf_table(leaves, scores) for leaves in self.model_.apply(points).T]
        self.n_reference_ = len(scores)
        self.engine_ = KnotEngine(GRID)
        return self

    def rows(self, X: Any) -> Knots:
        """The law at each row, as quantiles on the common grid."""
        leaves = self.model_.apply(as_points(self.view_(X)))
        values = np.zeros((len(leaves), len(GRID)))
        for (numbers, table), column in zip(self.tables_, leaves.T, strict=True):
            values += table[np.searchsorted(numbers, column)]
        values /= len(self.tables_)
        return Knots(np.maximum.accumulate(values, axis=1), total=float(self.n_reference_))


def leaf_table(leaves: Any, scores: Array) -> tuple[Any, Array]:
    """Numbers of the leaves, in order, and the quantiles of the scores in each: (leaves, G)."""
    numbers, codes = np.unique(leaves, return_inverse=True)
    levels = np.maximum(GRID, SMALLEST)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    tables = [weighted_quantile(scores[rows], np.ones(len(rows)), levels) for rows in members]
    return numbers, np.stack(tables)
