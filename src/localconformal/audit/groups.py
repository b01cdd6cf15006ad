"""Groups of rows as the user names them, and strata of lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.audit.cells import Cell, Partition, Rows, count_cells
from localconformal.audit.columns import column_names
from localconformal.audit.conditions import say_exact
from localconformal.columns import is_missing
from localconformal.frames import columns_of, is_frame
from localconformal.metrics.groups import group_codes
from localconformal.metrics.size import tied_lengths
from localconformal.metrics.stratified import size_bins
from localconformal.quantiles import Array
from localconformal.text import listing, say_number, shorten

#: Fewer rows than these tell little of a coverage.
SMALL_GROUP = 30


def group_partitions(X: Any, groups: Any, n: int) -> list[Partition]:
    """One partition for each kind of groups that was named.

    Parameters
    ----------
    X : array or frame
    groups : None, labels of shape (n,), one or several names of columns, frame, or dict
        A dict has names, and labels or the name of a column for each.
    n : int
    """
    if groups is None:
        return []
    return [
        partition(name, column_named(X, given) if is_name(given) else given, n, names_in(X))
        for name, given in named_groups(X, groups, n).items()
    ]


def named_groups(X: Any, groups: Any, n: int) -> dict[str, Any]:
    """Name -> labels, or the name of a column of X."""
    if isinstance(groups, Mapping):
        return {str(name): given for name, given in groups.items()}
    if is_frame(groups):
        return {str(column.name): column.to_native() for column in columns_of(groups)}
    if is_name(groups):
        return {str(groups): groups}
    if is_listing(groups) and len(groups) != n and set(groups) <= set(names_in(X)):
        return {str(name): name for name in groups}
    if np.ndim(groups) > 1:
        raise ValueError(
            f"groups have shape {np.shape(groups)}; labels of shape ({n},) were expected: pass "
            "several of them as a frame, or as a dict of name -> labels."
        )
    name = getattr(groups, "name", None)
    return {"group" if name in (None, "") else str(name): groups}


def is_name(given: Any) -> bool:
    """Whether it names a column, as a text or a number does."""
    return isinstance(given, str) or (np.ndim(given) == 0 and not isinstance(given, Mapping))


def is_listing(given: Any) -> bool:
    """Whether it can be names in a list."""
    return isinstance(given, list | tuple) and all(is_name(one) for one in given)


def partition(by: str, labels: ArrayLike, n: int, names: list[Any]) -> Partition:
    """Rows by their labels; ``names`` is what could have been meant."""
    if np.shape(labels) != (n,):
        raise ValueError(
            f"groups have shape {np.shape(labels)}; one label for each row ({n},) was expected, or "
            f"names of columns of X ({listing(names)})."
        )
    distinct, codes = group_codes(labels, n)
    name = shorten(by)
    said = [None if is_missing(label) else shorten(say_label(label)) for label in distinct]
    return Partition(
        by,
        codes,
        # A label may be called so too.
        ["(missing)" if text is None else text for text in said],
        [f"{name} is missing" if text is None else f"{name} = {text}" for text in said],
    )


def say_label(label: Any) -> str:
    """A label as text; numbers without needless digits."""
    return say_exact(float(label)) if isinstance(label, np.number) else str(label)


def names_in(X: Any) -> list[Any]:
    """Names of the columns of X, as groups may call them."""
    if is_frame(X):
        return [column.name for column in columns_of(X)]
    array = np.asarray(X)
    return column_names(array, [str(j) for j in range(int(np.prod(array.shape[1:])))])


def column_named(X: Any, name: Any) -> NDArray[Any]:
    """The values of one column of X."""
    names = names_in(X)
    if name not in names:
        raise ValueError(
            f"groups is {name!r}; a column of X was expected ({listing(names)}), "
            "or labels, one for each row."
        )
    place = names.index(name)
    if is_frame(X):
        return np.asarray(columns_of(X)[place].to_numpy())
    return np.asarray(X)[:, place]


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
    low, high = say_number(shortest), say_number(longest)
    return low if low == high else f"{low} to {high}"
