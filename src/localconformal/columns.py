"""Columns of a table, told apart once: numbers, times and labels.

Which is which is learned from training rows and kept: what later rows hold is read value by value,
whatever types they come in, or refused by name. So a row has the same numbers and labels alone and
among others, though frames choose the type of a column by all the rows they hold.

* Numbers, booleans and durations are numbers, also in columns of objects (decimals too). Texts are
  labels, also those of digits, unless they come in an array, which has one type for all columns.
* Categories are labels, also those of whole numbers: whoever made the column said so.
* All missing values are one: None, NaN, NaT, pandas.NA. A column that has nothing else in training
  rows tells nothing about later ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from localconformal.frames import check_frame, columns_of, is_frame
from localconformal.quantiles import Array

NUMBER, TIME, LABEL, EMPTY = "number", "time", "label", "empty"
#: A kind of numbers, in seconds, told apart by `Column` alone.
DURATION = "duration"
#: The code of a missing value.
MISSING = -1
#: What HistGradientBoosting takes of a column of labels; rarer labels are one together.
MAX_LABELS = 250
_TIMES, _DURATIONS = (date, np.datetime64), (timedelta, np.timedelta64)
_BOOLEANS = (bool, np.bool_)


def split_columns(X: Any, kinds: list[str] | None = None) -> tuple[Array, NDArray[Any], list[str]]:
    """Numbers (n, a), labels (n, b) and the kind of each column; ``kinds`` as known, or found.

    Times are numbers here, in seconds since 1970. Labels are texts, None where missing.
    """
    if not is_frame(X):
        array = np.asarray(X)
        # Not -1: it cannot be told from no rows.
        array = array.reshape(len(array), math.prod(array.shape[1:]))
        if array.dtype.kind in "biuf" and set(kinds or ()) <= {NUMBER}:
            check_width(array.shape[1], kinds)
            nothing = np.empty((len(array), 0), dtype=object)
            return array.astype(np.float64), nothing, [NUMBER] * array.shape[1]
        columns: list[tuple[Any, Any]] = list(enumerate(array.T))
    else:
        columns = [(column.name, column) for column in columns_of(X)]
    check_width(len(columns), kinds)
    found: list[str] = []
    numbers: list[Array] = []
    labels: list[NDArray[Any]] = []
    for place, (name, column) in enumerate(columns):
        kind = kind_of(column) if kinds is None else kinds[place]
        read = as_labels(column) if kind == LABEL else as_numbers(name, column, kind)
        if kinds is None and _is_empty(read):
            kind, read = EMPTY, np.full(len(read), np.nan)
        found.append(kind)
        (labels if kind == LABEL else numbers).append(read)
    shape = (len(X), 0)
    return (
        np.stack(numbers, axis=1) if numbers else np.empty(shape),
        np.stack(labels, axis=1) if labels else np.empty(shape, dtype=object),
        found,
    )


def check_width(width: int, kinds: list[str] | None) -> None:
    """As many columns as at fit, or refused."""
    if kinds is not None and width != len(kinds):
        raise ValueError(f"X has {width} columns; {len(kinds)} were expected, as at fit.")


def kind_of(column: Any) -> str:
    """Numbers, times or labels: by the type of the column, or by its values where that is open."""
    if isinstance(column, nw.Series):
        dtype = column.dtype
        if dtype.is_numeric() or dtype in (nw.Boolean, nw.Duration):
            return NUMBER
        if dtype in (nw.Datetime, nw.Date):
            return TIME
        return _kind_of_values(column) if dtype in (nw.Object, nw.Unknown) else LABEL
    if column.dtype.kind in "biufmM":
        return TIME if column.dtype.kind == "M" else NUMBER
    kind = _kind_of_values(column)
    if kind == LABEL:
        # An array has one type for all its columns: numbers beside texts may be texts too.
        try:
            _floats(column, NUMBER)
        except (TypeError, ValueError):
            return LABEL
        return NUMBER
    return kind


def _kind_of_values(values: Iterable[Any]) -> str:
    known = [value for value in values if not is_missing(value)]
    if known and all(isinstance(value, _TIMES) for value in known):
        return TIME
    durations = [isinstance(value, _DURATIONS) for value in known]
    numbers = [isinstance(value, (Real, Decimal, *_BOOLEANS)) for value in known]
    # Durations of NumPy pass for numbers.
    if known and (all(durations) or (all(numbers) and not any(durations))):
        return NUMBER
    return LABEL


def _is_empty(read: NDArray[Any]) -> bool:
    """Whether there are rows, and nothing is known of any."""
    if len(read) == 0:
        return False
    if read.dtype == object:
        return all(label is None for label in read)
    return bool(np.isnan(read).all())


def as_numbers(name: Any, column: Any, kind: str = NUMBER) -> Array:
    """The column as floats, missing values as NaN; times and durations in seconds."""
    if kind == EMPTY:
        return np.full(len(column), np.nan)
    try:
        if isinstance(column, nw.Series):
            column = _plain(column)
        plain = {NUMBER: "biufm", TIME: "M"}[kind]
        if isinstance(column, np.ndarray) and column.dtype.kind in plain:
            is_time = column.dtype.kind in "mM"
            return seconds(column) if is_time else column.astype(np.float64)
        return _floats(column, kind)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} had {kind}s at fit and cannot be read as {kind}s now ({error}); "
            "convert it before predicting."
        ) from error


def _plain(column: nw.Series[Any]) -> Any:
    """The column as an array where that loses nothing."""
    dtype = column.dtype
    if dtype in (nw.Datetime, nw.Date, nw.Duration):
        return column.to_numpy()
    # Decimals are rounded value by value, as they are in a column of objects.
    if dtype.is_numeric() and dtype != nw.Decimal:
        column = column.cast(nw.Float64)
    return column if dtype == nw.Decimal or column.is_null().any() else column.to_numpy()


def _floats(values: Iterable[Any], kind: str) -> Array:
    return np.array([_as_float(value, kind) for value in values], dtype=np.float64)


def _as_float(value: Any, kind: str) -> float:
    """One number; texts are times where times are expected, as they are in JSON."""
    if is_missing(value):
        return np.nan
    if kind == TIME and isinstance(value, str):
        value = datetime.fromisoformat(value.replace("Z", "+00:00"))
    if isinstance(value, _TIMES) != (kind == TIME):
        raise TypeError(f"got {value!r}")
    if isinstance(value, (*_TIMES, *_DURATIONS)):
        return float(seconds(np.array([_exact_time(value)]))[0])
    return float(value)


def _exact_time(value: Any) -> Any:
    """A time or duration of NumPy; one with a time zone in UTC."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(timezone.utc).replace(tzinfo=None)
    # What pandas holds is finer than Python's own microseconds.
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    is_duration = isinstance(value, _DURATIONS)
    return np.timedelta64(value) if is_duration else np.datetime64(value)


