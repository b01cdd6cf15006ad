"""Names of cells: equal labels have one name, whatever holds them, and different ones two."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.columns import is_missing
from localconformal.frames import check_unmasked

#: Arrays of names are as wide as the longest: longer texts are told by their digest.
LONGEST_NAME, KEPT = 100, 40


def check_cells(labels: Any, n: int) -> NDArray[Any]:
    """One name a row; missing labels are a cell."""
    check_unmasked(labels, "groups")
    # A list as it is: NumPy would make texts of numbers beside texts, all as wide as the longest.
    cells = np.asarray(labels, dtype=object if isinstance(labels, (list, tuple)) else None)
    if cells.shape != (n,):
        raise ValueError(
            f"groups have shape {cells.shape}; one label for each of {n} rows was expected."
        )
    if cells.dtype.kind not in "biufmM":
        return np.array([name_of(label) for label in cells], dtype=np.str_)
    distinct, place = np.unique(cells, return_inverse=True)
    return np.array([name_of(label) for label in distinct], dtype=np.str_)[place.reshape(n)]


def name_of(label: Any) -> str:
    """The name of a cell: numbers and times that are equal have the same, a text has quotes.

    Examples
    --------
    >>> [name_of(label) for label in (1, 1.0, "1", 0.5, None, float("nan"), "missing")]
    ['1', '1', "'1'", '0.5', 'missing', 'missing', "'missing'"]
    >>> name_of(np.datetime64("2020-01-01T00:00:00")), name_of(timedelta(hours=36))
    ('2020-01-01', '129600.0 s')
    """
    if is_missing(label):
        return "missing"
    # Before numbers: numpy.timedelta64 passes for one.
    if isinstance(label, (timedelta, np.timedelta64)):
        return f"{np.timedelta64(label) / np.timedelta64(1, 's')} s"
    if isinstance(label, (date, np.datetime64)):
        return name_of_time(label)
    if isinstance(label, (bool, np.bool_, Integral)):
        return str(int(label))
    if isinstance(label, Real):
        number = float(label)
        return str(int(number)) if number.is_integer() else repr(number)
    return shortened(repr(str(label)) if isinstance(label, str) else str(label))


def name_of_time(label: Any) -> str:
    """A day or a moment in the coarsest unit that tells it; one with a time zone in UTC."""
    zone = ""
    if isinstance(label, datetime) and label.tzinfo is not None:
        label, zone = label.astimezone(timezone.utc).replace(tzinfo=None), "Z"
    # What pandas holds is finer than Python's own microseconds.
    exact = label.to_datetime64() if hasattr(label, "to_datetime64") else np.datetime64(label)
    return f"{np.datetime_as_string(exact, unit='auto')}{zone}"


def shortened(name: str) -> str:
    """The name itself, or the beginning of a long one and its digest."""
    if len(name) <= LONGEST_NAME:
        return name
    # Without a quote at its end it is the name of no short text.
    return (
        f"{name[:KEPT]}... {blake2b(name.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"
    )
