"""The point models that a command can name, ready for what a preparation yields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import clone, is_regressor
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import QuantileRegressor, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from localconformal.io.models import load_model
from localconformal.workflow.choices import unknown

CATEGORY = "category"
RIDGE_ALPHAS = tuple(10.0**power for power in range(-3, 4))
#: Of quantile regression on standardised columns: enough to make it unique.
QUANTILE_ALPHA = 1e-4


def encoded(model: Any) -> Pipeline:
    """The model behind an encoder: categories one-hot, missing numbers imputed and flagged."""
    numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
    )
    labels = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = ColumnTransformer(
        [
            ("numbers", numbers, make_column_selector(dtype_exclude=CATEGORY)),
            ("labels", labels, make_column_selector(dtype_include=CATEGORY)),
        ]
    )
    return Pipeline([("encode", encoder), ("model", model)])


def boosting(seed: int, quantile: bool) -> Any:
    """Gradient boosting, which takes categories and missing values as they are."""
    loss = {"loss": "quantile", "quantile": 0.5} if quantile else {}
    return HistGradientBoostingRegressor(
        categorical_features="from_dtype", random_state=seed, **loss
    )


def forest(seed: int, quantile: bool) -> Any:
    """A random forest behind an encoder."""
    if quantile:
        raise ValueError(
            "the model 'forest' has no quantiles, which this method needs; choose hgb or linear."
        )
    return encoded(RandomForestRegressor(random_state=seed))


def linear(seed: int, quantile: bool) -> Any:
    """A linear model behind an encoder; its quantiles by quantile regression."""
    return encoded(QuantileRegressor(alpha=QUANTILE_ALPHA) if quantile else RidgeCV(RIDGE_ALPHAS))


#: Name -> (seed, whether quantiles are to be predicted) -> unfitted model.
MODELS: dict[str, Callable[[int, bool], Any]] = {
    "hgb": boosting,
    "forest": forest,
    "linear": linear,
}
#: Methods whose base model predicts quantiles.
QUANTILE_METHODS = ("cqr",)


def model_file(name: str) -> Path | None:
    """The file that the name of a model stands for, if it is none of those known.

    Examples
    --------
    >>> model_file("mine.skops").name, model_file("hgb")
    ('mine.skops', None)
    """
    return None if name in MODELS else Path(name)


def make_base_model(name: str, method: str, seed: int) -> Any:
    """The unfitted point model of this name for a method, or that of a model file.

    A model from a file is fitted anew, so that what it saw before cannot spoil the guarantee; one
    that is no Pipeline stands behind an encoder.

    Examples
    --------
    >>> make_base_model("hgb", "slcp", 0).categorical_features
    'from_dtype'
    """
    if name in MODELS:
        return MODELS[name](seed, method in QUANTILE_METHODS)
    if not Path(name).suffix and not Path(name).exists():
        raise unknown("model", name, [*MODELS, "the path of a .skops file"])
    model = load_model(name)
    if not is_regressor(model):
        raise ValueError(
            f"{name} holds a {type(model).__name__}; a regressor of scikit-learn was expected."
        )
    fresh = clone(model)
    return fresh if isinstance(fresh, Pipeline) else encoded(fresh)
