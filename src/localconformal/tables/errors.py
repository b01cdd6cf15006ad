"""What is wrong with a table, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

#: Columns of a message before the rest is only counted.
MOST_NAMES = 8
#: How a number may be written elsewhere -> what to do about it; the first that fits counts.
FOREIGN_NUMBERS = {
    r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?": "it has commas between thousands: write it without them",
    r"[+-]?\d*(?:[.\s']\d{3})*,\d+": "it has a decimal comma: write a point",
    r"[+-]?\d{1,3}(?:[\s'_]\d{3})+(?:\.\d*)?": "its thousands stand apart: write it without gaps",
}


class TableError(ValueError):
    """A file that cannot be used as a table; the message is one sentence for the user."""


def listing(names: Iterable[object]) -> str:
    """Names in quotes with commas; those beyond the first few are counted.

    Examples
    --------
    >>> listing(["a", "b"])
    "'a', 'b'"
    """
    quoted = [repr(str(name)) for name in names]
    rest = len(quoted) - MOST_NAMES
    return ", ".join(quoted[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


@contextmanager
def about(source: str) -> Iterator[None]:
    """A `TableError` from inside names the table it is about.

    Examples
    --------
    >>> with about("homes.csv"):
    ...     raise TableError("column 'size' holds 'x'.")
    Traceback (most recent call last):
    localconformal.tables.errors.TableError: homes.csv: column 'size' holds 'x'.
    """
    try:
        yield
    except TableError as error:
        if source in str(error):
            raise
        raise TableError(f"{source}: {error}") from error


def why_no_number(text: str) -> str | None:
    """What keeps a number from being one to this program, if the text is one to people.

    Examples
    --------
    >>> why_no_number("1,5"), why_no_number("high")
    ('it has a decimal comma: write a point', None)
    """
    found = (why for form, why in FOREIGN_NUMBERS.items() if re.fullmatch(form, text.strip()))
    return next(found, None)


def check_columns(wanted: Iterable[str], present: list[str], source: str) -> None:
    """Every wanted column is there, or a `TableError` that suggests what was meant.

    Examples
    --------
    >>> check_columns(["prise"], ["price", "size"], "homes.csv")
    Traceback (most recent call last):
    localconformal.tables.errors.TableError: homes.csv has no column 'prise'; did you mean 'price'?
    """
    # A set: a scan of the list for each of 100,000 names would take a minute.
    known = set(present)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return
    close = get_close_matches(missing[0], present, n=3, cutoff=0.6)
    folded = [name for name in present if name.strip().lower() == missing[0].strip().lower()]
    alike = list(dict.fromkeys([*folded, *close]))
    raise TableError(
        f"{source} has no column {listing(missing)}; "
        + (f"did you mean {listing(alike)}?" if alike else f"it has {listing(present)}.")
    )
