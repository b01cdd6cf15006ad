"""Residual from a pair of quantile models: the score of CQR."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from localconformal.models import fit_all, fit_model, is_frozen, models_given, predict_column
from localconformal.parallel import SMALL_PREDICTION, few_threads
from localconformal.quantiles import Array, clear_of_rounding, typical_size
from localconformal.scores.base import Band, BaseScore

#: (parameters that tell the kind, the one that holds the level, what makes it a quantile model).
LEVEL_PARAMETERS: tuple[tuple[set[str], str, dict[str, str]], ...] = (
    ({"num_leaves", "objective"}, "alpha", {"objective": "quantile"}),  # LightGBM
    ({"booster", "objective"}, "quantile_alpha", {"objective": "reg:quantileerror"}),  # XGBoost
    ({"alpha", "loss", "n_estimators"}, "alpha", {"loss": "quantile"}),  # GradientBoosting
    ({"quantile", "loss"}, "quantile", {"loss": "quantile"}),  # HistGradientBoosting
    ({"quantile"}, "quantile", {}),  # QuantileRegressor
)


class QuantileScore(BaseScore):
    """V_upper = (y - q_hi(x)) / u_hi(x), V_lower = (q_lo(x) - y) / u_lo(x).

    The estimator may be

    * one model with a quantile parameter (HistGradientBoosting, GradientBoosting, LightGBM,
      XGBoost, QuantileRegressor, or a Pipeline that ends in one): three copies are fitted, at
      the lower level, the median and the upper level;
    * a pair (lower, upper) or a triple (lower, median, upper), to train or already fitted;
    * one multi-quantile model: ``predict(X, quantiles=[...])`` as in quantile-forest;
    * one model, frozen or not, whose ``predict`` gives two or three columns in that order.

    Parameters
    ----------
    quantiles : pair of floats, default=None
        Nominal levels of the models; None is (alpha / 2, 1 - alpha / 2).
    unit : {"one", "median", "width"}, default="one"
        Unit of the distance from each edge: u = 1 (CQR), the distance of the edge from the
        median (CQR-m), or q_hi - q_lo (CQR-r). Units are floored at ``floor`` times their
        training median.
    floor : float, default=0.001
        See above.

    Examples
    --------
    >>> QuantileScore(unit="width")
    QuantileScore(unit='width')
    """

    def __init__(
        self, quantiles: Sequence[float] | None = None, unit: str = "one", floor: float = 1e-3
    ) -> None:
        self.quantiles = quantiles
        self.unit = unit
        self.floor = floor

    def fit(
        self,
        estimator: Any,
        X: Any,
        y: Array,
        *,
        confidence_level: float = 0.9,
        random_state: int = 0,
        fit_params: Mapping[str, Any] | None = None,
    ) -> QuantileScore:
        """Fit the quantile models and the floors of the units."""
        if self.unit not in UNITS:
            raise ValueError(f"unit is {self.unit!r}; one of {sorted(UNITS)} was expected.")
        self.levels_ = self._levels(confidence_level)
        models = quantile_models(estimator, self.levels_)
        fits = [partial(fit_model, model, X, y, fit_params) for model in models]
        self.models_ = fit_all(fits, models, X)
        low, middle, high = self._curves(X)
        units = list(UNITS[self.unit](low, middle, high))
        if self.unit != "one":
            units = [clear_of_rounding(unit, y) for unit in units]
        self.unit_floors_ = [self.floor * typical_size(unit) for unit in units]
        return self

    def _levels(self, confidence_level: float) -> list[float]:
        if self.quantiles is None:
            tail = (1.0 - confidence_level) / 2.0
            return [tail, 0.5, 1.0 - tail]
        given = self.quantiles if isinstance(self.quantiles, (tuple, list, np.ndarray)) else ()
        pair = [float(level) for level in np.ravel(given) if isinstance(level, Real)]
        if np.size(given) != 2 or len(pair) != 2 or not 0.0 < pair[0] < 0.5 < pair[1] < 1.0:
            raise ValueError(
                f"quantiles are {self.quantiles!r}; a pair of levels inside (0, 1), one on each "
                "side of 0.5, was expected."
            )
        return [pair[0], 0.5, pair[1]]

    def _curves(self, X: Any) -> tuple[Array, Array, Array]:
        """q_lo <= q_50 <= q_hi at each row, un-crossed; the midpoint where no median is known."""
        columns = predict_quantiles(self.models_, X, self.levels_)
        low, high = columns[:, [0, -1]].min(axis=1), columns[:, [0, -1]].max(axis=1)
        middle = columns[:, 1] if columns.shape[1] == 3 else (low + high) / 2.0
        return low, np.clip(middle, low, high), high

    def band(self, X: Any) -> Band:
        """From q_lo(x) to q_hi(x)."""
        low, middle, high = self._curves(X)
        units = UNITS[self.unit](low, middle, high)
        below, above = (
            np.maximum(unit, floor) for unit, floor in zip(units, self.unit_floors_, strict=True)
        )
        return Band(low, high, below, above)

    def point(self, X: Any) -> Array:
        """The conditional median, or the midpoint of the pair."""
        return self._curves(X)[1]

    def is_frozen(self, estimator: Any) -> bool:
        """Nothing is trained when every model comes fitted; floors are training constants."""
        return all(map(is_frozen, models_given(estimator)))


#: unit name -> (low, middle, high) -> (lower unit, upper unit)
UNITS = {
    "one": lambda low, middle, high: (np.ones_like(low), np.ones_like(low)),
    "median": lambda low, middle, high: (middle - low, high - middle),
    "width": lambda low, middle, high: (high - low, high - low),
}


def quantile_models(estimator: Any, levels: Sequence[float]) -> list[Any]:
    """The models to fit: as given when several or multi-quantile, else one copy a level."""
    if isinstance(estimator, (tuple, list)):
        if len(estimator) not in (2, 3):
            raise ValueError(
                f"{len(estimator)} quantile models came; a pair (lower, upper) or a triple "
                "(lower, median, upper) was expected."
            )
        return list(estimator)
    if is_frozen(estimator) or takes_quantiles(estimator):
        return [estimator]
    return [at_level(estimator, level) for level in levels]


def takes_quantiles(model: Any) -> bool:
    """Whether one fitted model answers any quantile: ``predict(X, quantiles=[...])``."""
    return "quantiles" in inspect.signature(model.predict).parameters


def at_level(estimator: Any, level: float) -> Any:
    """A copy of the estimator that predicts this quantile."""
    model = clone(estimator)
    # A Pipeline keeps the parameters of its last step under that step's name.
    prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    known = model.get_params()
    for marks, parameter, others in LEVEL_PARAMETERS:
        if all(f"{prefix}{mark}" in known for mark in marks):
            settings = {**others, parameter: level}
            return model.set_params(**{f"{prefix}{name}": settings[name] for name in settings})
    raise ValueError(
        f"{type(estimator).__name__} came as a quantile model, but it has no quantile parameter; "
        "pass a model with one (such as HistGradientBoostingRegressor), a pair (lower, upper), "
        "or a multi-quantile model."
    )


def predict_quantiles(models: Sequence[Any], X: Any, levels: Sequence[float]) -> Array:
    """Columns lower, (median,) upper: (n, 2) or (n, 3)."""
    if len(models) > 1:
        return np.stack([predict_column(model, X) for model in models], axis=1)
    model = models[0]
    asked = {"quantiles": list(levels)} if takes_quantiles(model) else {}
    with few_threads(X, SMALL_PREDICTION):
        columns = np.asarray(model.predict(X, **asked), dtype=np.float64)
    if columns.ndim != 2 or columns.shape[1] not in (2, 3):
        raise ValueError(
            f"{type(model).__name__}.predict returned an array of shape {columns.shape}; columns "
            "(lower, upper) or (lower, median, upper) were expected from one quantile model."
        )
    return columns