def seconds(times: NDArray[Any]) -> Array:
    """Times since 1970, or durations, in seconds; NaN where missing."""
    whole = times.astype(f"{times.dtype.kind}8[s]")
    rest = (times - whole) / np.timedelta64(1, "s")
    return np.where(np.isnat(times), np.nan, whole.astype(np.float64) + rest)


def as_labels(column: Any) -> NDArray[Any]:
    """The labels of a column (n,): texts, None where missing."""
    values = column.to_list() if isinstance(column, nw.Series) else column
    labels = np.empty(len(column), dtype=object)
    labels[:] = [label_of(value) for value in values]
    return labels


def label_of(value: Any) -> str | None:
    """The text of a label: equal numbers and equal times have one; None where it is missing.

    Examples
    --------
    >>> [label_of(value) for value in ("a", 1, 1.0, "1", 0.5, True, None, float("nan"))]
    ['a', '1', '1', '1', '0.5', 'True', None, None]
    >>> label_of(np.datetime64("2020-01-01T00:00:00")), label_of(timedelta(hours=36))
    ('2020-01-01', '129600.0 s')
    """
    if isinstance(value, str):
        return str(value)
    if is_missing(value):
        return None
    # Before numbers: numpy.timedelta64 passes for one.
    if isinstance(value, _DURATIONS):
        return f"{seconds(np.array([_exact_time(value)]))[0]} s"
    if isinstance(value, _TIMES):
        zone = "Z" if getattr(value, "tzinfo", None) is not None else ""
        return f"{np.datetime_as_string(_exact_time(value), unit='auto')}{zone}"
    if isinstance(value, Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
        number = float(value)
        return str(int(number)) if number.is_integer() else repr(number)
    return str(value)


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas.NA: what does not equal itself, or cannot tell."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True


@dataclass(frozen=True, eq=False)
class Features:
    """d columns of numbers; labels are coded 0, 1, ... from the most frequent on."""

    #: (n, d), NaN where missing.
    values: Array
    names: list[str]
    #: What the codes stand for; None for a column of numbers.
    labels: list[list[str] | None]


def read_features(X: Any, n: int) -> Features:
    """The columns of an array or frame of n rows; numbers, booleans and times are numbers."""
    columns: list[tuple[str, Any]]
    if is_frame(X):
        columns = [(str(column.name), column) for column in columns_of(X)]
    else:
        columns = [(str(j), column) for j, column in enumerate(_as_array(X).T)]
    if not columns or len(X) != n:
        raise ValueError(
            f"X has {len(X)} rows and {len(columns)} columns; {n} rows, as many as intervals, and "
            "at least one column were expected."
        )
    values, labels = zip(*(_read_column(*each) for each in columns), strict=True)
    return Features(np.stack(values, axis=1), [name for name, _ in columns], list(labels))


def _as_array(X: Any) -> NDArray[Any]:
    """An array with two axes, or refused by what it is."""
    if X is None or issparse(X):
        given = "None" if X is None else f"a sparse {type(X).__name__}: pass X.toarray()"
        raise ValueError(f"X must be a frame or an array of shape (n, d); it is {given}.")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"X has shape {array.shape}; (n, d) was expected: one row for each interval."
        )
    return array


