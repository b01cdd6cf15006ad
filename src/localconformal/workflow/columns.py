"""How one column of a table becomes numbers and categories, as learned on training rows.

A reader is plain data. Its ``read`` is a function of what it learned and of the row alone, and
returns the columns it makes with the number of values that it could not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types as kinds

from localconformal.io.tables import NUMBER, TEXT, TIME, TableError, why_no_number
from localconformal.quantiles import Array
from localconformal.workflow.times import DAY_NUMBER, DAY_YEARS, ISO, parse_times, time_parts

#: Labels told apart: as many as gradient boosting takes as categories, with room to spare.
MOST_LABELS = 200
#: How a flag may be written.
FLAGS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "yes": 1.0, "no": 0.0, "t": 1.0, "f": 0.0}

Read = tuple[dict[str, Any], int]


@dataclass(frozen=True)
class NumberReader:
    """A column of numbers; infinite ones are missing."""

    name: str
    stored = NUMBER
    lost = "could not be used, being infinite"

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
    lost = "could not be read as true or false"

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

    @property
    def lost(self) -> str:
        """Why a label is missing: training rows may have had rarer ones than those kept."""
        most = f"{MOST_LABELS} most frequent " if len(self.labels) >= MOST_LABELS else ""
        return f"could not be found among the {most}labels of training rows"

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
    lost = "could not be read as a time"

    def read(self, column: Any) -> Read:
        """Floats, a column a part."""
        times = self.times(column)
        found = time_parts(times)
        made = {f"{self.name}.{part}": found[part] for part in self.parts}
        return made, count_lost(column, times)

    def times(self, column: Any) -> Any:
        """Times without a zone; what cannot be read is missing."""
        if self.time_format == DAY_NUMBER:
            column = day_texts(column)
        elif column.notna().any() and kinds.is_numeric_dtype(column):
            raise TableError(
                f"column {self.name!r} holds numbers; times were expected, as in training rows."
            )
        times = parse_times(column, self.time_format)
        if self.time_format not in (ISO, DAY_NUMBER):
            # Days in ISO's order are clear, whatever training rows had; eight digits need not be.
            times = times.fillna(parse_times(column, ISO))
        return times


Reader = NumberReader | FlagReader | LabelReader | TimeReader


def lost_notes(readers: Iterable[Reader], lost: Mapping[str, int]) -> list[str]:
    """Sentences on values that could not be used.

    Examples
    --------
    >>> lost_notes([NumberReader("size")], {"size": 1})
    ["1 value of 'size' could not be used, being infinite: it counts as missing."]
    """
    why = {reader.name: reader.lost for reader in readers}
    return [
        f"1 value of {name!r} {why[name]}: it counts as missing."
        if count == 1
        else f"{count:,} values of {name!r} {why[name]}: they count as missing."
        for name, count in lost.items()
    ]


def as_floats(column: Any, called: str = "column", *, flags: bool = True) -> Array:
    """A column of numbers as floats (n,), missing ones NaN; whatever else it holds is refused.

    Parameters
    ----------
    column : pandas series
    called : str, default="column"
        What messages call it.
    flags : bool, default=True
        Whether true and false are numbers, 1 and 0.
    """
    other = (
        "times"
        if kinds.is_datetime64_any_dtype(column)
        else "flags"
        if kinds.is_bool_dtype(column) and not flags
        else None
    )
    if other:
        raise TableError(
            f"{called} {column.name!r} holds {other}; numbers were expected: convert it, or choose "
            "another column."
        )
    if not (kinds.is_numeric_dtype(column) or kinds.is_bool_dtype(column)):
        numbers = numbers_in(column)
        refuse_texts(column[numbers.isna() & column.notna()], called)
        column = numbers
    return np.asarray(column.to_numpy(dtype="float64", na_value=np.nan))


def refuse_texts(wrong: Any, called: str) -> None:
    """A `TableError` on the first of these texts and its row, if there are any."""
    if not len(wrong):
        return
    first, others = str(wrong.iloc[0]), len(wrong) - 1
    more = f", and {others:,} other text{'s' * (others > 1)} in later rows" if others else ""
    raise TableError(
        f"{called} {wrong.name!r} holds {first[:40]!r} (row {wrong.index[0]}, counted from 0)"
        f"{more}; numbers were expected: "
        f"{why_no_number(first) or 'correct it or leave it empty'}."
    )


def numbers_in(column: Any) -> Any:
    """Texts as numbers, missing where they are none."""
    return pd.to_numeric(as_texts(column), errors="coerce").astype("float64")


def day_texts(column: Any) -> Any:
    """Days such as 20141013 as texts, whether they are numbers or texts; times stay times."""
    return column if kinds.is_datetime64_any_dtype(column) else as_texts(numbers_in(column))


def are_days(column: Any) -> bool:
    """Whether all numbers are days such as 20141013; none may be missing."""
    first, last = (10_000 * year for year in DAY_YEARS)
    # Few columns pass this, which is quicker than to read texts.
    is_near = column.between(first, last + 9_999).all()
    return bool(is_near and parse_times(day_texts(column), DAY_NUMBER).notna().all())


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
