"""Columns of X as numbers or labels, and by the order of their values.

A slab projects numbers and a classifier of coverage learns from them; audit and plots bin values by
their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from localconformal.columns import LABEL, NUMBER, as_labels, as_numbers, is_missing, kind_of
from localconformal.frames import check_frame, columns_of, is_frame
from localconformal.quantiles import Array

#: What HistGradientBoosting takes of a column of labels; rarer labels are one together.
MAX_LABELS = 250
#: Labels with an indicator of their own; those left have none.
MAX_INDICATORS = 20
#: A kind of columns beside those of `localconformal.columns`.
DURATION = "duration"
#: The code of a missing value.
MISSING = -1


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
class Standardised:
    """d columns of mean 0 and variance 1; labels by indicators, called ``name=label``.

    Missing values are at the mean, 0, and so is every value of a constant column.
    """

    #: (n, d)
    points: Array
    names: list[str]
    #: Position of the feature behind each column.
    source: NDArray[np.intp]
    #: Mean and standard deviation of what is known; a value is center + scale * point.
    center: Array
    scale: Array


def standardised(features: Features) -> Standardised:
    """The features as points of one scale."""
    columns, names, source = [], [], []
    for j, labels in enumerate(features.labels):
        values, name = features.values[:, j], features.names[j]
        if labels is None:
            columns.append(values)
            names.append(name)
            source.append(j)
            continue
        for code, label in enumerate(labels[:MAX_INDICATORS]):
            columns.append(np.where(np.isnan(values), np.nan, values == code))
            names.append(f"{name}={label}")
            source.append(j)
    if not columns:
        columns, names, source = [np.zeros(len(features.values))], features.names[:1], [0]
    points, center, scale = zip(*(_standardise(column) for column in columns), strict=True)
    return Standardised(
        np.stack(points, axis=1), names, np.array(source), np.array(center), np.array(scale)
    )


def _standardise(column: Array) -> tuple[Array, float, float]:
    """(column - mean) / standard deviation over what is known, 0 where it is not; mean and sd."""
    known = np.isfinite(column)
    result = np.zeros_like(column)
    if not known.any():
        return result, 0.0, 0.0
    # In units of its largest entry: squares of huge numbers would overflow.
    unit = float(np.abs(column[known]).max()) or 1.0
    scaled = column[known] / unit
    mean = float(scaled.mean())
    centred = scaled - mean
    spread = float(np.sqrt(np.mean(centred**2)))
    if spread > 1e-12:
        result[known] = centred / spread
    return result, unit * mean, unit * spread


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
