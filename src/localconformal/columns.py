"""Columns of a table, read in one way: numbers, times, labels, names of cells; rows as points.

All modules read columns here, so a label has the same name everywhere. The kind of each column is
learned from training rows and kept: later rows are read value by value, whatever their types, or
rejected with the column's name. So a row has the same numbers and labels alone or in a batch.

* Numbers, booleans and durations are numbers, also in columns of objects (decimals too). Strings
  are labels, even if they are digits, except in an array, which has one dtype for all columns;
  categories are labels, even if they are whole numbers.
* All missing values are the same: None, NaN, NaT, pandas.NA.
* Labels are compared by their text: 1, 1.0 and "1" are one label. Times with a zone are in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.preprocessing import OneHotEncoder

from localconformal.quantiles import Array, typical_size
from localconformal.rows import (
    Curve,
    Rows,
    check_frame,
    check_unmasked,
    columns_of,
    is_frame,
    table_names,
)
from localconformal.text import listing

NUMBER, TIME, LABEL, EMPTY = "number", "time", "label", "empty"
#: Kinds of numbers that only `Column` distinguishes.
DURATION, _FLAG = "duration", "flag"
#: The code of a missing value.
MISSING = -1
#: Labels that HistGradientBoosting accepts in a column; rarer labels are merged into one.
_MAX_LABELS = 250
#: The name of missing labels.
MISSING_NAME = "missing"
#: An array of names is as wide as its longest; longer names are replaced by a digest.
_LONGEST_NAME = 100
_TIMES, _DURATIONS = (date, np.datetime64), (timedelta, np.timedelta64)
_BOOLEANS = (bool, np.bool_)
# Rarer categories share one column, so that identifiers do not fill the memory.
_MAX_CATEGORIES = 50
# Squares of larger numbers, and sums of them, leave the range of float64.
_LARGEST = 1e150
# Squared distances of points within this box stay finite for any bandwidth a kernel may have.
_FARTHEST_POINT = 1e50
#: Predictions are clipped at this distance from their centre: trees compare in float32.
_FARTHEST_PREDICTION = 1e30


def split_columns(X: Any, kinds: list[str] | None = None) -> tuple[Array, NDArray[Any], list[str]]:
    """Numbers (n, a), labels (n, b) and the kind of each column, given as ``kinds`` or inferred.

    Times are numbers here, in seconds since 1970. Labels are strings, None if missing.
    """
    if is_frame(X):
        columns: list[tuple[Any, Any]] = [(column.name, column) for column in columns_of(X)]
        are_numbers = False
    else:
        array = np.asarray(X)
        # Not -1, which is undefined for an array without rows.
        array = array.reshape(len(array), math.prod(array.shape[1:]))
        columns = list(enumerate(array.T))
        are_numbers = array.dtype.kind in "biuf" and set(kinds or ()) <= {NUMBER}
    if kinds is not None and len(columns) != len(kinds):
        raise ValueError(f"got X with {len(columns)} columns; expected {len(kinds)}, as at fit.")
    found: list[str] = []
    numbers, labels = [np.empty((len(X), 0))], [np.empty((len(X), 0), dtype=object)]
    if are_numbers:
        return array.astype(np.float64), labels[0], [NUMBER] * len(columns)
    for place, (name, column) in enumerate(columns):
        kind = kind_of(column) if kinds is None else kinds[place]
        kind = NUMBER if kind in (_FLAG, DURATION) else kind
        read = _as_labels(column) if kind == LABEL else _as_numbers(name, column, kind)
        if kinds is None and _is_empty(read):
            kind, read = EMPTY, np.full(len(read), np.nan)
        found.append(kind)
        (labels if kind == LABEL else numbers).append(read[:, None])
    return np.hstack(numbers), np.hstack(labels), found


def kind_of(column: Any) -> str:
    """The kind of a column, by its dtype, or by its values if the dtype does not say."""
    if isinstance(column, nw.Series):
        dtype = column.dtype
        if dtype in (nw.Object, nw.Unknown):
            return _kind_of_values(column)
        known = {nw.Boolean: _FLAG, nw.Duration: DURATION, nw.Datetime: TIME, nw.Date: TIME}
        found = [kind for one, kind in known.items() if dtype == one]
        return found[0] if found else NUMBER if dtype.is_numeric() else LABEL
    kinds = {"b": _FLAG, "m": DURATION, "M": TIME, **dict.fromkeys("iuf", NUMBER)}
    kind = kinds.get(column.dtype.kind) or _kind_of_values(column)
    if kind == LABEL:
        # An array has one dtype for all columns: numbers next to strings may be strings too.
        try:
            _floats(column, NUMBER)
        except (TypeError, ValueError):
            return LABEL
        return NUMBER
    return kind


def _kind_of_values(values: Iterable[Any]) -> str:
    known = [value for value in values if not is_missing(value)]
    for kind, types in ((TIME, _TIMES), (_FLAG, _BOOLEANS), (DURATION, _DURATIONS)):
        if known and all(isinstance(value, types) for value in known):
            return kind
    numbers = (Real, Decimal, *_BOOLEANS)
    # NumPy durations are instances of Real.
    are_numbers = [isinstance(v, numbers) and not isinstance(v, _DURATIONS) for v in known]
    return NUMBER if known and all(are_numbers) else LABEL


def _is_empty(read: NDArray[Any]) -> bool:
    """Whether there are rows, and all values are missing."""
    missing = [label is None for label in read] if read.dtype == object else np.isnan(read)
    return len(read) > 0 and bool(np.all(missing))


def _as_numbers(name: Any, column: Any, kind: str = NUMBER) -> Array:
    """The column as floats, missing values as NaN; times and durations in seconds."""
    if kind == EMPTY:
        return np.full(len(column), np.nan)
    try:
        if isinstance(column, nw.Series):
            column = _plain(column)
        plain = {NUMBER: "biufm", TIME: "M"}[kind]
        if isinstance(column, np.ndarray) and column.dtype.kind in plain:
            is_time = column.dtype.kind in "mM"
            return _seconds(column) if is_time else column.astype(np.float64)
        return _floats(column, kind)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} had {kind}s at fit but cannot be read as {kind}s now ({error}); "
            "convert it before predicting."
        ) from error


def _plain(column: nw.Series[Any]) -> Any:
    """The column as an array if that loses nothing."""
    dtype = column.dtype
    if dtype in (nw.Datetime, nw.Date, nw.Duration):
        return column.to_numpy()
    # Decimals are rounded value by value, as in a column of objects.
    if dtype.is_numeric() and dtype != nw.Decimal:
        column = column.cast(nw.Float64)
    return column if dtype == nw.Decimal or column.is_null().any() else column.to_numpy()


def _floats(values: Iterable[Any], kind: str) -> Array:
    return np.array([_as_float(value, kind) for value in values], dtype=np.float64)


def _as_float(value: Any, kind: str) -> float:
    """One number; strings are read as times if times are expected, as in JSON."""
    if is_missing(value):
        return np.nan
    if kind == TIME and isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, _TIMES) != (kind == TIME):
        raise TypeError(f"got {value!r}")
    if isinstance(value, (*_TIMES, *_DURATIONS)):
        return float(_seconds(np.array([_exact_time(value)]))[0])
    return float(value)


def _exact_time(value: Any) -> Any:
    """A NumPy time or duration; times with a zone in UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    # pandas is finer than Python's microseconds.
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    is_duration = isinstance(value, _DURATIONS)
    return np.timedelta64(value) if is_duration else np.datetime64(value)


