"""Rows in the order of time: the first train, later ones calibrate, the last are held out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pandas.api import types as kinds

from localconformal.io.tables import TableError, listing
from localconformal.regressors.cells import name_of
from localconformal.splitting import Rows
from localconformal.text import say_number
from localconformal.workflow.columns import Reader, TimeReader, as_floats, as_texts
from localconformal.workflow.times import ISO, find_format, is_ambiguous, parse_times

#: Share of the rows to fit that calibrate.
CALIBRATION_SHARE = 0.25


def split_in_order(n: int, share: float) -> tuple[Rows, Rows]:
    """Rows 0..n-1 in two parts, of which the second has the last ``share`` of them.

    Examples
    --------
    >>> split_in_order(5, 0.25)
    (array([0, 1, 2]), array([3, 4]))
    """
    rows = np.arange(n)
    begin = n - math.ceil(share * n)
    return rows[:begin], rows[begin:]


def in_time(column: Any, known: Rows) -> tuple[Rows, tuple[str, ...]]:
    """These rows in the order of a column of times, and what to know about it.

    Rows without a time are left out; those of the same time keep their order.
    """
    times, notes = comparable(column.iloc[known])
    missing = np.isnan(times)
    if missing.any():
        count = int(np.count_nonzero(missing))
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        notes = (*notes, f"{rows} no time in {column.name!r}: left out.")
    if len(np.unique(times[~missing])) == 1:
        raise TableError(
            f"column {column.name!r} holds the same time in all rows; expected times that differ: "
            "choose another column for --time."
        )
    order = np.argsort(times, kind="stable")[: len(times) - np.count_nonzero(missing)]
    return known[order], notes


def comparable(column: Any) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Times, or numbers such as years (n,), missing ones NaT or NaN; and what to know of them."""
    if kinds.is_bool_dtype(column):
        raise TableError(
            f"column {column.name!r} holds flags; times or numbers were expected of --time."
        )
    if kinds.is_numeric_dtype(column):
        return as_floats(column), ()
    if kinds.is_datetime64_any_dtype(column):
        return parse_times(column, ISO).to_numpy(), ()
    texts = as_texts(column)
    time_format = find_format(texts)
    if time_format is None:
        raise TableError(
            f"column {column.name!r} holds texts such as {str(texts.dropna().iloc[0])[:40]!r}; "
            "times in one format, or numbers, were expected of --time."
        )
    said = f"Day and month could be either in all rows of {column.name!r}: they are in the order "
    is_open = is_ambiguous(texts.dropna(), time_format)
    notes = (said + "of time if the day comes first.",) if is_open else ()
    return parse_times(texts, time_format).to_numpy(), notes


def order_note(column: Any, test_size: float) -> str:
    """How rows are split whose times, in their order, are in this column."""
    fit, held = split_in_order(len(column), test_size)
    train, calibration = split_in_order(len(fit), CALIBRATION_SHARE)
    last = [say_time(column.iloc[rows[-1]]) for rows in (train, calibration, held)]
    shared = " Rows of the same time are in more than one part." if len(set(last)) < 3 else ""
    return (
        f"Rows are split in the order of {column.name!r}: those up to {last[0]} train, then those "
        f"up to {last[1]} calibrate, and the last, up to {last[2]}, are held out.{shared} The "
        "promise assumes exchangeable rows; how well it holds over time is what the rows held out "
        "show."
    )


def say_time(value: Any) -> str:
    """A time, or a number that stands for one: four digits of those that are not whole."""
    is_share = isinstance(value, Real) and float(value) % 1 != 0
    return say_number(float(value)) if is_share else name_of(value)


def random_notes(readers: Iterable[Reader]) -> tuple[str, ...]:
    """What a random split assumes of a table with times."""
    timed = [
        reader.name
        for reader in readers
        if isinstance(reader, TimeReader) and "days" in reader.parts
    ]
    if not timed:
        return ()
    return (
        f"Rows were split at random, though there are times ({listing(timed)}): this assumes that "
        "rows to come are like those of the past; --time COLUMN checks on the last rows instead.",
    )
