"""Quantile regression of the score: the law as a few learned curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.utils import check_random_state

from localconformal.laws.base import GRID, Knots, Law, check_levels, reference_rows
from localconformal.laws.forest import fit_view
from localconformal.models import (
    at_level,
    interpolate,
    own_levels,
    predict_quantiles,
    predicts_several,
)
from localconformal.parallel import FEW_ROWS, in_threads
from localconformal.quantiles import Array, typical_size
from localconformal.rows import Curve, Rows, fit_model, is_frozen, predict_column, shown

_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Minimum width between the outer curves, as a share of the typical score.
_FLOOR = 1e-3


@dataclass(eq=False, repr=False)
class LearnedLaw(Law):
    """F(. | x) through learned quantiles q_1(x) <= ... <= q_k(x) of the score.

    Where the curves cross, they are sorted. Between them F is interpolated on the normal scale;
    beyond the outer two, the tails are those of the reference scores, in units of q_k - q_1. CQR
    and rectified scores belong to this family.

    Parameters
    ----------
    estimator : estimator, default=None
        A model with a quantile parameter (such as HistGradientBoosting, LightGBM or XGBoost, or a
        Pipeline that ends in one), of which one copy per level is fitted, or one that predicts
        several quantiles at once, as in `localconformal.scores.QuantileScore`. If already fitted
        (a FrozenEstimator, or an object with only ``predict``), it predicts quantiles of y: it
        gets the rows unchanged, and the score must be y or y - mu(x). None is
        HistGradientBoostingRegressor with small trees.
    levels : sequence of floats, default=None
        Levels to learn, at least two. None is the model's own levels, if it has any (CatBoost,
        XGBoost), else 0.05, 0.25, 0.5, 0.75 and 0.95. Levels other than the model's own are
        interpolated; beyond its outer levels, its outer curves are used.
    embedding : default=None
        The inputs of the models, as in `KernelLaw`; inside a regressor, the point prediction is
        one more column.
    random_state : int or None, default=None
        Seed of the default models. None draws one at fit.
    n_jobs : int or None, default=None
        Threads, one per model; None is one per core.

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
    levels: Sequence[float] | None = None
    embedding: Any = None
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, v: ArrayLike) -> LearnedLaw:
        """Fit one model per level, or one for all."""
        rows, scores = reference_rows(X, v)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        model = _default_model(seed) if self.estimator is None else self.estimator
        own = own_levels(model)
        usual = _LEVELS if own is None else np.sort(own)
        self.levels_ = check_levels(usual if self.levels is None else self.levels)
        self.view_, self.centre_ = None, cast("Curve | None", None)
        if is_frozen(model):
            self._check_fitted(model, rows, scores)
        else:
            self.view_ = fit_view(self.embedding, rows, scores, seed, self.n_jobs)
        one = predicts_several(model)
        models = [model] if one else [at_level(model, q) for q in self.levels_]
        fits = [partial(fit_model, model, self._seen(rows), scores) for model in models]
        self.models_ = in_threads(fits, self.n_jobs)
        self.floor_ = _FLOOR * typical_size(scores)
        self._fit_tails(self._curves(rows), scores)
        self.n_reference_ = len(scores)
        return self

    def _check_fitted(self, model: Any, rows: Rows, scores: Array) -> None:
        """A fitted model predicts quantiles of y; those of the score must follow from them."""
        if not predicts_several(model):
            raise ValueError(
                f"got estimator={shown(model)}, which is already fitted (or has no fit) and does "
                "not say which quantiles it predicts; expected predict(X, quantiles=[...]), an "
                "attribute quantiles with its levels, or an unfitted quantile model."
            )
        if self.embedding is not None:
            raise ValueError(
                f"got embedding={shown(self.embedding)} with a fitted model, which gets the rows "
                "unchanged; leave the embedding out."
            )
        if rows.are_residuals(scores):
            self.centre_ = rows.model
        elif not rows.of(None).are_residuals(scores):
            raise ValueError(
                f"got {type(self).__name__} of a fitted model, which predicts quantiles of y, with "
                "a score that is neither y nor y - mu(x); use conformity_score='residual' or "
                "'response', or pass an unfitted model."
            )

    def _seen(self, rows: Rows) -> Any:
        return rows.X if self.view_ is None else self.view_(rows)

    def _curves(self, rows: Rows) -> Array:
        """Quantiles at the learned levels, sorted: (n, k)."""
        seen = self._seen(rows)
        if len(self.models_) == 1:
            columns = predict_quantiles(self.models_, seen, self.levels_)
        else:
            asked = [partial(predict_column, model, seen) for model in self.models_]
            jobs = self.n_jobs if len(seen) > FEW_ROWS else 1
            columns = np.stack(in_threads(asked, jobs), axis=1)
        bad = np.count_nonzero(~np.isfinite(columns).all(axis=1))
        if bad:
            raise ValueError(
                f"{type(self.models_[0]).__name__} predicts NaN or infinite quantiles for {bad} of "
                f"{len(columns)} rows; expected finite numbers: check those rows or the model."
            )
        if self.centre_ is not None:
            columns = columns - rows.of(self.centre_).point[:, None]
        return np.sort(columns, axis=1)

    def _fit_tails(self, curves: Array, scores: Array) -> None:
        """How far scores lie beyond the outer curves, in widths, at the grid's outer levels."""
        unit = self._unit(curves)
        beyond, below = (scores - curves[:, -1]) / unit, (scores - curves[:, 0]) / unit
        # The learned levels are knots, so at each of them the law is its curve.
        self.grid_ = grid = np.union1d(GRID, self.levels_)
        self.inside_ = (self.levels_[0] <= grid) & (self.levels_[-1] >= grid)
        upper, lower = grid[self.levels_[-1] < grid], grid[self.levels_[0] > grid]
        self.upper_tail_ = np.maximum(np.quantile(beyond, upper), 0.0)
        self.lower_tail_ = np.minimum(np.quantile(below, lower), 0.0)

    def _unit(self, curves: Array) -> Array:
        return np.maximum(curves[:, -1] - curves[:, 0], self.floor_)

    def at(self, rows: Rows) -> Knots:
        """The law at each row, as quantiles on the common grid and at the learned levels."""
        curves = self._curves(rows)
        unit = self._unit(curves)[:, None]
        lower = curves[:, :1] + unit * self.lower_tail_
        upper = curves[:, -1:] + unit * self.upper_tail_
        inside = interpolate(curves, self.levels_, self.grid_[self.inside_])
        values = np.maximum.accumulate(np.hstack([lower, inside, upper]), axis=1)
        return Knots(self.grid_, values, total=float(self.n_reference_))


def _default_model(seed: int) -> HistGradientBoostingRegressor:
    """Few, small trees: the tails of a score have few rows."""
    return HistGradientBoostingRegressor(
        loss="quantile",
        quantile=0.5,
        learning_rate=0.1,
        max_iter=60,
        max_leaf_nodes=12,
        early_stopping=False,
        random_state=seed,
    )