def _seconds(times: NDArray[Any]) -> Array:
    """Times since 1970, or durations, in seconds; NaN if missing."""
    whole = times.astype(f"{times.dtype.kind}8[s]")
    rest = (times - whole) / np.timedelta64(1, "s")
    return np.where(np.isnat(times), np.nan, whole.astype(np.float64) + rest)


def _as_labels(column: Any) -> NDArray[Any]:
    """The labels of a column (n,): strings, None if missing."""
    values = column.to_list() if isinstance(column, nw.Series) else column
    labels = np.empty(len(column), dtype=object)
    labels[:] = [_label_of(value) for value in values]
    return labels


def _label_of(value: Any) -> str | None:
    """The text of a label, the same for equal numbers and equal times; None if missing."""
    if isinstance(value, str):
        return str(value)
    if is_missing(value):
        return None
    # Before numbers: numpy.timedelta64 is an instance of Integral.
    if isinstance(value, _DURATIONS):
        return f"{_as_float(value, NUMBER)} s"
    if isinstance(value, _TIMES):
        return str(np.datetime_as_string(_exact_time(value), unit="auto"))
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas.NA: values that do not equal themselves, or cannot be compared."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True


def name_of(label: Any) -> str:
    """The text of a label, quoted if it is empty, ambiguous or has hidden characters.

    >>> [name_of(label) for label in ("a", 1.0, True, None, float("nan"), "missing", "a ")]
    ['a', '1', 'True', 'missing', 'missing', "'missing'", "'a '"]
    """
    text = _label_of(label)
    if text is None:
        return MISSING_NAME
    is_plain = text[:1] not in ("", "'", '"') and text.isprintable() and text == text.strip()
    return text if is_plain and text != MISSING_NAME else repr(text)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of n rows.

    ``numbers`` (n,) are floats, with times and durations in seconds; for labels, their positions in
    ``labels``, their names from the most frequent on; rarer labels share the position after the
    last. NaN is missing, and so are infinite numbers. Flags are labels that can be used as numbers.
    ``is_collapsed``: the numbers differ, but are all equal as float64.
    """

    name: str
    #: "number", "time", "duration" or "label".
    kind: str
    numbers: Array
    labels: tuple[str, ...] = ()
    is_flag: bool = False
    is_collapsed: bool = False

    @cached_property
    def values(self) -> Array:
        """The distinct numbers, ascending; empty for labels."""
        known = self.numbers[~np.isnan(self.numbers)]
        return np.empty(0) if self.kind == LABEL else np.unique(known)

    @cached_property
    def codes(self) -> NDArray[np.int32]:
        """Position of each row's value among the values or labels; -1 if missing."""
        known, codes = ~np.isnan(self.numbers), np.full(len(self.numbers), MISSING, dtype=np.int32)
        found = self.numbers[known]
        codes[known] = found if self.kind == LABEL else np.searchsorted(self.values, found)
        return codes

    @property
    def n_missing(self) -> int:
        """Number of rows without a value."""
        return int(np.isnan(self.numbers).sum())

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value, or all are missing."""
        return bool(np.all(self.codes == self.codes[0]))

    def take(self, rows: NDArray[np.intp]) -> Column:
        """Some of the rows."""
        return replace(self, numbers=self.numbers[rows])


def read_columns(X: Any, n: int) -> list[Column]:
    """The columns of a table of n rows; a list of columns is returned unchanged."""
    if isinstance(X, list) and X and isinstance(X[0], Column):
        return X
    table = as_table(X)
    given: list[Any] = columns_of(table) if is_frame(table) else list(table.T)
    if not given or len(table) != n:
        raise ValueError(
            f"got X with {len(table)} rows and {len(given)} columns; expected {n} rows, one per "
            "interval, and at least one column."
        )
    return [_read_column(*each) for each in zip(_unique_names(table), given, strict=True)]


def as_table(X: Any) -> Any:
    """A frame, or an array with two axes; a series or an array (n,) is one column."""
    if is_frame(check_frame(X)):
        return X
    if nw.dependencies.is_into_series(X):
        series = nw.from_native(X, series_only=True)
        name = "x0" if series.name in (None, "") else series.name
        return series.alias(name).to_frame().to_native()
    if X is None or issparse(X):
        given = "None" if X is None else f"a sparse {type(X).__name__}"
        remedy = "pass the features" if X is None else "pass X.toarray()"
        raise ValueError(
            f"got X as {given}; expected a frame or an array of shape (n, d): {remedy}."
        )
    array = _as_array(X)
    if array.ndim not in (1, 2):
        raise ValueError(f"got X of shape {array.shape}; expected (n, d), one row per interval.")
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _as_array(given: Any) -> NDArray[Any]:
    """An array; of objects if NumPy would turn missing values among strings into strings."""
    array = np.asarray(given)
    is_made_text = array.dtype.kind in "US" and not isinstance(given, np.ndarray)
    return np.array(list(given), dtype=object) if is_made_text else array


def _unique_names(table: Any) -> list[str]:
    # Names such as 1 and "1" become equal as strings.
    names = [str(name) for name in table_names(table)]
    repeated = {name for name in names if names.count(name) > 1}
    return [
        f"{name} (column {j})" if name in repeated or not name.strip() else name
        for j, name in enumerate(names)
    ]


def _read_column(name: str, given: Any) -> Column:
    kind = kind_of(given)
    if kind == LABEL:
        return Column(name, LABEL, *_code_labels(_as_labels(given)))
    numbers = _as_numbers(name, given, TIME if kind == TIME else NUMBER)
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    if kind == _FLAG:
        return Column(name, LABEL, numbers, ("False", "True"), is_flag=True)
    is_same = bool(np.all(numbers == numbers[0]))
    known = {value for value in given if not is_missing(value)} if is_same else ()
    return Column(name, kind, numbers, is_collapsed=len(known) > 1)


def _code_labels(texts: NDArray[Any]) -> tuple[Array, tuple[str, ...]]:
    """Codes (n,), NaN if missing, and the name of each code, most frequent first."""
    labels, place = _distinct(texts)
    order = np.argsort(-np.bincount(place, minlength=len(labels) + 1)[:-1], kind="stable")
    codes = np.full(len(labels) + 1, np.nan)
    codes[order] = np.minimum(np.arange(len(order)), _MAX_LABELS)
    return codes[place], tuple(name_of(label) for label in labels[order][:_MAX_LABELS])


def _distinct(texts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct texts, sorted, and the position of each row's; for None, after the last."""
    known = np.array([text is not None for text in texts], dtype=bool)
    labels, place = np.unique(texts[known], return_inverse=True)
    places = np.full(len(texts), len(labels), dtype=np.intp)
    places[known] = place
    return labels, places


