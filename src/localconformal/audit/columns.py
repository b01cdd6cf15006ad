"""The columns of X as the audit sees them: each value by its place among the distinct ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from localconformal.columns import LABEL, NUMBER, is_missing
from localconformal.columns import kind_of as kind_by_values
from localconformal.frames import check_frame, columns_of, is_frame
from localconformal.metrics.features import read_features
from localconformal.quantiles import Array
from localconformal.text import listing

DURATION = "duration"
UNNAMED = "x0"
MISSING = -1
#: Labels of fewer rows share a bin.
FEWEST_LABEL_ROWS = 10


@dataclass(frozen=True, eq=False)
class Column:
    """One column of n rows.

    Attributes
    ----------
    name : str
    kind : "number", "time", "duration" or "label"
    codes : array of ints of shape (n,)
        Place of each row's value among the distinct ones; -1 where missing. A label beyond those
        in ``labels`` has the code ``len(labels)``.
    values : array of shape (distinct,)
        The distinct numbers, ascending; times in seconds. Empty for labels.
    labels : tuple of str
        From the most frequent on; empty for numbers.
    is_collapsed : bool, default=False
        Whether rows hold numbers that differ, and all of them are the same as float64.
    """

    name: str
    kind: str
    codes: NDArray[np.int32]
    values: Array
    labels: tuple[str, ...]
    is_collapsed: bool = False

    @property
    def n_missing(self) -> int:
        """Rows without a value."""
        return int(np.sum(self.codes == MISSING))

    @property
    def is_constant(self) -> bool:
        """Whether all rows hold the same, missing values included."""
        return bool(np.all(self.codes == self.codes[0]))

    @property
    def is_scattered(self) -> bool:
        """Whether it has labels, none of them with enough rows for a bin, as an identifier."""
        named = self.codes[(self.codes != MISSING) & (self.codes < len(self.labels))]
        return self.kind == LABEL and np.bincount(named).max(initial=0) < FEWEST_LABEL_ROWS


def as_table(X: Any) -> Any:
    """A frame as it is; a series as a frame of one column; an array with two axes."""
    if is_frame(check_frame(X)):
        return X
    if nw.dependencies.is_into_series(X):
        series = nw.from_native(X, series_only=True)
        return (
            series.alias(UNNAMED if series.name in (None, "") else series.name)
            .to_frame()
            .to_native()
        )
    if X is None or issparse(X):
        # Refused by name where columns are read.
        return X
    array = np.asarray(X)
    return array.reshape(-1, 1) if array.ndim == 1 else array


def read_columns(X: Any, n: int) -> list[Column]:
    """Every column of an array (n, d) or a frame; infinite values are missing."""
    features = read_features(X, n)
    names, given = column_names(X, features.names), given_columns(X)
    read = zip(names, given, features.values.T, features.labels, strict=True)
    columns = [
        make_column(name, kind_of(raw), values, labels) for name, raw, values, labels in read
    ]
    return [
        replace(column, is_collapsed=True)
        if column.is_constant and column.kind != LABEL and differ(raw)
        else column
        for column, raw in zip(columns, given, strict=True)
    ]


def given_columns(X: Any) -> list[Any]:
    """The columns of a frame or an array, as they came."""
    return list(columns_of(X)) if is_frame(X) else list(np.asarray(X).T)


def differ(column: Any) -> bool:
    """Whether some of the values that are known differ."""
    return len({value for value in column if not is_missing(value)}) > 1


def make_column(name: str, kind: str | None, values: Array, labels: list[str] | None) -> Column:
    """A column of numbers, or of codes of labels; kind None is a boolean's."""
    if labels is not None:
        codes = np.where(np.isnan(values), MISSING, values).astype(np.int32)
        return Column(name, LABEL, codes, np.empty(0), tuple(labels))
    known = np.isfinite(values)
    distinct, place = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), MISSING, dtype=np.int32)
    if kind is None:
        codes[known] = values[known]
        return Column(name, LABEL, codes, np.empty(0), ("False", "True"))
    codes[known] = place
    return Column(name, kind, codes, distinct, ())


