"""Base models: the default, several fits at once, quantile models, wrapped models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from localconformal.columns import LABEL, TIME, is_missing, kind_of
from localconformal.default_model import TableBoostingRegressor
from localconformal.parallel import in_threads
from localconformal.quantiles import Array, as_levels
from localconformal.rows import (
    accepts_missing,
    columns_of,
    few_threads,
    is_composite,
    is_frame,
    is_frozen,
    is_small,
    models_given,
    predict_column,
    shown,
    take_rows,
)

_T = TypeVar("_T")

#: (parameters that identify the library, level -> parameters for a model of that quantile):
#: LightGBM, XGBoost, CatBoost, GradientBoosting, HistGradientBoosting, QuantileRegressor.
_LEVEL_PARAMETERS: tuple[tuple[set[str], Callable[[float], dict[str, Any]]], ...] = (
    ({"num_leaves", "objective"}, lambda q: {"objective": "quantile", "alpha": q}),
    ({"booster", "objective"}, lambda q: {"objective": "reg:quantileerror", "quantile_alpha": q}),
    ({"loss_function"}, lambda q: {"loss_function": f"Quantile:alpha={q}"}),
    ({"alpha", "loss", "n_estimators"}, lambda q: {"loss": "quantile", "alpha": q}),
    ({"quantile", "loss"}, lambda q: {"loss": "quantile", "quantile": q}),
    ({"quantile"}, lambda q: {"quantile": q}),
)
#: Names of the argument of ``predict`` for levels: quantile-forest and TabPFN, TabICL.
_ASKED = ("quantiles", "alphas")
#: Where a model keeps the levels of its columns: XGBoost, users' own models.
_KEPT = ("quantile_alpha", "quantiles")


def default_estimator(random_state: int | None = None) -> TableBoostingRegressor:
    """The model of ``estimator=None``."""
    return TableBoostingRegressor(random_state=random_state)


def explain_failed_fit(model: Any, X: Any, problem: Exception) -> None:
    """Raise an explanation if X may be the reason why a model could not be fitted."""
    kinds = [(kind_of(one), one.name) for one in columns_of(X)] if is_frame(X) else []
    labels, times = ([name for kind, name in kinds if kind == odd] for odd in (LABEL, TIME))
    if (labels or times) and not is_composite(model):
        steps = [f'(OneHotEncoder(handle_unknown="ignore"), {labels})'] if labels else []
        steps += [f'("drop", {times})'] if times else []
        has_gaps = any(one.is_null().any() for one in columns_of(X)) and not accepts_missing(model)
        rest = "SimpleImputer()" if has_gaps else '"passthrough"'
        columns = f"make_column_transformer({', '.join(steps)}, remainder={rest})"
        given = shown(model) if len(shown(model)) < 80 else "model"
        names = ", ".join(map(repr, [*labels, *times][:3]))
        odd_rows = f"columns such as {names} hold labels or times"
        remedy = f"if it takes only numbers, pass make_pipeline({columns}, {given})"
    elif empty := ", ".join(map(repr, _empty_columns(X)[:3])):
        # Boosting's message names no columns, and folds may leave out the few known values.
        odd_rows = f"the columns {empty} have no known value"
        remedy = "leave them out, or fill them"
    else:
        return
    raise ValueError(
        f"{type(model).__name__} could not be fitted to {len(X)} rows in which {odd_rows} "
        f"({' '.join(str(problem).split())}); {remedy}."
    ) from problem


def fit_all(
    fits: Sequence[Callable[[], _T]], estimator: Any, X: Any, n_jobs: int | None = None
) -> list[_T]:
    """Results of several fits of the estimator to (most of) the rows of X, in their order.

    Small tables in parallel, one thread each; else one after the other, each with its own threads:
    parallel copies of a large table would fill the memory.
    """
    if is_small(X) and all(map(_may_share_process, models_given(estimator))):
        return in_threads(fits, n_jobs)
    return [fit() for fit in fits]


def _may_share_process(model: Any) -> bool:
    """Whether parallel fits give the same results as sequential ones.

    True for scikit-learn's models with seeds. Others may use state that all threads share, such as
    PyTorch's random numbers, and a model without a seed uses NumPy's.
    """
    if not hasattr(model, "get_params"):
        return False
    params = {"": model, **model.get_params()}
    parts = [value for value in params.values() if hasattr(value, "get_params")]
    known = all(type(part).__module__.startswith(("sklearn.", "localconformal.")) for part in parts)
    free = [name for name, value in params.items() if value is None]
    own_code = any(
        callable(one) and not isinstance(one, type) and one not in parts for one in params.values()
    )
    return known and not own_code and not any(name.endswith("random_state") for name in free)


def _empty_columns(X: Any) -> list[Any]:
    """Names, or positions, of columns without any known value."""
    if is_frame(X):
        return [one.name for one in columns_of(X) if all(map(is_missing, one.to_list()))]
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fO":
        return []
    return [place for place, one in enumerate(rows.T) if all(map(is_missing, one))]


def unwrap(model: Any) -> tuple[list[Any], Any]:
    """The transformers before a fitted model, and the model itself, without its wrappers."""
    if isinstance(model, FrozenEstimator):
        return unwrap(model.estimator)
    for name in ("best_estimator_", "regressor_"):
        if hasattr(model, name):
            return unwrap(getattr(model, name))
    if isinstance(model, Pipeline):
        before, last = unwrap(model.steps[-1][1])
        return ([model[:-1]] if len(model.steps) > 1 else []) + before, last
    return [], model


def quantile_models(estimator: Any, levels: Sequence[float]) -> list[Any]:
    """The models to fit: as given if several or multi-quantile, else one copy per level."""
    if isinstance(estimator, (tuple, list)):
        if len(estimator) not in (2, 3):
            raise ValueError(
                f"got {len(estimator)} quantile models; expected a pair (lower, upper) or a triple "
                "(lower, median, upper)."
            )
        return list(estimator)
    if is_frozen(estimator) or predicts_several(estimator):
        return [estimator]
    return [at_level(estimator, level) for level in levels]


def predicts_several(model: Any) -> bool:
    """Whether one model predicts several quantiles at once, at known or requested levels."""
    return bool(_question(model, [])) or own_levels(model) is not None


def _question(model: Any, levels: Sequence[float] | Array) -> dict[str, Any]:
    """Arguments that make ``predict`` return these levels; empty if it takes none."""
    last, outer = (_arguments(one) for one in (unwrap(model)[1], model))
    # A Pipeline passes arguments on to its last step; a search does not.
    passed = [name for name in _ASKED if name in last and {name, "**"} & outer]
    kind = {"output_type": "quantiles"} if "output_type" in last else {}
    return {passed[0]: list(levels), **kind} if passed else {}


def _arguments(model: Any) -> set[str]:
    """Names of the arguments of ``predict``, with ** for any."""
    if not hasattr(model, "predict"):
        return set()
    known = inspect.signature(model.predict).parameters.values()
    return {"**" if one.kind is one.VAR_KEYWORD else one.name for one in known}


def own_levels(model: Any) -> Array | None:
    """Levels (k,) of the columns that a model predicts, if it has several and lists them."""
    last = unwrap(model)[1]
    is_told = hasattr(last, "get_params") and not isinstance(last, type)
    known = last.get_params(deep=False) if is_told else {}
    kept: list[Any] = [known.get(name, getattr(last, name, None)) for name in _KEPT]
    # CatBoost has two names for its loss.
    for loss in (known.get("loss_function"), known.get("objective")):
        if catboost := re.match(r"MultiQuantile:.*\balpha=([^;]+)", str(loss)):
            kept = [catboost[1].split(",")]
    found = next(([float(q) for q in one] for one in kept if np.size(one) > 1), None)
    return None if found is None else as_levels(found, "the model's quantiles")


def at_level(estimator: Any, level: float) -> Any:
    """A copy of the estimator that predicts this quantile."""
    model = clone(estimator)
    # A Pipeline keeps the parameters of its last step under that step's name.
    prefix = f"{model.steps[-1][0]}__" if hasattr(model, "steps") else ""
    known = model.get_params()
    for marks, settings in _LEVEL_PARAMETERS:
        if all(f"{prefix}{mark}" in known for mark in marks):
            return model.set_params(**{prefix + name: v for name, v in settings(level).items()})
    raise ValueError(
        f"got {type(estimator).__name__}, which has no quantile parameter; expected a model with "
        "one (such as HistGradientBoostingRegressor), a pair (lower, upper), or a multi-quantile "
        "model."
    )


def predict_quantiles(models: Sequence[Any], X: Any, levels: Sequence[float] | Array) -> Array:
    """Columns at these levels, (n, L); two or three for a model without known levels."""
    if len(models) > 1:
        return np.stack([predict_column(model, X) for model in models], axis=1)
    model, n = models[0], len(X)
    question, own = _question(model, levels), own_levels(model)
    known = np.asarray(levels if question or own is None else own)
    says = bool(question) or own is not None
    # Some models return (L, n): if n == L, one more row shows which axis is which.
    rows = take_rows(X, np.arange(n + 1) % n) if says and n == len(known) else X
    with few_threads(X, predicts=True):
        columns = np.asarray(model.predict(rows, **question), dtype=np.float64)
    if says and columns.shape == (len(known), len(rows)):
        columns = columns.T
    counts = [len(known)] if says else [2, 3]
    if columns.shape not in [(len(rows), count) for count in counts]:
        named = f"a column for each of the levels {known.tolist()}"
        plain = "columns (lower, upper) or (lower, median, upper) from one quantile model"
        raise ValueError(
            f"{type(model).__name__}.predict returned an array of shape {columns.shape} for "
            f"{len(rows)} rows; expected {named if says else plain}."
        )
    if not says:
        return columns
    order = np.argsort(known)
    # Infinite columns become NaN, which laws and scores refuse.
    with np.errstate(invalid="ignore"):
        return interpolate(columns[:n, order], known[order], np.asarray(levels))


def interpolate(curves: Array, levels: Array, asked: Array) -> Array:
    """Curves (n, k) at levels (k,) -> (n, len(asked)), linear on the normal scale.

    Beyond the outer levels, the outer curves are used; at the level of a curve, that curve.
    """
    place = np.interp(ndtri(asked), ndtri(levels), np.arange(len(levels))).round(12)
    left = np.minimum(place.astype(np.intp), len(levels) - 2)
    share = place - left
    return np.asarray(curves[:, left] * (1.0 - share) + curves[:, left + 1] * share)
