"""Times in a table: recognised, parsed, and told as numbers that a model can use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from localconformal.quantiles import Array

ISO = "ISO8601"
#: Days first: where all texts fit both orders, they are read as the first that fits.
DATES = ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d")
CLOCKS = ("", " %H:%M", " %H:%M:%S")
#: What texts are tried to be read as, in this order.
FORMATS = (ISO, *(day + clock for day in DATES for clock in CLOCKS), "%H:%M:%S", "%H:%M")
#: A text is tried only if it looks like one of those.
LOOKS_LIKE_TIME = r"^\s*\d{1,4}[-/.:]\d{1,2}"
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
    for tried in FORMATS:
        some = known.iloc[:TRIED_FIRST]
        if parse_times(some, tried).notna().all() and parse_times(known, tried).notna().all():
            return tried
    return None


def parse_times(column: Any, time_format: str) -> Any:
    """Texts or times as UTC times without a zone; what cannot be read is missing."""
    parsed = pd.to_datetime(column, format=time_format, errors="coerce", utc=True)
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
