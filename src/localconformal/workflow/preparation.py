"""From any table to numbers and categories: learned on training rows, a function of the row.

What is learned is which columns tell rows apart, which texts are times and in what format, and
which labels there are. Nothing is imputed, scaled or encoded here: that is the model's business,
and gradient boosting needs none of it. Whatever was decided is said in ``notes``.

* Numbers stay; infinite ones are missing. True and false are 1 and 0.
* Times, and texts that are all times in one format, become days since 1970, month, day of the
  month, weekday and hour, of which those are kept that differ between training rows.
  Whole numbers that are all days such as 20141013 are times if their column is named like one.
* Other texts are labels. Labels that training rows do not have, or beyond the most frequent
  `MOST_LABELS`, are missing.
* Left out: columns that are constant or empty in training rows, texts that differ in most rows
  (identifiers, free text), and whole numbers, all different, of a column named like an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types as kinds

from localconformal.io.tables import TableError, check_columns, listing, why_no_number
from localconformal.workflow.columns import (
    MOST_LABELS,
    FlagReader,
    LabelReader,
    NumberReader,
    Reader,
    TimeReader,
    are_days,
    as_floats,
    as_texts,
    day_texts,
    numbers_in,
)
from localconformal.workflow.times import (
    DAY_NUMBER,
    ISO,
    TRIED_FIRST,
    find_format,
    is_ambiguous,
    parse_times,
    time_parts,
)

#: Texts of which more than this share differ are no labels, if there are enough of them.
IDENTIFIER_SHARE, IDENTIFIER_LABELS = 0.5, 50
#: A column is named like an identifier if its name ends with one of these words, or begins with id.
IDENTIFIER_WORDS = frozenset(
    ("id", "ids", "index", "idx", "row", "no", "nr", "number", "key", "uid", "identifier")
)
#: The same in one word; "paid" and "grid" end in "id" too.
JOINED_IDENTIFIER = re.compile(
    r"(?:row|record|user|customer|client|patient|person|passenger|member|account|order|product"
    r"|item|session|transaction|house|home)_?id"
)
#: Words, also where capitals begin them: customerId, CustomerID.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: A column of whole numbers that are all days is named so if it holds days.
NAMED_LIKE_A_DAY = re.compile(r"date|day|time|datum|ymd|\bdt\b|_dt$|^dt_", re.IGNORECASE)

EMPTY = "Left out, as training rows have no value there"
CONSTANT = "Left out, as all training rows hold the same value"
IDENTIFIER = "Left out, as most training rows hold a text of their own there, like an identifier"
ROW_NUMBER = (
    "Left out, as it numbers the rows: whole numbers, all different, under the name of an "
    "identifier"
)
COLLAPSED = (
    "Left out, as its values differ only in digits beyond the 15 or so that numbers keep here"
)
MAYBE_DAYS = "Read as numbers, though all could be days such as 20141013 (no date in the name)"
AMBIGUOUS = (
    "Day and month could be either in all training rows, and the day is taken to come first (write "
    "2014-10-31 to settle it)"
)
FLAG = "Read as 1 (true) and 0 (false)"
LABEL = "Read as categories, so that other labels in later rows count as missing"
CUT = f"Only the {MOST_LABELS} most frequent labels are told apart, the others count as missing"
ALMOST_NUMBER = "Read as categories, though most of the texts are numbers"
MISSING = "Missing values are kept as such"
FOREIGN = "Not read as numbers, for a decimal comma or marks between thousands"


@dataclass(frozen=True)
class Preparation:
    """What was learned of a table.

    Attributes
    ----------
    readers : tuple of readers
        Of `localconformal.workflow.columns`, one a column that is used.
    notes : tuple of str
        What was done, in sentences.
    """

    readers: tuple[Reader, ...]
    notes: tuple[str, ...]

    @property
    def stored_types(self) -> dict[str, str]:
        """Columns to read from a file, and as what: for `localconformal.io.table_batches`."""
        return {reader.name: reader.stored for reader in self.readers}

    def transform(self, table: Any) -> tuple[Any, dict[str, int]]:
        """Numbers and categories (n, d), and how many values of each column could not be used.

        Parameters
        ----------
        table : pandas frame
            With the columns used here; others are not looked at.
        """
        check_columns(self.stored_types, list(table.columns), "The table")
        made: dict[str, Any] = {}
        lost: dict[str, int] = {}
        for reader in self.readers:
            columns, count = reader.read(table[reader.name])
            made |= columns
            if count:
                lost[reader.name] = count
        return pd.DataFrame(made, index=table.index), lost


def learn_preparation(table: Any) -> Preparation:
    """Learn from training rows how to read such a table.

    Parameters
    ----------
    table : pandas frame
        Feature columns of the training rows.

    Returns
    -------
    Preparation

    Examples
    --------
    >>> days = ["2020-01-31", "2020-02-01"]
    >>> learned = learn_preparation(pd.DataFrame({"day": days, "same": 1, "kind": ["a", "b"]}))
    >>> learned.notes[1]
    "Left out, as all training rows hold the same value: 'same'."
    >>> prepared, lost = learned.transform(pd.DataFrame({"day": ["2020-03-01"], "kind": ["z"]}))
    >>> list(prepared), lost
    (['day.days', 'day.month', 'day.day', 'day.weekday', 'kind'], {'kind': 1})
    """
    said: dict[str, list[str]] = {}
    readers = []
    for name in table.columns:
        reader, reasons = learn_column(table[name])
        for reason in reasons:
            said.setdefault(reason, []).append(str(name))
        if reader is not None:
            readers.append(reader)
    if not readers:
        raise TableError(
            f"none of the columns {listing(table.columns)} tells training rows apart; at least one "
            "column with several values was expected."
        )
    return Preparation(tuple(readers), tuple(sentences(said)))


def learn_column(column: Any) -> tuple[Reader | None, list[str]]:
    """The reader of one column, None if it is left out, and what to say about it."""
    known = column.dropna()
    if not len(known):
        return None, [EMPTY]
    missing = [MISSING] if len(known) < len(column) else []
    if known.nunique() == 1 and not missing:
        return None, [CONSTANT]
    name = str(column.name)
    if kinds.is_bool_dtype(column):
        return FlagReader(name), [FLAG, *missing]
    if kinds.is_numeric_dtype(column):
        return learn_number(name, known, missing)
    if kinds.is_datetime64_any_dtype(column):
        return learn_time(name, known, ISO, missing)
    texts = as_texts(known)
    time_format = find_format(texts)
    if time_format is not None:
        return learn_time(name, texts, time_format, missing)
    return learn_labels(name, texts, missing)


def learn_number(name: str, known: Any, missing: list[str]) -> tuple[Reader | None, list[str]]:
    """Numbers, unless they only number the rows, or are days."""
    values = as_floats(known)
    if not missing and np.all(values == values[0]):
        return None, [COLLAPSED]
    whole = np.isfinite(values) & (np.trunc(values) == values)
    if names_rows(name) and whole.all() and known.nunique() == len(known):
        return None, [ROW_NUMBER]
    if not are_days(known):
        return NumberReader(name), missing
    if NAMED_LIKE_A_DAY.search(name):
        return learn_time(name, day_texts(known), DAY_NUMBER, missing)
    return NumberReader(name), [MAYBE_DAYS, *missing]


def names_rows(name: str) -> bool:
    """Whether a column of this name holds numbers of rows, persons or things.

    Examples
    --------
    >>> [name for name in ("Id", "customerId", "order no", "userid", "paid") if names_rows(name)]
    ['Id', 'customerId', 'order no', 'userid']
    """
    words = [word.lower() for word in WORD.findall(name)]
    return (
        name.startswith("Unnamed: ")
        or words[:1] == ["id"]
        or not IDENTIFIER_WORDS.isdisjoint(words[-1:])
        or JOINED_IDENTIFIER.fullmatch(name.lower()) is not None
    )


def learn_time(
    name: str, known: Any, time_format: str, missing: list[str]
) -> tuple[Reader | None, list[str]]:
    """Times, as the parts that differ."""
    found = time_parts(parse_times(known, time_format))
    parts = tuple(part for part, values in found.items() if np.ptp(values) > 0)
    if not parts:
        return None, [CONSTANT]
    written = "" if time_format == ISO else f" (written {time_format})"
    is_text = not kinds.is_datetime64_any_dtype(known)
    said = [AMBIGUOUS] if is_text and is_ambiguous(known, time_format) else []
    return TimeReader(name, time_format, parts), [
        f"Read as a time{written}, by its {', '.join(parts)}",
        *said,
        *missing,
    ]


def learn_labels(name: str, texts: Any, missing: list[str]) -> tuple[Reader | None, list[str]]:
    """Labels, the most frequent ones, unless nearly every row has its own."""
    counts = texts.value_counts()
    is_foreign = sum(why_no_number(text) is not None for text in texts.iloc[:TRIED_FIRST])
    foreign = [FOREIGN] if is_foreign > 0.5 * len(texts.iloc[:TRIED_FIRST]) else []
    if len(counts) > max(IDENTIFIER_LABELS, IDENTIFIER_SHARE * len(texts)):
        return None, [*foreign, IDENTIFIER]
    # Ties go by the label, so that the order of rows decides nothing.
    ordered = sorted(counts.index, key=lambda label: (-counts[label], label))
    labels = tuple(sorted(str(label) for label in ordered[:MOST_LABELS]))
    is_mostly_number = numbers_in(texts).notna().mean() > 0.5
    said = [ALMOST_NUMBER if is_mostly_number else LABEL]
    said += [CUT] if len(counts) > MOST_LABELS else []
    return LabelReader(name, labels), [*foreign, *said, *missing]


def sentences(said: Mapping[str, list[str]]) -> list[str]:
    """One sentence a reason, with the columns it is about."""
    return [f"{reason}: {listing(names)}." for reason, names in said.items()]
