"""The rows of one query, and the answers of fitted objects at these rows.

A `Curve` is anything that maps a row to numbers: the fitted score, a spread, a view of the
features, a cell, a weight. It is evaluated through `Rows`, which keep the answer: a model is called
once per query. Reference rows are rows whose answers were filled in beforehand, by models that have
not seen them. So nothing that learns from reference rows meets an in-sample answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import blake2b
from importlib import import_module
from math import prod
from numbers import Integral
from typing import Any
from zlib import crc32

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, gen_batches, get_tags
from threadpoolctl import ThreadpoolController

from localconformal.quantiles import Array, clear_of_rounding

Index = NDArray[np.intp]
#: Rows whose local laws are held at a time: about 0.1 kB each for a kernel or a forest of many
#: reference rows, up to 5 kB for a stack of laws of every kind, 330 MB in total.
ROWS_AT_A_TIME = 2**16
#: Numbers in a table up to which a model is fitted, or predicts, in one OpenMP thread. Boosting on
#: a million takes a second in one thread; with threads on a busy machine it took thirty.
_SMALL_FIT, _SMALL_PREDICTION = 1_000_000, 100_000
#: Packages with their own threads, which may be imported after we have looked.
_LATECOMERS = ("torch", "lightgbm", "xgboost", "catboost")


class Curve:
    """A map from a row to numbers: a deterministic function of training rows and that row."""

    def compute(self, rows: Rows) -> Any:
        """(n,), (n, k), or a NamedTuple of (n,)."""
        raise NotImplementedError

    def __call__(self, rows: Rows) -> Any:
        """The answer of `compute`, which the rows keep."""
        if self not in rows.known:
            rows.known[self] = self.compute(rows)
        return rows.known[self]


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """X, an array or a frame of n rows, and what is known about them."""

    X: Any
    #: Groups or weights, one entry per row.
    beside: Any = None
    #: The point model, whose answer has a ``point``: the fitted score, or a blend.
    model: Curve | None = None
    #: sigma(x), if it is already known.
    spread: Curve | None = None
    #: Curve -> its answer at these rows.
    known: dict[Curve, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def point(self) -> Array:
        """Point predictions, (n,); 0 for a law fitted outside a regressor."""
        return np.zeros(len(self)) if self.model is None else np.asarray(self.model(self).point)

    def response(self, v: Array) -> Array:
        """y at reference rows; the score itself for a law fitted outside a regressor."""
        return np.asarray(self.known.get(RESPONSE, v))

    def are_residuals(self, v: Array) -> bool:
        """Whether the scores are y - mu(x)."""
        residual = self.response(v) - self.point
        return np.allclose(v, residual, rtol=1e-9, atol=1e-9 * float(np.abs(residual).max()))

    def of(self, model: Curve | None, spread: Curve | None = None) -> Rows:
        """The same rows, with another point model."""
        return Rows(self.X, self.beside, model, spread, self.known)

    def take(self, index: Index) -> Rows:
        """Some of the rows, with all known answers."""
        beside = None if self.beside is None else take_rows(self.beside, index)
        known = {curve: _cut(answer, index) for curve, answer in self.known.items()}
        return Rows(take_rows(self.X, index), beside, self.model, self.spread, known)

    def parts(self, most: int = ROWS_AT_A_TIME) -> Iterator[tuple[slice, Rows]]:
        """At most this many rows at a time: their positions, and the rows."""
        if len(self) <= most:
            yield slice(0, len(self)), self
            return
        for part in gen_batches(len(self), most):
            yield part, self.take(np.arange(part.start, part.stop))


def _cut(answer: Any, index: Index) -> Any:
    if isinstance(answer, tuple):
        return type(answer)(*(column[index] for column in answer))
    return answer[index]


def as_rows(X: Any) -> Rows:
    """X itself if it is `Rows` already."""
    return X if isinstance(X, Rows) else Rows(X)


class _RowHash(Curve):
    def compute(self, rows: Rows) -> NDArray[np.uint64]:
        return row_hashes(rows.X)


_ROW_HASH = _RowHash()
#: y, known at reference rows; it cannot be computed.
RESPONSE = Curve()


@dataclass(frozen=True)
class Reference:
    """What laws, adjustments and corrections learn from.

    The rows hold answers of models that have not seen them, and the response y (n,). The score is
    fitted, its two sides are folded as defined by `Sides`; the law is unfitted.
    """

    rows: Rows
    y: Array
    score: Any
    sides: Any
    seed: int
    n_jobs: int | None = None
    law: Any = None

    @cached_property
    def V(self) -> Array:
        """Scores (n, S); an error if they are not finite."""
        V = self.score.values(self.score(self.rows), self.y)
        if not np.all(np.isfinite(V)):
            bad = np.count_nonzero(~np.isfinite(V).all(axis=1))
            raise ValueError(
                f"{bad} of {len(V)} reference scores are NaN or infinite; expected finite numbers: "
                "check the base model's predictions."
            )
        return np.asarray(self.sides.fold(V))

    @cached_property
    def sizes(self) -> Array:
        """Scores (n, S) to learn constants from, with rounding errors set to zero."""
        error, size = np.abs(self.y - self.rows.point), np.abs(self.V).max(axis=1)
        both = (error > 0.0) & (size > 0.0)
        # Scores may be in units of a spread; if there is no error, any unit will do.
        unit = float(np.median(error[both] / size[both])) if both.any() else 1.0
        return clear_of_rounding(self.V, self.y, unit)


def canonical_order(rows: Rows, v: Array) -> Index:
    """Sort by score (n,), then by content: the original order of rows does not matter."""
    return np.lexsort((_ROW_HASH(rows), v))


# ---- splits -------------------------------------------------------------------------------------


def split_rows(n: int, share: float | int | None, seed: int) -> tuple[Index, Index]:
    """Rows 0..n-1 in two disjoint parts; ``share`` of the second: a share, a number or None."""
    rows = np.arange(n)
    if share is None:
        return rows, rows[:0]
    if n < 2:
        raise ValueError(
            f"got n_samples={n}, too few to split into training and calibration rows; expected at "
            "least 2: pass more, or calibration_size=None and call conformalize after fit."
        )
    if isinstance(share, Integral) and share >= n:
        raise ValueError(
            f"got calibration_size={share} and {n} rows; expected fewer than {n}, so that some are "
            "left to train on."
        )
    first, second = train_test_split(rows, test_size=share, random_state=seed)
    return np.sort(first), np.sort(second)


def fold_rows(n: int, n_folds: int, seed: int) -> list[tuple[Index, Index]]:
    """(other rows, fold) for at most ``n_folds`` shuffled folds of 0..n-1."""
    if n < 2:
        raise ValueError(
            f"got n_samples={n} for cross-fitting; expected at least 2 training rows: pass more."
        )
    folds = KFold(min(n_folds, n), shuffle=True, random_state=seed)
    return list(folds.split(np.empty((n, 0))))


def take_rows(X: Any, rows: Index | slice) -> Any:
    """The given rows of an array or a frame."""
    return _safe_indexing(X, rows)


def take_params(params: Mapping[str, Any], rows: Index, n_rows: int) -> dict[str, Any]:
    """Fit parameters, with those per row (such as sample_weight) restricted to the given rows."""
    return {
        name: take_rows(value, rows)
        if not isinstance(value, str) and hasattr(value, "__len__") and len(value) == n_rows
        else value
        for name, value in params.items()
    }


# ---- models and rows ----------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value as text on one line, for messages."""
    return " ".join(repr(value).split())


