"""Groups of rows as the user names them, and strata of lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.cells import Cell, Partition, Rows, count_cells
from localconformal.audit.columns import column_names, listing
from localconformal.audit.conditions import say_number
from localconformal.frames import columns_of, is_frame
from localconformal.metrics.groups import group_codes
from localconformal.metrics.size import tied_lengths
from localconformal.metrics.stratified import size_bins
from localconformal.quantiles import Array

#: Fewer rows than these tell little of a coverage.
SMALL_GROUP = 30


def group_partitions(X: Any, groups: Any, n: int) -> list[Partition]:
    """One partition for each kind of groups that was named.

    Parameters
    ----------
    X : array or frame
    groups : None, array of labels of shape (n,), name of a column of X, or dict of name -> labels
    n : int
    """
    if groups is None:
        return []
    if isinstance(groups, Mapping):
        return [partition(str(name), labels, n) for name, labels in groups.items()]
    if isinstance(groups, str) or np.ndim(groups) == 0:
        return [partition(str(groups), column_named(X, groups), n)]
    name = getattr(groups, "name", None)
    return [partition("group" if name is None else str(name), groups, n)]


def partition(by: str, labels: ArrayLike, n: int) -> Partition:
    """Rows by their labels."""
    distinct, codes = group_codes(labels, n)
    texts = [say_label(label) for label in distinct]
    return Partition(by, codes, texts, [f"{by} = {text}" for text in texts])


def say_label(label: Any) -> str:
    """A label as text; numbers without needless digits."""
    return say_number(float(label)) if isinstance(label, np.number) else str(label)


def column_named(X: Any, name: Any) -> NDArray[Any]:
    """The values of one column of X."""
    if is_frame(X):
        columns = columns_of(X)
        names: list[Any] = [column.name for column in columns]
        if name in names:
            return np.asarray(columns[names.index(name)].to_numpy())
    else:
        array = np.asarray(X)
        table = array.reshape(len(array), -1)
        names = column_names(array, [str(j) for j in range(table.shape[1])])
        if name in names:
            return np.asarray(table[:, names.index(name)])
    raise ValueError(
        f"groups is {name!r}; a column of X was expected ({listing([str(n) for n in names])}), "
        "or labels, one for each row."
    )


def group_cells(partitions: list[Partition], rows: Rows) -> tuple[tuple[Cell, ...], list[str]]:
    """The groups of all kinds as one family of tests, and what to know about them."""
    cells = count_cells(partitions, rows)
    notes = [
        f"All rows are in one group, {part.texts[0]}: it tells what the summary tells."
        for part in partitions
        if len(part.labels) == 1
    ]
    small = [cell.text for cell in cells if cell.n < SMALL_GROUP]
    if small:
        notes.append(f"Groups of fewer than {SMALL_GROUP} rows have wide bands: {listing(small)}.")
    return cells, notes


def size_cells(bounds: Array, rows: Rows) -> tuple[tuple[Cell, ...], list[str]]:
    """Strata of the length, from the shortest on, as one family of tests."""
    length = tied_lengths(bounds)
    codes = size_bins(length, n_bins=5)
    ends = [(length[codes == code].min(), length[codes == code].max()) for code in np.unique(codes)]
    labels = [say_lengths(low, high) for low, high in ends]
    part = Partition("length", codes, labels, [f"length {label}" for label in labels])
    if len(labels) == 1:
        return (), [
            "All intervals are of one length: they do not adapt, and there are no strata of the "
            "length to tell apart."
        ]
    return count_cells([part], rows), []


def say_lengths(shortest: float, longest: float) -> str:
    """A range of lengths in words."""
    if np.isinf(shortest):
        return "infinite"
    low, high = f"{shortest:.4g}", f"{longest:.4g}"
    return low if low == high else f"{low} to {high}"
