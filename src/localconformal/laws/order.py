"""Reference rows: as many as scores, and in an order of their own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array

#: Rows up to which their order never matters; beyond, sorting by all columns is too dear.
CANONICAL_UP_TO = 50_000


def check_lengths(rows: int, scores: int) -> None:
    """As many rows as scores, or refused."""
    if rows != scores:
        raise ValueError(f"X has {rows} rows and v has {scores}; the same number was expected.")


def canonical_order(rows: Array, v: Array) -> NDArray[np.intp]:
    """Order by v, ties by the columns of rows: the same rows in any order come out alike."""
    return np.lexsort((*rows.T[::-1], v))
