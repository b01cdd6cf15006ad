"""Names of cells: equal labels have one name, whatever holds them, and different ones two."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.columns import label_of
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
    """
    if isinstance(label, str):
        return shortened(repr(str(label)))
    if isinstance(label, (bool, np.bool_)):
        return str(int(label))
    name = label_of(label)
    return "missing" if name is None else shortened(name)


def shortened(name: str) -> str:
    """The name itself, or the beginning of a long one and its digest."""
    if len(name) <= LONGEST_NAME:
        return name
    # Without a quote at its end it is the name of no short text.
    return (
        f"{name[:KEPT]}... {blake2b(name.encode('utf-8', 'replace'), digest_size=16).hexdigest()}"
    )
