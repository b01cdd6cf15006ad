"""V(x, y) and its inverse: how far y lies outside what the model expects at x.

A fitted score is the curve x -> Band of its models' predictions. A new score is a class with
`fit` and `compute`, and with `values` and `bounds` if it is not a distance from an edge.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from localconformal.models import default_estimator, fit_all, predict_quantiles, quantile_models
from localconformal.quantiles import Array, clear_of_rounding, round_up, typical_size
from localconformal.rows import (
    Curve,
    Index,
    Rows,
    as_rows,
    fit_model,
    fold_rows,
    is_frozen,
    models_given,
    predict_column,
    take_params,
    take_rows,
)

#: Folds of cross-fitting.
N_FOLDS = 5
#: Units of quantile scores stay above this share of their median.
_FLOOR = 1e-3


class Band(NamedTuple):
    """The model's answer at each x: the point, two edges, the unit of distance from each; (n,)."""

    point: Array
    lower: Array
    upper: Array
    lower_unit: Array
    upper_unit: Array

    @classmethod
    def around(cls, point: Array, centre: Array | None = None, unit: Array | None = None) -> Band:
        """A band of zero width around a centre, the point itself by default."""
        middle = point if centre is None else centre
        scale = np.ones_like(middle) if unit is None else unit
        return cls(point, middle, middle, scale, scale)


class _Training(NamedTuple):
    """What `Score.fit` was given."""

    estimator: Any
    X: Any
    y: Array
    confidence_level: float
    random_state: int
    fit_params: Mapping[str, Any] | None


class Score(Curve, BaseEstimator):
    """Two-sided score: how many units y lies below the lower and above the upper edge.

    V_lower(x, y) = (lower(x) - y) / lower_unit(x),  V_upper(x, y) = (y - upper(x)) / upper_unit(x)

    `values` and `bounds` are inverses: {y : V_s(x, y) <= T_s for both s} = [lower, upper].
    """

    #: True for a score whose two sides are one number, their maximum, regardless of ``sides``.
    one_sided = False
    #: Threads for models fitted in parallel, set by the caller of `fit`.
    n_jobs_: int | None = None

    def fit(
        self,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        confidence_level: float = 0.9,
        random_state: int = 0,
        fit_params: Mapping[str, Any] | None = None,
    ) -> Score:
        """Fit the models behind the score on training rows; return self."""
        task = _Training(estimator, as_rows(X).X, y, confidence_level, random_state, fit_params)
        self._fit_models(task)
        return self

    def _fit_models(self, task: _Training) -> None:
        raise NotImplementedError

    def compute(self, rows: Rows) -> Band:
        """The band at each row."""
        raise NotImplementedError

    def out_of_bag(self) -> Band:
        """Bands at the training rows, from models that have not seen them."""
        raise ValueError(
            f"got reference='oob' with {type(self).__name__}, which has no out-of-bag version; "
            "choose reference='cross-fit'."
        )

    def is_frozen(self, estimator: Any) -> bool:
        """Whether `fit` trains nothing: the models have seen none of the rows given to it."""
        return all(map(is_frozen, self._models(estimator)))

    def comes_fitted(self, estimator: Any) -> bool:
        """Whether any model behind the score was fitted elsewhere, on unknown rows."""
        return any(map(is_frozen, self._models(estimator)))

    def _models(self, estimator: Any) -> list[Any]:
        """The models behind the score, fitted or not."""
        return models_given(estimator)

    def values(self, band: Band, y: Array) -> Array:
        """Scores of (x, y): (n, 2), columns lower and upper."""
        # The caller decides what to do with scores that are not finite.
        with np.errstate(over="ignore", invalid="ignore"):
            below = (band.lower - y) / band.lower_unit
            above = (y - band.upper) / band.upper_unit
        return np.stack([below, above], axis=1)

    def bounds(self, band: Band, thresholds: Array) -> Array:
        """Intervals {y : V <= threshold}, rounded outward: (n, 2, L) -> (n, 2, L)."""
        with np.errstate(over="ignore"):
            below = thresholds[:, 0] * band.lower_unit[:, None]
            above = thresholds[:, 1] * band.upper_unit[:, None]
        # A lower bound is never +inf, an upper one never -inf: an empty set must have a midpoint.
        largest = np.finfo(np.float64).max
        lower = -np.maximum(round_up(-band.lower[:, None], below), -largest)
        upper = np.maximum(round_up(band.upper[:, None], above), -largest)
        return np.stack([lower, upper], axis=1)