def place_of(X: Any, name: Any, asked: str) -> int:
    """The position of a column, by its name or position; ``asked`` is the parameter's name."""
    names = table_names(X)
    if name in names:
        return names.index(name)
    if isinstance(name, (int, np.integer)) and -len(names) <= name < len(names):
        return range(len(names))[name]
    raise ValueError(
        f"got {asked}={name!r}; expected one of the {len(names)} columns of X ({listing(names)}), "
        "or the position of one."
    )


def column_of(X: Any, name: Any) -> NDArray[Any]:
    """The labels of one column of a table, by its name or position."""
    place = place_of(X, name, "groups")
    if not is_frame(X):
        return np.asarray(X)[:, place]
    column = columns_of(X)[place]
    if column.dtype.is_numeric() and not column.is_null().any():
        return column.to_numpy()
    # One by one: an array would round them.
    values = np.empty(len(column), dtype=object)
    values[:] = column.to_list()
    return values


def group_codes(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels (G,), sorted, and the position of each row's label among them (n,).

    All missing values (None, NaN, NaT, pandas.NA) are one label, the last: None among strings.
    """
    check_unmasked(groups, "groups")
    given = _as_array(groups)
    if given.shape != (n,):
        raise ValueError(f"got groups of shape {given.shape}; expected ({n},), one label per row.")
    if given.dtype.kind != "O":
        return np.unique(given, return_inverse=True)
    labels, codes = _distinct(_as_labels(given))
    missing = [None] * bool(np.any(codes == len(labels)))
    return np.array([*labels.tolist(), *missing], dtype=object), codes


def check_cells(labels: Any, n: int) -> NDArray[Any]:
    """The name of each row's cell (n,); missing labels are a cell."""
    # Lists as objects: NumPy would turn mixed values into strings, all as wide as the longest.
    is_list = isinstance(labels, (list, tuple))
    distinct, codes = group_codes(np.array(labels, dtype=object) if is_list else labels, n)
    return np.array([_narrow(name_of(label)) for label in distinct], dtype=np.str_)[codes]


def _narrow(name: str) -> str:
    """The name itself, or the beginning of a long one and its digest."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=16).hexdigest()
    return f"{name[:40]}... {digest}"


# ---- a row as a point ----------------------------------------------------------------------------


class Features(Curve, BaseEstimator):
    """Numeric columns, imputed by their median and standardised; the others one-hot encoded.

    One-hot columns stay 0/1: scaling them by their spread would let rare categories dominate.

    >>> Features().fit([[0.0], [2.0]]).transform([[1.0], [np.nan]])
    array([[0.],
           [0.]])
    """

    def fit(self, X: Any, v: Any = None) -> Features:
        """Learn kinds of columns, medians, scales and categories."""
        numbers, labels, self.kinds_ = split_columns(X)
        if np.isinf(numbers).any():
            raise ValueError(
                "X has infinite values; expected finite numbers or NaN: clean X, or use another "
                "embedding."
            )
        # Bounded first: a median may add two numbers.
        known = [_bounded(column[~np.isnan(column)]) for column in numbers.T]
        self.median_ = np.array([np.median(one) if len(one) else 0.0 for one in known])
        np.copyto(numbers, self.median_, where=np.isnan(numbers))
        filled = _bounded(numbers)
        self.mean_, spread = filled.mean(axis=0), filled.std(axis=0)
        # A constant column may show rounding noise as spread.
        constant = spread <= 1e-12 * np.maximum(np.abs(self.mean_), np.finfo(np.float64).tiny)
        self.scale_ = np.where(constant, 1.0, spread)
        self.encoder_ = None
        if labels.shape[1]:
            shared = {"handle_unknown": "infrequent_if_exist", "max_categories": _MAX_CATEGORIES}
            self.encoder_ = OneHotEncoder(**shared, sparse_output=False).fit(labels)
        return self

    def transform(self, X: Any) -> Array:
        """(n, columns) points."""
        # In place: the numbers are already a copy, and it matters for a million rows.
        points, labels, _ = split_columns(X, self.kinds_)
        np.copyto(points, self.median_, where=np.isnan(points))
        infinite = np.isinf(points)
        points = _bounded(points)
        points -= self.mean_
        with np.errstate(over="ignore"):
            points /= self.scale_
        points = np.clip(points, -_LARGEST, _LARGEST, out=points)
        # Infinite points have no distance: `in_box` rejects them.
        points[infinite] = np.inf
        if self.encoder_ is not None:
            points = np.hstack([points, self.encoder_.transform(labels)])
        return np.asarray(points)

    def compute(self, rows: Rows) -> Array:
        """Finite points within a box, (n, columns)."""
        return in_box(self.transform(rows.X), "the features")


def in_box(points: Array, whose: str) -> Array:
    """Points, clipped so that squared distances are finite; an error if they are not finite."""
    if not np.all(np.isfinite(points)):
        raise ValueError(
            f"{whose} gave NaN or infinite coordinates; expected finite numbers: clean X, or use "
            "another embedding."
        )
    return np.clip(points, -_FARTHEST_POINT, _FARTHEST_POINT)


def check_width(points: NDArray[Any], n_columns: int) -> None:
    """Raise an error unless rows have as many columns as the trees, which do not check this."""
    if points.shape[1:] != (n_columns,):
        raise ValueError(f"got rows of shape {points.shape}; expected (n, {n_columns}), as at fit.")


def _bounded(numbers: Array) -> Array:
    """The numbers, clipped in place so that they can be squared; infinities stay."""
    return np.clip(numbers, -_LARGEST, _LARGEST, out=numbers, where=np.isfinite(numbers))


class View(Curve):
    """What a supervised law sees: features, mu(x) around its centre, sigma(x) if it is known.

    The last two are in units of the spread of mu(x), so the scale of the response does not matter.
    """

    def fit(self, rows: Rows) -> View:
        """Learn the scales of the features and of the predictions."""
        self.features_ = Features().fit(rows.X)
        self.model_, self.spread_ = rows.model, rows.spread
        self.centre_ = float(np.median(rows.point))
        self.scale_ = typical_size(rows.point - self.centre_)
        return self

    def compute(self, rows: Rows) -> Array:
        """(n, columns) numbers."""
        said = [] if self.model_ is None else [(self.model_(rows).point, self.centre_)]
        said += [] if self.spread_ is None else [(self.spread_(rows), 0.0)]
        with np.errstate(over="ignore"):
            away = [(values - centre) / self.scale_ for values, centre in said]
        far = _FARTHEST_PREDICTION
        return np.column_stack([self.features_(rows), *(np.clip(one, -far, far) for one in away)])
