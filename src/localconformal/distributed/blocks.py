"""A Dask X and its y as a list of tasks, one a partition that has rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from localconformal.distributed.computing import compute, held, load, task
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.regressors.response import check_target

#: What a block is asked for: (X, y, position of the first row, ...) -> anything.
Question = Callable[..., Any]


def is_dask_array(value: Any) -> bool:
    """Whether this is a Dask array; frames and series are not."""
    return hasattr(value, "chunks") and hasattr(value, "to_delayed")


@dataclass(frozen=True)
class Blocks:
    """Pairs (X, y) of each partition, and where in the table they begin.

    Parameters
    ----------
    pairs : tuple of tasks
    starts, lengths : tuple of int
    meta : frame, array or None
        What X is made of, without rows.
    """

    pairs: tuple[Any, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    meta: Any

    @property
    def n(self) -> int:
        """Rows of all blocks."""
        return sum(self.lengths)

    def map(self, ask: Question, *shared: Any) -> list[Any]:
        """Steps ask(X, y, start, *shared), block by block; what they share is sent once."""
        sent = [held(value) for value in shared]
        return [
            task(ask_block, pair, start, length, ask, *sent)
            for pair, start, length in zip(self.pairs, self.starts, self.lengths, strict=True)
        ]


def ask_block(pair: tuple[Any, Any], start: int, length: int, ask: Question, *shared: Any) -> Any:
    """The answer of one block, whose two sides must be as long as they were when counted."""
    X, y = pair
    if len(X) != length or len(y) != length:
        raise ValueError(
            f"a partition of X has {len(X)} rows and that of y {len(y)}, {length} when counted; "
            "the same number was expected: cut X and y at the same rows."
        )
    return ask(X, check_target(y), start, *shared)


def make_blocks(X: Any, y: Any) -> Blocks:
    """Blocks of a Dask frame and series, or of two Dask arrays, cut at the same rows."""
    if is_dask_array(X) != is_dask_array(y) or not hasattr(y, "dask"):
        raise ValueError(
            f"X is a Dask {type(X).__name__} and y a {type(y).__name__}; a Dask series was "
            "expected with a frame, a Dask array with an array."
        )
    pairs, lengths = array_pairs(X, y) if is_dask_array(X) else frame_pairs(X, y)
    starts = [0, *accumulate(lengths)]
    if starts[-1] == 0:
        raise ValueError("X has 0 sample(s) in all its partitions; at least 1 was expected.")
    filled = [
        (pair, start, length)
        for pair, start, length in zip(pairs, starts[:-1], lengths, strict=True)
        if length
    ]
    pairs, starts, lengths = (list(column) for column in zip(*filled, strict=True))
    # Dask's own sample of an array has no columns.
    meta = np.empty((0, *X.shape[1:]), X.dtype) if is_dask_array(X) else X._meta
    return Blocks(tuple(pairs), tuple(starts), tuple(lengths), meta)


def frame_pairs(X: Any, y: Any) -> tuple[list[Any], list[int]]:
    """Pairs of a frame and a series; lengths by a pass over y alone."""
    if X.npartitions != y.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions and y {y.npartitions}; the same were expected: "
            "take both from one frame, or repartition them alike."
        )
    counts = y.map_partitions(len, meta=(None, "int64"), enforce_metadata=False)
    # One collection of both, so that Dask reads what they share once.
    frames = load("dask.dataframe")
    both = frames.map_partitions(
        pair_up, X, y, meta=(None, "object"), enforce_metadata=False, align_dataframes=False
    )
    lengths = compute(*own_partitions(counts))
    return own_partitions(both), [int(length) for length in lengths]


def own_partitions(collection: Any) -> list[Any]:
    """Tasks of the partitions as the user cut them, which read no more columns than they need.

    Dask's full optimisation also joins Parquet files, the more of them the fewer columns are
    read: y alone would be cut at other rows than X and y together.
    """
    return list(collection.simplify().to_delayed(optimize_graph=False))


def array_pairs(X: Any, y: Any) -> tuple[list[Any], list[int]]:
    """Pairs of two arrays; columns in one chunk, rows as X has them."""
    whole = X.rechunk(dict.fromkeys(range(1, X.ndim), -1))
    column = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    known = not np.isnan([*whole.chunks[0], *column.chunks[0]]).any()
    if known and len(X) != len(column):
        raise ValueError(
            f"X has {len(X)} rows and y has {len(column)}; the same number was expected."
        )
    if known and whole.chunks[0] != column.chunks[0]:
        column = column.rechunk((whole.chunks[0],))
    # Not optimised, so that what X and y share keeps its name and is made once.
    rows = whole.to_delayed(optimize_graph=False).ravel()
    responses = column.to_delayed(optimize_graph=False).ravel()
    if len(rows) != len(responses):
        raise ValueError(
            f"X has {len(rows)} chunks of rows and y {len(responses)}; the same were expected: "
            "call compute_chunk_sizes() on both."
        )
    counts = whole.chunks[0] if known else compute(*(task(len, one) for one in responses))
    pairs = [task(pair_up, *both) for both in zip(rows, responses, strict=True)]
    return pairs, [int(count) for count in counts]


def pair_up(X: Any, y: Any) -> tuple[Any, Any]:
    """Both, as one value of one task."""
    return X, y


def kept_rows(X: Any, y: Array, flags: Any) -> tuple[Any, Array]:
    """The flagged rows; all of them without a copy."""
    if flags.all():
        return X, y
    rows = np.flatnonzero(flags)
    return take_rows(X, rows), y[rows]


def stack_parts(parts: list[Any]) -> Any:
    """Parts of arrays or frames below each other; labels that only some know are kept."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    filled = [part for part in parts if len(part)] or parts[:1]
    return load("dask.dataframe.dispatch").concat(filled)
