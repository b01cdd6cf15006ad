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
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from numbers import Integral, Real
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from localconformal.frames import columns_of, is_frame
from localconformal.quantiles import Array

NUMBER, TIME, LABEL, EMPTY = "number", "time", "label", "empty"
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