def is_frozen(model: Any) -> bool:
    """Whether the model is already fitted: a FrozenEstimator, or an object without ``fit``."""
    return isinstance(model, FrozenEstimator) or not hasattr(model, "fit")


def models_given(estimator: Any) -> list[Any]:
    """The models that the user passed: one, or several for several quantiles."""
    return list(estimator) if isinstance(estimator, (tuple, list)) else [estimator]


def fit_model(model: Any, X: Any, y: Array, fit_params: Mapping[str, Any] | None = None) -> Any:
    """A fitted clone of the model; a frozen model is returned unchanged."""
    if not hasattr(model, "predict"):
        raise ValueError(
            f"got the model {shown(model)}, which has no predict; expected one regression model, "
            "fitted or not."
        )
    if is_frozen(model):
        return model
    try:
        with few_threads(X):
            return clone(model).fit(X, y, **(fit_params or {}))
    except (TypeError, ValueError) as problem:
        # By name: that module reads columns, a later layer.
        import_module("localconformal.models").explain_failed_fit(model, X, problem)
        raise


def predict_column(model: Any, X: Any) -> Array:
    """Point predictions of the model as a float64 array of shape (n,)."""
    with few_threads(X, predicts=True):
        prediction = np.asarray(model.predict(X), dtype=np.float64)
    if prediction.size != len(X):
        raise ValueError(
            f"{type(model).__name__}.predict returned an array of shape {prediction.shape} for "
            f"{len(X)} rows; expected one number per row: use a single-output model, or "
            "conformity_score='quantile' if the columns are quantiles."
        )
    return prediction.reshape(len(X))


