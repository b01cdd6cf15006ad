"""Columns that a table of intervals has of its own, and the names of rows beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from localconformal.io.tables import TableError, listing

OWN_COLUMNS = ("row", "actual", "predicted")
BOUNDS = ("lower", "upper")


def check_row_name(name: str | None, levels: Sequence[float]) -> None:
    """The column that names rows is called otherwise than those made here, or a `TableError`.

    Examples
    --------
    >>> check_row_name("key", [0.9])
    """
    ends = [""] if len(levels) == 1 else [f"_{level:.10g}" for level in levels]
    taken = [*OWN_COLUMNS, *(side + end for end in ends for side in BOUNDS)]
    if name in taken:
        raise TableError(
            f"the column that names rows is called {name!r}, as one of the results is; another "
            f"name than {listing(taken)} was expected: rename it, or choose another with --id."
        )


def with_row_ids(made: Any, table: Any, rows: NDArray[Any], identifier: str | None) -> Any:
    """The frame with the position of each row in the input, and its name, before the rest."""
    named = made.reset_index(drop=True)
    if identifier is not None and identifier in table.columns:
        named.insert(0, identifier, table[identifier].array)
    elif table.index.name is not None or table.index.dtype.kind not in "iu":
        named.insert(0, table.index.name or "index", table.index.array)
    named.insert(0, "row", rows)
    return named
