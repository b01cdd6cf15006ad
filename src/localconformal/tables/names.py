"""What the names of rows are in a CSV file: numbers, or texts that must keep every character."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

WHOLE = r"^\s*[+-]?\d+\s*$"
NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
#: As numbers, 007 and +49 would be other names; only where no value is negative, for a code is not.
CODE = r"^\s*(0\d|\+)"
NEGATIVE = r"^\s*-"


def name_type(columns: Iterable[Any]) -> Any:
    """The Arrow type of names that were written as texts, from all the pieces of their column.

    Whole numbers are int64 and others float64. Texts are whatever else there is, whole numbers of
    more than 64 bits, and codes such as 007.

    Examples
    --------
    >>> [str(name_type([pa.array(["1", one])])) for one in ("-96", "-2.5", "007", "=a", str(2**64))]
    ['int64', 'double', 'string', 'string', 'string']
    """
    whole = fits = True
    code = negative = known = False
    for column in columns:
        if not every(column, NUMBER):
            return pa.string()
        whole = whole and every(column, WHOLE)
        fits = fits and whole and is_int64(column)
        code, negative = code or some(column, CODE), negative or some(column, NEGATIVE)
        known = known or column.null_count < len(column)
    if not known or (code and not negative) or (whole and not fits):
        return pa.string()
    return pa.int64() if whole else pa.float64()


def every(column: Any, pattern: str) -> bool:
    """Whether all known texts match."""
    return bool(pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def some(column: Any, pattern: str) -> bool:
    """Whether a text matches."""
    return bool(pc.any(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def is_int64(column: Any) -> bool:
    """Whether 64 bits hold all these whole numbers."""
    digits = pc.replace_substring_regex(column, r"[\s+]", "")
    try:
        digits.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True
