"""How a base model is made, fitted and asked.

Three kinds come in: an estimator to train (it is cloned first), a ``FrozenEstimator``, and any
object with only ``predict``. The last two are never fitted here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags

from localconformal.columns import LABEL, TIME, is_missing, kind_of
from localconformal.default_model import TableBoostingRegressor
from localconformal.frames import check_unmasked, columns_of, is_frame
from localconformal.parallel import SMALL_PREDICTION, few_threads, in_threads, is_small
from localconformal.quantiles import Array

T = TypeVar("T")
#: Attributes under which a fitted model keeps the one that it wraps.
WRAPPED = ("best_estimator_", "regressor_")


def default_estimator(random_state: int | None = None) -> TableBoostingRegressor:
    """What ``estimator=None`` stands for."""
    return TableBoostingRegressor(random_state=random_state)


def is_frozen(model: Any) -> bool:
    """Whether the model comes fitted: a FrozenEstimator, or an object that cannot be fitted."""
    return isinstance(model, FrozenEstimator) or not hasattr(model, "fit")


def comes_fitted(estimator: Any) -> bool:
    """Whether any of the models that the user passed comes fitted."""
    return any(map(is_frozen, models_given(estimator)))


def models_given(estimator: Any) -> list[Any]:
    """The models that the user passed: one, or several for several quantiles."""
    return list(estimator) if isinstance(estimator, (tuple, list)) else [estimator]


def fit_model(model: Any, X: Any, y: Array, fit_params: Mapping[str, Any] | None = None) -> Any:
    """A fitted clone of the model; a frozen one as it is."""
    if not hasattr(model, "predict"):
        raise ValueError(
            f"a model came as {shown(model)}, which has no predict; one regression model, fitted "
            "or not, was expected."
        )
    if is_frozen(model):
        return model
    try:
        with few_threads(X):
            return clone(model).fit(X, y, **(fit_params or {}))
    except (TypeError, ValueError) as problem:
        reason = _why_unfit(model, X)
        if reason is None:
            raise
        words = " ".join(str(problem).split())
        raise ValueError(
            f"{type(model).__name__} could not be fitted to {len(X)} rows in which {reason[0]} "
            f"({words}); {reason[1]}."
        ) from problem


def _why_unfit(model: Any, X: Any) -> tuple[str, str] | None:
    """What a model may not have been able to take of X, and what helps; None if nothing is odd."""
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
        return (
            f"columns such as {names} hold labels or times",
            f"if it takes numbers alone, pass make_pipeline({columns}, {given})",
        )
    # Boosting says nothing of columns in its message, and folds leave out the few known values.
    names = ", ".join(map(repr, empty_columns(X)[:3]))
    if not names:
        return None
    return f"the columns {names} have no known value", "leave them out, or fill them"


def fit_all(fits: Sequence[Callable[[], T]], estimator: Any, X: Any) -> list[T]:
    """Results of several fits of the estimator to (most of) the rows of X, in their order.

    Small tables side by side, in one thread each; else one after the other, each with the threads
    that it brings: copies of a large table side by side would fill the memory.
    """
    if is_small(X) and all(map(may_share_process, models_given(estimator))):
        return in_threads(fits)
    return [fit() for fit in fits]


def may_share_process(model: Any) -> bool:
    """Whether fits side by side give what they give one after the other.

    True of scikit-learn's models with seeds. Others may use what all threads share, such as
    PyTorch's random numbers, and a model without a seed uses NumPy's.
    """
    if not hasattr(model, "get_params"):
        return False
    params = {"": model, **model.get_params()}
    parts = [value for value in params.values() if hasattr(value, "get_params")]
    known = all(type(part).__module__.startswith(("sklearn.", "localconformal.")) for part in parts)
    free = [name for name, value in params.items() if value is None]
    own_code = [
        value
        for value in params.values()
        if callable(value) and not isinstance(value, type) and value not in parts
    ]
    return known and not own_code and not any(name.endswith("random_state") for name in free)


def empty_columns(X: Any) -> list[Any]:
    """Names, or positions, of columns without any known value."""
    if is_frame(X):
        return [one.name for one in columns_of(X) if all(map(is_missing, one.to_list()))]
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.dtype.kind not in "fO":
        return []
    return [place for place, one in enumerate(rows.T) if all(map(is_missing, one))]


def predict_column(model: Any, X: Any) -> Array:
    """Point predictions of the model as a float64 array of shape (n,)."""
    with few_threads(X, SMALL_PREDICTION):
        prediction = np.asarray(model.predict(X), dtype=np.float64)
    if prediction.size != len(X):
        raise ValueError(
            f"{type(model).__name__}.predict returned an array of shape {prediction.shape} for "
            f"{len(X)} rows; one number a row was expected: wrap a single-output model."
        )
    return prediction.reshape(len(X))


def check_finite(*predictions: Array) -> None:
    """Predictions of a base model, finite or refused."""
    if not all(np.all(np.isfinite(column)) for column in predictions):
        raise ValueError(
            "the base model predicts NaN or infinite values for some rows; finite numbers were "
            "expected: check those rows, or the model."
        )


def shown(value: Any) -> str:
    """How a message shows a value; a model's own text may run over several lines.

    Examples
    --------
    >>> print(shown(np.eye(2)))
    array([[1., 0.], [0., 1.]])
    """
    return " ".join(repr(value).split())


def unwrap(model: Any) -> tuple[list[Any], Any]:
    """The transformers before a fitted model, and the model itself, whatever wraps them."""
    if isinstance(model, FrozenEstimator):
        return unwrap(model.estimator)
    for name in WRAPPED:
        if hasattr(model, name):
            return unwrap(getattr(model, name))
    if isinstance(model, Pipeline):
        before, last = unwrap(model.steps[-1][1])
        return ([model[:-1]] if len(model.steps) > 1 else []) + before, last
    return [], model


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """The given rows of an array or a frame."""
    return _safe_indexing(X, rows)


def check_params(params: Mapping[str, Any], n_rows: int, estimator: Any) -> None:
    """Fit parameters that cannot be meant are refused."""
    if params and comes_fitted(estimator):
        raise ValueError(
            f"fit got {sorted(params)}, but the model is already fitted and takes no fit "
            "parameters; leave them out."
        )
    for name, model in product(params, models_given(estimator)):
        if not takes_param(model, name):
            hint = " (for intervals within groups: MondrianConformalRegressor)"
            raise TypeError(
                f"fit got {name}, which the base model {type(model).__name__} does not take; "
                f"leave it out{hint if name == 'groups' else ''}."
            )
    weight: Any = params.get("sample_weight")
    check_unmasked(weight, "sample_weight")
    if weight is not None and np.ndim(weight) and len(weight) != n_rows:
        raise ValueError(
            f"sample_weight has {len(weight)} entries and X has {n_rows} rows; one per row was "
            "expected, calibration rows included."
        )


def takes_param(estimator: Any, name: str) -> bool:
    """Whether ``fit`` of a model takes a parameter of this name; true where that cannot be told."""
    try:
        known = inspect.signature(estimator.fit).parameters
    except (AttributeError, TypeError, ValueError):
        return True
    return name in known or any(one.kind is one.VAR_KEYWORD for one in known.values())


def take_params(params: Mapping[str, Any], rows: NDArray[np.intp], n_rows: int) -> dict[str, Any]:
    """Fit parameters with one entry a row (such as sample_weight) cut to the given rows."""
    return {
        name: take_rows(value, rows)
        if not isinstance(value, str) and hasattr(value, "__len__") and len(value) == n_rows
        else value
        for name, value in params.items()
    }


def accepts_missing(model: Any) -> bool:
    """Whether NaN may go to the model: unless its tags refuse it, the model decides for itself."""
    return is_composite(model) or bool(getattr(_input_tags(model), "allow_nan", True))


def is_composite(model: Any) -> bool:
    """Whether the model wraps others (Pipeline, search, ...): its own tags say little then."""
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    # Parameters, not attributes: a forest keeps the tree that it grows as its estimator.
    known = model.get_params(deep=False) if hasattr(model, "get_params") else ()
    return any(part in known for part in ("steps", "estimator", "regressor", "estimators"))


def accepts_more_dimensions(model: Any) -> bool:
    """Whether X of more than two dimensions may go to the model, or what comes first in it.

    Its tags decide; a model without tags, and a skorch net, decide for themselves.
    """
    for name in ("estimator", "regressor"):
        if hasattr(model, name):
            return accepts_more_dimensions(getattr(model, name))
    if isinstance(model, Pipeline):
        return accepts_more_dimensions(model.steps[0][1])
    if is_skorch(model):
        return True
    return bool(getattr(_input_tags(model), "three_d_array", model is not None))


def is_skorch(model: Any) -> bool:
    """Whether the model is a skorch net, whose tags say nothing of what its module takes."""
    return any(kind.__module__.partition(".")[0] == "skorch" for kind in type(model).__mro__)


def _input_tags(model: Any) -> Any:
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    if isinstance(model, (tuple, list)):
        model = model[0]
    if model is None:
        model = default_estimator()
    return get_tags(model).input_tags if hasattr(model, "__sklearn_tags__") else None
