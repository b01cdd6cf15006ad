"""Times in a table: recognised, parsed, and told as numbers that a model can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from localconformal.quantiles import Array

ISO = "ISO8601"
#: A day as eight digits, which may be a number too; read so in these years only.
DAY_NUMBER, DAY_YEARS = "%Y%m%d", (1900, 2099)
#: Days first: where all texts fit both orders, they are read as the first that fits.
DATES = (
    *("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y"),
)
CLOCKS = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
#: What texts are tried to be read as, in this order.
FORMATS = (ISO, *(day + clock for day in DATES for clock in CLOCKS), "%H:%M:%S", "%H:%M")
#: A text is tried only if it looks like one of those.
LOOKS_LIKE_TIME = (
    r"^\s*(?:\d{1,4}[-/.:]\d{1,2}|\d{8}(?:T|\s*$)|\d{1,2}[ -][A-Za-z]{3}|[A-Za-z]{3,9} \d{1,2}, )"
)
TRIED_FIRST = 200
SECONDS_PER_DAY = 86_400.0

#: Part of a time -> its number; each is a function of that time alone.
PARTS: dict[str, Callable[[Any], Any]] = {
    "days": lambda time: seconds(time) / SECONDS_PER_DAY,
    "month": lambda time: time.dt.month,
    "day": lambda time: time.dt.day,
    "weekday": lambda time: time.dt.day_of_week,
    "hour": lambda time: np.mod(seconds(time), SECONDS_PER_DAY) / 3600.0,
}


def find_format(texts: Any) -> str | None:
    """The format in which all texts are times, if there is one; missing ones do not count.

    Examples
    --------
    >>> find_format(pd.Series(["31/12/2020", "01/01/2021"])), find_format(pd.Series(["a", "b"]))
    ('%d/%m/%Y', None)
    """
    known = texts.dropna()
    if not len(known) or not known.iloc[:TRIED_FIRST].str.contains(LOOKS_LIKE_TIME).all():
        return None
    some = known.iloc[:TRIED_FIRST]
    # Eight digits are a day of our time, or none: ISO would take the year 1234 too.
    for tried in (DAY_NUMBER,) if some.str.isdigit().all() else FORMATS:
        if parse_times(some, tried).notna().all() and parse_times(known, tried).notna().all():
            return tried
    return None


def is_ambiguous(texts: Any, time_format: str) -> bool:
    """Whether the texts are other times with day and month the other way round.

    Examples
    --------
    >>> is_ambiguous(pd.Series(["01/02/2020", "12/11/2020"]), "%d/%m/%Y")
    True
    >>> is_ambiguous(pd.Series(["01/02/2020", "31/12/2020"]), "%d/%m/%Y")
    False
    """
    day, month = "%d", "%m"
    swapped = time_format.replace(day, "\0").replace(month, day).replace("\0", month)
    if swapped == time_format or swapped not in FORMATS:
        return False
    others = parse_times(texts, swapped)
    return bool(others.notna().all() and (others != parse_times(texts, time_format)).any())


def parse_times(column: Any, time_format: str) -> Any:
    """Texts or times as UTC times without a zone; what cannot be read is missing."""
    if time_format == DAY_NUMBER and not is_datetime64_any_dtype(column):
        column = column.where(column.str.fullmatch(r"\d{8}", na=False))
    parsed = pd.to_datetime(column, format=time_format, errors="coerce", utc=True)
    if time_format == DAY_NUMBER:
        parsed = parsed.where(parsed.dt.year.between(*DAY_YEARS))
    return parsed.dt.tz_localize(None)


def time_parts(times: Any) -> dict[str, Array]:
    """Every part of the times, missing where they are: part -> (n,)."""
    return {
        name: np.asarray(part(times).astype("float64"), dtype=np.float64)
        for name, part in PARTS.items()
    }


def seconds(times: Any) -> Any:
    """Seconds since 1970."""
    return (times - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