class ResidualScore(Score):
    """V_upper = y - mu(x), V_lower = mu(x) - y: the score of SLCP.

    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = np.arange(4.0)[:, None], np.arange(4.0)
    >>> score = ResidualScore().fit(LinearRegression(), X, y)
    >>> score.values(score(Rows(X)), y + 1.0)[0].round(6)
    array([-1.,  1.])
    """

    def _fit_models(self, task: _Training) -> None:
        self.model_ = fit_model(task.estimator, task.X, task.y, task.fit_params)

    def compute(self, rows: Rows) -> Band:
        """Zero width around mu(x)."""
        if isinstance(self.model_, Curve):
            return Band.around(self.model_(rows))
        return Band.around(predict_column(self.model_, rows.X))

    def out_of_bag(self) -> Band:
        """Zero width around the forest's own out-of-bag prediction."""
        if not hasattr(self.model_, "oob_prediction_"):
            raise ValueError(
                f"got reference='oob' with {type(self.model_).__name__}, which has no "
                "oob_prediction_; use a bagged model such as RandomForestRegressor, or choose "
                "reference='cross-fit'."
            )
        return Band.around(np.asarray(self.model_.oob_prediction_, dtype=np.float64))


class AbsoluteScore(ResidualScore):
    """V = |y - mu(x)|, the larger of the two signed residuals: the score of split conformal."""

    one_sided = True


class ResponseScore(ResidualScore):
    """V_upper = y, V_lower = -y: the local law describes y itself.

    The estimator still gives the point predictions; the intervals do not use it.
    """

    def compute(self, rows: Rows) -> Band:
        """Zero width around zero."""
        return Band.around(super().compute(rows).point, np.zeros(len(rows)))

    def out_of_bag(self) -> Band:
        """The same: no model enters the score."""
        point = super().out_of_bag().point
        return Band.around(point, np.zeros_like(point))

    def is_frozen(self, estimator: Any) -> bool:
        """True: y is never in sample."""
        return True


class NormalisedScore(ResidualScore):
    """V_upper = (y - mu(x)) / s(x), V_lower = -V_upper, with s(x) = max(sigma(x), 0) + floor.

    sigma is a model of |y - mu(x)|, fitted to out-of-fold residuals (5 folds) of the training
    rows. The floor is ``beta`` times their median, so scaling y scales the intervals. Fit
    parameters such as ``sample_weight`` go to mu, not to sigma.

    Parameters
    ----------
    spread_estimator : estimator, default=None
        Model of |y - mu(x)|; None is HistGradientBoostingRegressor. A FrozenEstimator, or an
        object with only ``predict``, is not refitted.
    beta : float, default=0.01
        Lower limit of the spread, relative to the median absolute residual.
    """

    def __init__(self, spread_estimator: Any = None, beta: float = 0.01) -> None:
        self.spread_estimator = spread_estimator
        self.beta = beta

    def _fit_models(self, task: _Training) -> None:
        if not self.beta >= 0:
            raise ValueError(f"got beta={self.beta!r}; expected a number of at least 0.")
        super()._fit_models(task)
        residuals = np.abs(task.y - self._out_of_fold(task))
        self.spread_model_ = fit_model(self._spread(task.random_state), task.X, residuals)
        self.floor_ = self.beta * typical_size(clear_of_rounding(residuals, task.y))

    def _out_of_fold(self, task: _Training) -> Array:
        """mu(x) from models that have not seen the row; no folds for a frozen mu."""
        estimator, X, y, _, seed, params = task
        if is_frozen(estimator):
            return predict_column(self.model_, X)

        def predict(rest: Index, fold: Index) -> Array:
            some = take_params(params or {}, rest, len(y))
            model = fit_model(estimator, take_rows(X, rest), y[rest], some)
            return predict_column(model, take_rows(X, fold))

        folds = fold_rows(len(y), N_FOLDS, seed)
        found = fit_all([partial(predict, *one) for one in folds], estimator, X, self.n_jobs_)
        return np.concatenate(found)[np.argsort(np.concatenate([fold for _, fold in folds]))]

    def _spread(self, random_state: int | None = None) -> Any:
        """The model of the spread, unfitted or as given."""
        given = self.spread_estimator
        return default_estimator(random_state) if given is None else given

    def _models(self, estimator: Any) -> list[Any]:
        return [*super()._models(estimator), self._spread()]

    def compute(self, rows: Rows) -> Band:
        """Zero width around mu(x), in units of s(x), which stay above 0."""
        raw = np.maximum(predict_column(self.spread_model_, rows.X), 0.0) + self.floor_
        unit = np.maximum(raw, np.finfo(np.float64).tiny)
        return Band.around(super().compute(rows).point, unit=unit)

    def out_of_bag(self) -> Band:
        """Not available: sigma has no out-of-bag version."""
        return Score.out_of_bag(self)