def _read_column(name: str, column: Any) -> tuple[Array, list[str] | None]:
    """Numbers (n,), NaN where missing, and None; or codes and their labels."""
    kind = kind_of(column)
    if kind == LABEL:
        return _code_labels(as_labels(column))
    numbers = as_numbers(name, column, kind)
    return np.where(np.isfinite(numbers), numbers, np.nan), None


def _code_labels(texts: NDArray[Any]) -> tuple[Array, list[str]]:
    """Codes (n,), NaN where there is no text, and the text of each code, most frequent first."""
    known = np.array([text is not None for text in texts], dtype=bool)
    labels, place, counts = np.unique(texts[known], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    codes = np.full(len(texts), np.nan)
    codes[known] = np.minimum(rank[place], MAX_LABELS) if len(order) else np.nan
    return codes, [str(label) for label in labels[order][:MAX_LABELS]]


@dataclass(frozen=True, eq=False)
class Column:
    """One column of n rows, by the order of its values."""

    name: str
    #: "number", "time", "duration" or "label".
    kind: str
    #: Place of each row's value among the distinct ones; -1 where missing. A label beyond those
    #: in ``labels`` has the code ``len(labels)``.
    codes: NDArray[np.int32]
    #: The distinct numbers, ascending; times in seconds. Empty for labels.
    values: Array
    #: From the most frequent on; empty for numbers.
    labels: tuple[str, ...]
    #: Whether rows hold numbers that differ, and all of them are the same as float64.
    is_collapsed: bool = False

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return int(np.sum(self.codes == MISSING))

    @property
    def is_constant(self) -> bool:
        """Whether all rows hold the same, missing values included."""
        return bool(np.all(self.codes == self.codes[0]))


def as_table(X: Any) -> Any:
    """A frame as it is; a series as a frame of one column; an array with two axes."""
    if is_frame(check_frame(X)):
        return X
    if nw.dependencies.is_into_series(X):
        series = nw.from_native(X, series_only=True)
        name = "x0" if series.name in (None, "") else series.name
        return series.alias(name).to_frame().to_native()
    if X is None or issparse(X):
        # Refused by name where columns are read.
        return X
    array = np.asarray(X)
    return array.reshape(-1, 1) if array.ndim == 1 else array


def read_columns(X: Any, n: int) -> list[Column]:
    """Every column of an array (n, d) or a frame; infinite values are missing."""
    features = read_features(X, n)
    given = columns_of(X) if is_frame(X) else np.asarray(X).T
    names = _unique_names(X, features.names)
    read = zip(names, given, features.values.T, features.labels, strict=True)
    return [_order_column(*each) for each in read]


def _unique_names(X: Any, names: list[str]) -> list[str]:
    """Names of a frame's columns as unique texts; x0, x1, ... for an array."""
    if not is_frame(X):
        return [f"x{j}" for j in range(len(names))]
    # Names such as 1 and "1" differ only before they are texts.
    repeated = {name for name in names if names.count(name) > 1}
    return [
        f"{name} (column {j})" if name in repeated or not name.strip() else name
        for j, name in enumerate(names)
    ]


def _order_column(name: str, given: Any, values: Array, labels: list[str] | None) -> Column:
    """A column of numbers (n,), or of codes of labels, by its order."""
    known = np.isfinite(values)
    codes = np.full(len(values), MISSING, dtype=np.int32)
    kind = LABEL if labels is not None else _kind_of_numbers(given)
    if kind == LABEL:
        texts = ("False", "True") if labels is None else tuple(labels)
        codes[known] = values[known]
        return Column(name, kind, codes, np.empty(0), texts)
    distinct, codes[known] = np.unique(values[known], return_inverse=True)
    found = Column(name, kind, codes, distinct, ())
    if found.is_constant and len({value for value in given if not is_missing(value)}) > 1:
        return replace(found, is_collapsed=True)
    return found


def _kind_of_numbers(column: Any) -> str:
    """How the numbers of a column are to be read; those of booleans are two labels."""
    kind = kind_of(column)
    if kind != NUMBER:
        return kind
    dtype = column.dtype
    if isinstance(column, nw.Series):
        types = (nw.Boolean, nw.Duration, nw.Object)
        is_flag, is_duration, is_open = (dtype == one for one in types)
    else:
        is_flag, is_duration, is_open = (dtype.kind == letter for letter in "bmO")
    if is_open:
        known = [value for value in column if not is_missing(value)]
        is_flag = all(isinstance(value, (bool, np.bool_)) for value in known)
        is_duration = all(isinstance(value, (timedelta, np.timedelta64)) for value in known)
    return LABEL if is_flag else DURATION if is_duration else NUMBER


def group_codes(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels (G,), sorted, and the position of each row's label among them (n,).

    All that is missing (None, NaN, NaT, pandas.NA) is one label, the last: None among texts.
    """
    given = np.asarray(groups)
    if given.shape != (n,):
        raise ValueError(
            f"groups have shape {given.shape}; ({n},) was expected, one label for each row."
        )
    if given.dtype.kind in "US" and not isinstance(groups, np.ndarray):
        # NumPy makes texts of what is missing in a list of texts.
        given = np.array(list(groups), dtype=object)  # type: ignore[arg-type]
    if given.dtype.kind != "O":
        return np.unique(given, return_inverse=True)
    named = as_labels(given)
    missing = np.array([label is None for label in named], dtype=bool)
    texts = named[~missing].astype(np.str_)
    labels, place = np.unique(texts, return_inverse=True)
    codes = np.full(n, len(labels), dtype=np.intp)
    codes[~missing] = place
    return (np.array([*labels.tolist(), None], dtype=object) if missing.any() else labels), codes
