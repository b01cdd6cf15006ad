"""Quantile regression of the score: the law as a few learned curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import check_random_state

from localconformal.laws.base import GRID, Knots, Law, check_levels, reference_rows
from localconformal.laws.forest import fit_view
from localconformal.models import at_level, takes_quantiles
from localconformal.parallel import FEW_ROWS, in_threads
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Rows, fit_model, is_frozen, predict_column, shown

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Least width between the outer curves, as a share of the typical score.
_FLOOR = 1e-3


@dataclass(eq=False, repr=False)
class LearnedLaw(Law):
    """F(. | x) through learned quantiles q_1(x) <= ... <= q_k(x) of the score.

    The curves are sorted where they cross. Between them F is interpolated on the normal scale;
    beyond the outer two the tails are those of the reference scores, in units of q_k - q_1. CQR and
    rectified scores are members of this family.

    Parameters
    ----------
    estimator : estimator, default=None
        A model with a quantile parameter (such as HistGradientBoosting, LightGBM or XGBoost, or a
        Pipeline that ends in one), of which one copy per level is fitted, or a multi-quantile model
        (``predict(X, quantiles=[...])``). None is HistGradientBoostingRegressor with small trees.
    levels : sequence of floats, default=(0.05, 0.25, 0.5, 0.75, 0.95)
        Levels to learn, at least two.
    embedding : default=None
        What the models see of a row, as in `KernelLaw`; inside a regressor, the point
        prediction is one more column.
    random_state : int or None, default=None
        Seed of the default models. None draws one at fit.
    n_jobs : int or None, default=None
        Threads, one per model; None is one for each core.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> law = LearnedLaw(random_state=0).fit(X, X[:, 0] * rng.normal(size=500))
    >>> low, high = law.quantile([[0.1], [0.9]], [0.95])[:, 0]
    >>> bool(low < high)
    True
    """

    estimator: Any = None
    levels: Sequence[float] = _LEVELS
    embedding: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> LearnedLaw:
        """Fit one model per level, or one for all."""
        rows, scores = reference_rows(X, v)
        self.levels_ = check_levels(self.levels)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.view_ = fit_view(self.embedding, rows, scores, seed, self.n_jobs)
        points = self.view_(rows)
        model = _default_model(seed) if self.estimator is None else self.estimator
        if is_frozen(model):
            raise ValueError(
                f"got estimator={shown(model)}, which cannot be fitted or is fitted already; a law "
                "learns from the scores: pass an unfitted quantile model."
            )
        one = takes_quantiles(model)
        models = [model] if one else [at_level(model, q) for q in self.levels_]
        fits = [partial(fit_model, model, points, scores) for model in models]
        self.models_ = in_threads(fits, self.n_jobs)
        self.floor_ = _FLOOR * typical_size(scores)
        self._fit_tails(self._curves(points), scores)
        self.n_reference_ = len(scores)
        return self

    def _curves(self, points: Array) -> Array:
        """Quantiles at the learned levels, sorted: (n, k)."""
        if len(self.models_) == 1:
            columns = self.models_[0].predict(points, quantiles=list(self.levels_))
        else:
            asked = [partial(predict_column, model, points) for model in self.models_]
            jobs = self.n_jobs if len(points) > FEW_ROWS else 1
            columns = np.stack(in_threads(asked, jobs), axis=1)
        return np.sort(np.asarray(columns, dtype=np.float64), axis=1)

    def _fit_tails(self, curves: Array, scores: Array) -> None:
        """How far scores lie beyond the outer curves, in widths, at the grid's outer levels."""
        unit = self._unit(curves)
        beyond, below = (scores - curves[:, -1]) / unit, (scores - curves[:, 0]) / unit
        # With the learned levels as knots, each is answered by its curve.
        self.grid_ = grid = np.union1d(GRID, self.levels_)
        self.inside_ = (self.levels_[0] <= grid) & (self.levels_[-1] >= grid)
        upper, lower = grid[self.levels_[-1] < grid], grid[self.levels_[0] > grid]
        self.upper_tail_ = np.maximum(np.quantile(beyond, upper), 0.0)
        self.lower_tail_ = np.minimum(np.quantile(below, lower), 0.0)

    def _unit(self, curves: Array) -> Array:
        return np.maximum(curves[:, -1] - curves[:, 0], self.floor_)

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid and at the learned levels."""
        curves = self._curves(self.view_(rows))
        unit = self._unit(curves)[:, None]
        lower = curves[:, :1] + unit * self.lower_tail_
        upper = curves[:, -1:] + unit * self.upper_tail_
        inside = _interpolate(curves, self.levels_, self.grid_[self.inside_])
        values = np.maximum.accumulate(np.hstack([lower, inside, upper]), axis=1)
        return Knots(self.grid_, values, total=float(self.n_reference_))


def _interpolate(curves: Array, levels: Array, asked: Array) -> Array:
    """Curves (n, k) at levels (k,) -> (n, len(asked)), linear on the normal scale."""
    place = np.interp(ndtri(asked), ndtri(levels), np.arange(len(levels)))
    left = np.minimum(place.astype(np.intp), len(levels) - 2)
    share = place - left
    return np.asarray(curves[:, left] * (1.0 - share) + curves[:, left + 1] * share)


def _default_model(seed: int) -> HistGradientBoostingRegressor:
    """Few small trees: the tails of a score have few rows."""
    return HistGradientBoostingRegressor(
        loss="quantile",
        quantile=0.5,
        learning_rate=0.1,
        max_iter=60,
        max_leaf_nodes=12,
        early_stopping=False,
        random_state=seed,
    )