def accepts_missing(model: Any) -> bool:
    """Whether to pass NaN to the model: yes, unless its tags rule it out."""
    return is_composite(model) or bool(getattr(_input_tags(model), "allow_nan", True))


def is_composite(model: Any) -> bool:
    """Whether the model wraps others (Pipeline, search, ...), so its own tags say little."""
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    # Parameters, not attributes: a forest also has an attribute ``estimator``, its tree.
    is_told = hasattr(model, "get_params") and not isinstance(model, type)
    known = model.get_params(deep=False) if is_told else ()
    return any(part in known for part in ("steps", "estimator", "regressor", "estimators"))


def accepts_more_dimensions(model: Any) -> bool:
    """Whether the model, or its first step, accepts X of more than two dimensions."""
    for name in ("estimator", "regressor"):
        if hasattr(model, name):
            return accepts_more_dimensions(getattr(model, name))
    if isinstance(model, Pipeline):
        return accepts_more_dimensions(model.steps[0][1])
    # Tags of a skorch net do not describe its module, which checks X itself.
    if any(kind.__module__.partition(".")[0] == "skorch" for kind in type(model).__mro__):
        return True
    return bool(getattr(_input_tags(model), "three_d_array", model is not None))


def _input_tags(model: Any) -> Any:
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    model = models_given(model)[0]
    is_told = hasattr(model, "__sklearn_tags__") and not isinstance(model, type)
    return get_tags(model).input_tags if is_told else None


def is_small(X: Any, predicts: bool = False) -> bool:
    """Whether X is so small that threads would wait longer than they work."""
    return prod(np.shape(X)) <= (_SMALL_PREDICTION if predicts else _SMALL_FIT)


def few_threads(X: Any, predicts: bool = False) -> AbstractContextManager[Any]:
    """One OpenMP thread while a model works on a small table; no limit on a large one."""
    return thread_pools("openmp").limit(limits=1) if is_small(X, predicts) else nullcontext()


def thread_pools(user_api: str) -> Any:
    """The controller of the loaded libraries of one kind."""
    return _pools_among(user_api, tuple(name for name in _LATECOMERS if name in sys.modules))


@lru_cache(maxsize=8)
def _pools_among(user_api: str, loaded: tuple[str, ...]) -> Any:
    # Finding the loaded libraries takes milliseconds, so it is done once per set of them.
    # Selected first: a limit restores everything its controller knows, also other kinds.
    return ThreadpoolController().select(user_api=user_api)


# ---- tables in and out: pandas, polars or plain arrays ------------------------------------------


def is_frame(X: Any) -> bool:
    """Whether X is a data frame held in memory (pandas, polars, ...)."""
    return bool(nw.dependencies.is_into_dataframe(X))


