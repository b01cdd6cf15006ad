"""How one column of a table becomes numbers and categories, as learned on training rows.

A reader is plain data. Its ``read`` is a function of what it learned and of the row alone, and
returns the columns it makes with the number of values that it could not use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types as kinds

from localconformal.quantiles import Array
from localconformal.tables import TableError
from localconformal.tables.arrow import NUMBER, TEXT, TIME
from localconformal.workflow.times import parse_times, time_parts

#: How a flag may be written.
FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}

Read = tuple[dict[str, Any], int]


@dataclass(frozen=True)
class NumberReader:
    """A column of numbers; infinite ones are missing."""

    name: str
    stored = NUMBER

    def read(self, column: Any) -> Read:
        """Floats (n,)."""
        values = as_floats(column)
        infinite = np.isinf(values)
        return {self.name: np.where(infinite, np.nan, values)}, int(infinite.sum())


@dataclass(frozen=True)
class FlagReader:
    """A column of true and false: 1 and 0."""

    name: str
    stored = TEXT

    def read(self, column: Any) -> Read:
        """Floats (n,)."""
        if kinds.is_numeric_dtype(column) or kinds.is_bool_dtype(column):
            return {self.name: as_floats(column)}, 0
        values = as_texts(column).str.strip().str.lower().map(FLAGS).astype("float64")
        return {self.name: values.to_numpy()}, count_lost(column, values)


@dataclass(frozen=True)
class LabelReader:
    """A column of labels, those of training rows; all others are missing."""

    name: str
    labels: tuple[str, ...]
    stored = TEXT

    def read(self, column: Any) -> Read:
        """Categories (n,)."""
        texts = as_texts(column)
        known = texts.where(texts.isin(self.labels))
        values = pd.Categorical(known, categories=list(self.labels))
        return {self.name: values}, count_lost(column, pd.Series(values))


@dataclass(frozen=True)
class TimeReader:
    """A column of times, as the parts that differed between training rows."""

    name: str
    time_format: str
    parts: tuple[str, ...]
    stored = TIME

    def read(self, column: Any) -> Read:
        """Floats, a column a part."""
        if kinds.is_numeric_dtype(column):
            raise TableError(
                f"column {self.name!r} holds numbers; times were expected, as in training rows."
            )
        times = parse_times(column, self.time_format)
        found = time_parts(times)
        made = {f"{self.name}.{part}": found[part] for part in self.parts}
        return made, count_lost(column, times)


Reader = NumberReader | FlagReader | LabelReader | TimeReader


def as_floats(column: Any) -> Array:
    """A column as floats; texts that are no numbers are refused."""
    if kinds.is_datetime64_any_dtype(column):
        raise TableError(
            f"column {column.name!r} holds times; numbers were expected, as in training rows."
        )
    if not (kinds.is_numeric_dtype(column) or kinds.is_bool_dtype(column)):
        numbers = numbers_in(column)
        wrong = column[numbers.isna() & column.notna()]
        if len(wrong):
            raise TableError(
                f"column {column.name!r} holds {str(wrong.iloc[0])[:40]!r}; numbers were expected, "
                "as in training rows."
            )
        column = numbers
    return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))


def numbers_in(column: Any) -> Any:
    """Texts as numbers, missing where they are none."""
    return pd.to_numeric(as_texts(column), errors="coerce").astype("float64")


def as_texts(column: Any) -> Any:
    """Values as texts, whole numbers without a point; missing ones stay so."""
    if kinds.is_float_dtype(column):
        texts = column.map(lambda value: f"{value:.15g}", na_action="ignore")
        return texts.astype("object").where(column.notna(), None).astype("string")
    return column.astype("object").where(column.notna(), None).astype("string")


def count_lost(before: Any, after: Any) -> int:
    """Values that were there and are missing now."""
    known: NDArray[np.bool_] = before.notna().to_numpy()
    return int(np.count_nonzero(known & after.isna().to_numpy()))
