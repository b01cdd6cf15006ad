"""Columns of a table, told apart once: numbers (times too) and labels.

Which is which is learned from reference rows. Later rows are read the same way, whatever types
they come in, or refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from localconformal.frames import columns_of, is_frame
from localconformal.quantiles import Array

NUMBER, LABEL = "number", "label"


def split_columns(X: Any, kinds: list[str] | None = None) -> tuple[Array, NDArray[Any], list[str]]:
    """Numbers (n, a), labels (n, b) and the kind of each column; ``kinds`` as known, or found."""
    if not is_frame(X):
        array = np.asarray(X)
        # Not -1: it cannot be told from no rows.
        array = array.reshape(len(array), math.prod(array.shape[1:]))
        if array.dtype.kind in "biuf" and LABEL not in (kinds or ()):
            check_width(array.shape[1], kinds)
            nothing = np.empty((len(array), 0), dtype=object)
            return array.astype(np.float64), nothing, [NUMBER] * array.shape[1]
        columns: list[tuple[Any, Any]] = list(enumerate(array.T))
    else:
        columns = [(column.name, column) for column in columns_of(X)]
    check_width(len(columns), kinds)
    kinds = [kind_of(column) for _, column in columns] if kinds is None else kinds
    numbers, labels = [], []
    for kind, (name, column) in zip(kinds, columns, strict=True):
        if kind == NUMBER:
            numbers.append(as_numbers(name, column))
        else:
            labels.append(np.array([str(value) for value in column], dtype=object))
    shape = (len(X), 0)
    return (
        np.stack(numbers, axis=1) if numbers else np.empty(shape),
        np.stack(labels, axis=1) if labels else np.empty(shape, dtype=object),
        kinds,
    )


def check_width(width: int, kinds: list[str] | None) -> None:
    """As many columns as at fit, or refused."""
    if kinds is not None and width != len(kinds):
        raise ValueError(f"X has {width} columns; {len(kinds)} were expected, as at fit.")


def kind_of(column: Any) -> str:
    """Numbers, booleans, dates and durations are numbers; everything else labels."""
    if isinstance(column, nw.Series):
        plain = column.dtype.is_numeric() or column.dtype == nw.Boolean
        return NUMBER if plain or column.dtype in (nw.Datetime, nw.Date, nw.Duration) else LABEL
    try:
        floats(column)
    except (TypeError, ValueError):
        return LABEL
    return NUMBER


def as_numbers(name: Any, column: Any) -> Array:
    """The column as floats, missing values as NaN; times in seconds."""
    try:
        if isinstance(column, nw.Series) and column.dtype in (nw.Datetime, nw.Date, nw.Duration):
            unit = "timedelta64[s]" if column.dtype == nw.Duration else "datetime64[s]"
            times = column.to_numpy().astype(unit)
            return np.where(np.isnat(times), np.nan, times.astype(np.float64))
        if isinstance(column, nw.Series) and column.dtype.is_numeric():
            column = column.cast(nw.Float64)
            if not column.is_null().any():
                return np.asarray(column.to_numpy(), dtype=np.float64)
        return floats(column)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} had numbers at fit and cannot be read as numbers now ({error}); "
            "convert it before predicting."
        ) from error


def floats(values: Iterable[Any]) -> Array:
    """Values as floats; None and other missing marks as NaN."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    return np.array([np.nan if is_missing(value) else float(value) for value in values])


def is_missing(value: Any) -> bool:
    """None, NaN, NaT or pandas.NA: what does not equal itself, or cannot tell."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:
        return True