def check_unmasked(values: Any, name: str) -> None:
    """Reject masked entries: models would read the values behind the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with {np.count_nonzero(values.mask)} masked value(s), which "
            "models would read as if they were known; leave these rows out, or fill them."
        )


def check_frame(X: Any) -> Any:
    """X, checked: a frame must have rows, columns and unique names, an array no masked values."""
    check_unmasked(X, "X")
    if is_frame(X):
        columns = columns_of(X)
        if not columns or len(X) == 0:
            raise ValueError(
                f"got X with {len(X)} row(s) and {len(columns)} column(s), that is 0 sample(s) or "
                "features; expected at least 1 of each."
            )
    elif hasattr(X, "collect"):
        raise ValueError(
            f"X is a {type(X).__name__}, which holds no rows yet; call X.collect() first."
        )
    return X


def table_names(X: Any) -> list[Any]:
    """Names of a frame's columns; x0, x1, ... for an array."""
    columns = columns_of(X) if is_frame(X) else []
    return [column.name for column in columns] or [f"x{j}" for j in range(np.shape(X)[1])]


def columns_of(X: Any) -> list[nw.Series[Any]]:
    """The columns of a frame, with names of any type."""
    try:
        return list(nw.from_native(X, eager_only=True).iter_columns())
    except nw.exceptions.DuplicateError as error:
        raise ValueError("X has repeated column names; rename them to be unique.") from error


def stack_rows(X: Any, others: Any) -> Any:
    """The rows of X followed by the others, in the library of X."""
    if not is_frame(X):
        return np.concatenate([np.asarray(X), np.asarray(others)])
    return nw.concat([nw.from_native(X), nw.from_native(others)]).to_native()


def at_ends(
    columns: Mapping[str, Any], first: Sequence[str], last: Sequence[str]
) -> dict[str, Any]:
    """The columns with these at both ends: a narrow terminal hides those in the middle."""
    between = [name for name in columns if name not in (*first, *last)]
    return {name: columns[name] for name in (*first, *between, *last) if name in columns}


def make_frame(columns: Mapping[str, Any], like: Any) -> Any:
    """A frame in the library of ``like``, with its index; else pandas, or polars without it."""
    if not is_frame(like):
        return _installed_frame()(dict(columns))
    backend = nw.get_native_namespace(nw.from_native(like))
    native = nw.from_dict(dict(columns), backend=backend).to_native()
    if nw.dependencies.is_pandas_dataframe(like):
        native.index = like.index
    return native


def _installed_frame() -> Any:
    """The class of data frames that is installed."""
    for name in ("pandas", "polars"):
        try:
            return import_module(name).DataFrame
        except ImportError:
            continue
    raise ImportError(
        "a table of results needs pandas or polars, and neither is installed: run "
        "pip install 'localconformal[plots]', which includes pandas."
    )


def row_hashes(X: Any, *beside: NDArray[np.float64]) -> NDArray[np.uint64]:
    """A 64-bit hash of each row of (X, ...), equal for rows with equal values."""
    mixed = np.zeros(len(X), dtype=np.uint64)
    for position, column in enumerate([*_columns(X), *beside]):
        mixed = _mix(mixed ^ (_bits(column) + np.uint64(position)))
    return mixed


def _columns(X: Any) -> list[NDArray[Any]]:
    if is_frame(X):
        return [column.to_numpy() for column in columns_of(X)]
    array = np.asarray(X)
    if array.ndim > 2:
        return [np.array([_digest(row) for row in array])]
    return list(array.reshape(len(array), -1).T)


def _digest(row: NDArray[Any]) -> int:
    """A hash of a row of many numbers, such as an image: column by column would take too long."""
    values = row.astype(np.float64) + 0.0
    return int.from_bytes(blake2b(values.tobytes(), digest_size=6).digest(), "little")


def _bits(column: NDArray[Any]) -> NDArray[np.uint64]:
    if column.dtype.kind in "biufM":
        # + 0.0 makes -0.0 and 0.0 the same bits.
        return (column.astype(np.float64) + 0.0).view(np.uint64)
    # crc32, not hash(): the latter differs from one Python process to the next.
    return np.array([crc32(str(value).encode()) for value in column], dtype=np.uint64)


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