class QuantileScore(Score):
    """V_upper = (y - q_hi(x)) / u_hi(x), V_lower = (q_lo(x) - y) / u_lo(x): the score of CQR.

    The estimator may be

    * one model with a quantile parameter (HistGradientBoosting, GradientBoosting, LightGBM,
      XGBoost, CatBoost, QuantileRegressor, or a Pipeline that ends in one): three copies are
      fitted, at the lower level, the median and the upper level;
    * a pair (lower, upper) or a triple (lower, median, upper), to train or already fitted;
    * one model, to train or already fitted, that predicts several quantiles at once: any requested
      (``predict(X, quantiles=[...])`` as in quantile-forest and TabPFN, or ``alphas=`` as in
      TabICL), or a fixed set (CatBoost's MultiQuantile, XGBoost with several ``quantile_alpha``,
      or an object that lists its levels in the attribute ``quantiles``). Levels between those are
      interpolated on the normal scale; beyond them the outermost is used;
    * one fitted model whose ``predict`` gives two or three columns in that order.

    Parameters
    ----------
    unit : {"one", "median", "width"}, default="one"
        Unit of the distance from each edge: u = 1 (CQR), the distance of the edge from the
        median (CQR-m), or q_hi - q_lo (CQR-r). Units are floored at 0.001 of their training
        median.
    """

    def __init__(self, unit: str = "one") -> None:
        self.unit = unit

    def _fit_models(self, task: _Training) -> None:
        if self.unit not in _UNITS:
            raise ValueError(f"got unit={self.unit!r}; expected one of {sorted(_UNITS)}.")
        tail = (1.0 - task.confidence_level) / 2.0
        self.levels_ = [tail, 0.5, 1.0 - tail]
        models = quantile_models(task.estimator, self.levels_)
        fits = [partial(fit_model, model, task.X, task.y, task.fit_params) for model in models]
        self.models_ = fit_all(fits, models, task.X, self.n_jobs_)
        units = list(_UNITS[self.unit](*self._curves(task.X)))
        if self.unit != "one":
            units = [clear_of_rounding(unit, task.y) for unit in units]
        self.unit_floors_ = [_FLOOR * typical_size(unit) for unit in units]

    def _curves(self, X: Any) -> tuple[Array, Array, Array]:
        """q_lo <= q_50 <= q_hi at each row, uncrossed; without a median, q_50 is the midpoint."""
        columns = predict_quantiles(self.models_, X, self.levels_)
        low, high = columns[:, [0, -1]].min(axis=1), columns[:, [0, -1]].max(axis=1)
        middle = columns[:, 1] if columns.shape[1] == 3 else (low + high) / 2.0
        return low, np.clip(middle, low, high), high

    def compute(self, rows: Rows) -> Band:
        """From q_lo(x) to q_hi(x); the point is the median, or the middle of the two."""
        low, middle, high = self._curves(rows.X)
        units = _UNITS[self.unit](low, middle, high)
        below, above = (
            np.maximum(unit, floor) for unit, floor in zip(units, self.unit_floors_, strict=True)
        )
        return Band(middle, low, high, below, above)


#: unit name -> (low, middle, high) -> (lower unit, upper unit)
_UNITS = {
    "one": lambda low, middle, high: (np.ones_like(low), np.ones_like(low)),
    "median": lambda low, middle, high: (middle - low, high - middle),
    "width": lambda low, middle, high: (high - low, high - low),
}

SCORES: dict[str, type[Score]] = {
    "residual": ResidualScore,
    "absolute": AbsoluteScore,
    "quantile": QuantileScore,
    "normalised": NormalisedScore,
    "response": ResponseScore,
}


def make_score(score: Any) -> Score:
    """A new score from its name or from an object."""
    return SCORES[score]() if isinstance(score, str) else clone(score)
