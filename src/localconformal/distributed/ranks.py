"""Exact order statistics of numbers that are spread over tasks, in one pass.

The bits of a float64, with the sign taken care of, are ordered as the number is. Their first 20
cut the line into cells narrower than 0.4 % of the numbers within. Counts by cell add up exactly
over tasks and say in which cell the rank falls; the numbers of that cell, each once with its count,
give it exactly. What moves is a few thousand counts, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.distributed.graph import Step, add_up
from localconformal.quantiles import Array

_CELL_BITS = np.uint64(44)
_SIGN = np.uint64(63)

_Counts = tuple[NDArray[Any], NDArray[np.int64]]
_Ranks = Callable[[int], Sequence[int]]


def _cells_of(column: Array) -> NDArray[np.uint64]:
    """The first bits of unsigned integers in the order of the numbers; -0.0 is 0.0."""
    bits = (np.asarray(column, dtype=np.float64) + 0.0).view(np.uint64)
    return np.where(bits >> _SIGN, ~bits, bits | (np.uint64(1) << _SIGN)) >> _CELL_BITS


def smallest(parts: Sequence[Any], ranks: _Ranks) -> Any:
    """A step for (n, values (K,)): column by column the value of a rank, +inf beyond n.

    ``parts`` are steps for arrays (n_p, K) of n rows together; ``ranks`` maps n to K ranks, from 1.
    """
    counted = add_up([Step(_count_cells, part) for part in parts], _merge_counts)
    found = Step(_find_cells, counted, ranks)
    values = add_up([Step(_count_values, part, found) for part in parts], _merge_counts)
    return Step(_pick, found, values)


def _count_cells(part: Array) -> list[_Counts]:
    return [_unique_counts(_cells_of(column)) for column in part.T]


def _unique_counts(values: NDArray[Any]) -> _Counts:
    kinds, counts = np.unique(values, return_counts=True)
    return kinds, counts.astype(np.int64)


def _merge_counts(parts: list[list[_Counts]]) -> list[_Counts]:
    merged = []
    for columns in zip(*parts, strict=True):
        values, counted = map(np.concatenate, zip(*columns, strict=True))
        kinds, places = np.unique(values, return_inverse=True)
        counts = np.zeros(len(kinds), dtype=np.int64)
        np.add.at(counts, places, counted)
        merged.append((kinds, counts))
    return merged


def _find_cells(counted: list[_Counts], ranks: _Ranks) -> tuple[int, list[tuple[Any, int]]]:
    """n, and by column the cell of the rank with the rank within it; None beyond n."""
    n = int(counted[0][1].sum())
    found: list[tuple[Any, int]] = []
    for (kinds, counts), rank in zip(counted, ranks(n), strict=True):
        upto = np.cumsum(counts)
        place = int(np.searchsorted(upto, max(rank, 1)))
        beyond = place == len(kinds)
        found.append((None, 0) if beyond else (kinds[place], max(rank, 1) - upto[place]))
    return n, found


def _count_values(part: Array, found: tuple[int, list[tuple[Any, int]]]) -> list[_Counts]:
    """The different numbers of the cell that each column asks for."""
    return [
        _unique_counts(column[:0] if cell is None else column[_cells_of(column) == cell])
        for column, (cell, _) in zip(part.T, found[1], strict=True)
    ]


def _pick(found: tuple[int, list[tuple[Any, int]]], values: list[_Counts]) -> tuple[int, Array]:
    """The values of the ranks; within a cell they are counted back from its end."""
    n, cells = found
    picked = np.full(len(cells), np.inf)
    for column, ((cell, back), (kinds, counts)) in enumerate(zip(cells, values, strict=True)):
        if cell is not None:
            upto = np.cumsum(counts)
            picked[column] = kinds[int(np.searchsorted(upto, upto[-1] + back))]
    return n, picked
