"""The one look of the commands' tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal


def empty_table(columns: Mapping[str, Literal["left", "right"]]) -> Any:
    """A rich table without rows: heading -> side of its texts; the first column is the name.

    Long words are folded, never cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, collapse_padding=True)
    for position, (heading, side) in enumerate(columns.items()):
        table.add_column(
            heading,
            justify=side,
            style="bold" if position == 0 else "",
            no_wrap=position == 0,
            overflow="fold",
        )
    return table
