"""What a page may hold: plain data that JSON can say, and texts of a bounded length."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from localconformal.text import say_rows, shown

#: Characters of a name in a chart, of a text in a table, of the conditions of a rule, whose names
#: the audit has cut, and of a paragraph.
LABEL, TEXT, CONDITIONS, PARAGRAPH = 56, 120, 400, 600
#: Digits kept of a number: a page of 400 pixels shows no more.
DIGITS = 6
#: A hyphen before a number is a minus.
MINUS = re.compile(r"(?<!\w)-(?=[\d∞])|(?<=e)-(?=\d)")


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts alone; NaN and infinities as texts that say so.

    "NaN", "Infinity" and "-Infinity" are read as numbers by ``float`` and by JavaScript's
    ``Number``; JSON has no such numbers. Lone surrogates and control characters, which no file
    and no page can hold, become U+FFFD, as do marks that turn the direction of writing.

    Examples
    --------
    >>> plain({"a": (np.float64(1 / 3), math.inf), "b": None, "c": np.bool_(True)})
    {'a': [0.333333, 'Infinity'], 'b': None, 'c': True}
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float):
        return plain_float(value)
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return plain(str(value))


def plain_float(value: float) -> float | str:
    """Six digits of a finite number, whole ones in full; the others as texts."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    is_whole = value.is_integer() and abs(value) < 1e15
    return value if is_whole else float(f"{value:.{DIGITS}g}")


def short(text: Any, width: int = TEXT) -> str:
    """Text from data on one line, and not endless: it is cut inside, since ends tell more apart.

    Examples
    --------
    >>> short("a name\\nof two lines"), short("a very long name <= 7", 16)
    ('a name of two lines', 'a very lon…<= 7')
    """
    flat = " ".join(str(text).split())
    if len(flat) <= width:
        return flat
    tail = width // 3
    return f"{flat[: width - tail - 1].rstrip()}…{flat[-tail:].lstrip()}"


def typeset(number: str) -> str:
    """A number in the signs of a page: a dash, infinity and minus.

    Examples
    --------
    >>> typeset("-12.5"), typeset("-infinity"), typeset("-"), typeset("a-b")
    ('−12.5', '−∞', '–', 'a-b')
    """
    if number == "-":
        return "–"
    return MINUS.sub("−", number.replace("infinity", "∞"))


def say_band(region: Any) -> str:
    """The band of a coverage, in percent."""
    return f"{100 * region.lower:.1f} to {100 * region.upper:.1f}"


def say_rows_that(n: int, one: str, many: str) -> str:
    """How many rows, and what they do.

    Examples
    --------
    >>> say_rows_that(1, "is left out", "are left out")
    '1 row is left out.'
    """
    return f"{say_rows(n)} {one if n == 1 else many}."
