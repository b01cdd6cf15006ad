"""Many query rows, some at a time: what is held of them does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from localconformal.models import take_rows

#: Rows whose local laws are held at a time: some 0.1 kB each for a kernel or a forest of many
#: reference rows, up to 5 kB for a stack of laws of every kind, 330 MB in all.
ROWS_AT_A_TIME = 2**16


def row_parts(X: Any, extra: Any = None) -> Iterator[tuple[slice, Any, Any]]:
    """Parts of the rows: where they stand, themselves, and what came beside them.

    Examples
    --------
    >>> [part for part, _, _ in row_parts(np.zeros((70_000, 1)))]
    [slice(0, 65536, None), slice(65536, 70000, None)]
    """
    n = len(X)
    if n <= ROWS_AT_A_TIME:
        # The very object: what is asked of it once in a query is known by its identity.
        yield slice(0, n), X, extra
        return
    for start in range(0, n, ROWS_AT_A_TIME):
        part = slice(start, min(start + ROWS_AT_A_TIME, n))
        rows = np.arange(part.start, part.stop)
        yield part, take_rows(X, rows), None if extra is None else take_rows(extra, rows)
