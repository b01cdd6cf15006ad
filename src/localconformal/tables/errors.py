"""What is wrong with a table, in one sentence."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Columns of a message before the rest is only counted.
MOST_NAMES = 8


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


def check_columns(wanted: Iterable[str], present: list[str], source: str) -> None:
    """Every wanted column is there, or a `TableError` that suggests what was meant.

    Examples
    --------
    >>> check_columns(["prise"], ["price", "size"], "homes.csv")
    Traceback (most recent call last):
    localconformal.tables.errors.TableError: homes.csv has no column 'prise'; did you mean 'price'?
    """
    missing = [name for name in wanted if name not in present]
    if not missing:
        return
    close = get_close_matches(missing[0], present, n=3, cutoff=0.6)
    folded = [name for name in present if name.strip().lower() == missing[0].strip().lower()]
    alike = list(dict.fromkeys([*folded, *close]))
    raise TableError(
        f"{source} has no column {listing(missing)}; "
        + (f"did you mean {listing(alike)}?" if alike else f"it has {listing(present)}.")
    )