def column_names(X: Any, names: list[str]) -> list[str]:
    """Names of a frame's columns as unique texts; x0, x1, ... for an array."""
    if not is_frame(X):
        return [f"x{j}" for j in range(len(names))]
    # Names such as 1 and "1" differ only before they are texts.
    repeated = {name for name in names if names.count(name) > 1}
    return [
        f"{name} (column {j})" if name in repeated or not name.strip() else name
        for j, name in enumerate(names)
    ]


def kind_of(column: Any) -> str | None:
    """How the numbers of a column are to be read; None for booleans."""
    kind = kind_by_values(column)
    if kind != NUMBER:
        return kind
    dtype = column.dtype
    if isinstance(column, nw.Series):
        is_flag, is_duration, is_open = (
            dtype == nw.Boolean,
            dtype == nw.Duration,
            dtype == nw.Object,
        )
    else:
        is_flag, is_duration, is_open = (dtype.kind == letter for letter in "bmO")
    if is_open:
        known = [value for value in column if not is_missing(value)]
        is_flag = all(isinstance(value, (bool, np.bool_)) for value in known)
        is_duration = all(isinstance(value, (timedelta, np.timedelta64)) for value in known)
    return None if is_flag else DURATION if is_duration else NUMBER


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of X that tell rows apart, each once.

    Attributes
    ----------
    X : array or frame
        Those columns as they came; a column of zeros if there are none.
    columns : list of Column
    notes : tuple of str
        What was left out, and where values are missing.
    """

    X: Any
    columns: list[Column]
    notes: tuple[str, ...]


def read_table(X: Any, n: int) -> Table:
    """What an audit looks at, of an array (n,) or (n, d), a series or a frame."""
    given = as_table(X)
    columns = read_columns(given, n)
    reasons = reasons_to_leave_out(columns)
    left_out = {name for names in reasons.values() for name in names}
    kept = [j for j, column in enumerate(columns) if column.name not in left_out]
    notes = [
        f"Left out, as {reason}: {listing(names.values())}."
        for reason, names in reasons.items()
        if names
    ]
    remaining = [columns[j] for j in kept]
    return Table(take_columns(given, kept), remaining, (*notes, *missing_notes(remaining)))


def reasons_to_leave_out(columns: list[Column]) -> dict[str, dict[str, str]]:
    """Why -> columns by name, as they are to be told."""
    constant, collapsed, scattered, repeated = {}, {}, {}, {}
    first: dict[bytes, str] = {}
    for column in columns:
        name = column.name
        # Equal codes part the rows alike, whatever the values are.
        key = column.codes.tobytes()
        if column.is_collapsed:
            collapsed[name] = name
        elif column.is_constant:
            constant[name] = name
        elif column.is_scattered:
            scattered[name] = name
        elif first.setdefault(key, name) != name:
            repeated[name] = f"{name} (as {first[key]})"
    return {
        "all rows hold the same value": constant,
        "float64 cannot tell their numbers apart": collapsed,
        "no label has enough rows": scattered,
        "the rows are ordered as by another column": repeated,
    }


def take_columns(X: Any, kept: list[int]) -> Any:
    """Some columns of an array or a frame, by position."""
    if not kept:
        return np.zeros((len(X), 1))
    if not is_frame(X):
        return X[:, kept]
    return nw.from_native(X, eager_only=True)[:, kept].to_native()


def missing_notes(columns: list[Column]) -> list[str]:
    """A sentence on the columns with missing values."""
    found = [f"{c.name} ({c.n_missing:,})" for c in columns if c.n_missing]
    if not found:
        return []
    return [f"Missing (or infinite) values are a bin of their own in {listing(found)}."]
