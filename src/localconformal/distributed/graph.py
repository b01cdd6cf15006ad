"""Steps that Dask runs, rows on Dask as blocks, and the role of each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from localconformal.parallel import in_threads
from localconformal.quantiles import Array, Support
from localconformal.regressors.base import check_target
from localconformal.rows import take_rows

#: Results added up by one task: enough to keep the tree flat, few enough for memory.
_FAN_IN = 8
#: Independent random numbers per position, by their purpose.
SPLIT, FOLD, DRAW = range(3)
#: Numbers that Philox generates at a time.
_WORDS = 4


def load(module: str) -> Any:
    """A part of Dask, or a sentence that names the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"Dask rows and clusters need {module}, which is not installed: run "
            "pip install 'localconformal[dask]'."
        ) from error


# ---- steps --------------------------------------------------------------------------------------


class Step:
    """A call for a worker, in one thread; arguments may be steps and Dask's delayed objects.

    Lists among the arguments may hold them too. Dask's own delayed objects merge their graphs at
    each call; steps are turned into one graph at the end, in linear time.
    """

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self.function, self.args = function, args


def held(value: Any) -> Step:
    """A value used by many steps: sent to each worker once."""
    return Step(_itself, value)


def _itself(value: Any) -> Any:
    return value


def compute(*wanted: Any) -> tuple[Any, ...]:
    """Results of steps or Dask collections, on the current cluster or on this machine."""
    steps = [one for one in wanted if isinstance(one, Step)]
    made = dict(zip(map(id, steps), as_delayed(steps), strict=True))
    return tuple(load("dask").compute(*(made.get(id(one), one) for one in wanted)))


def add_up(parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
    """One step for the sum of the parts, neighbours first: the order never depends on timing."""
    level = list(parts)
    while len(level) > 1:
        level = [Step(add, level[i : i + _FAN_IN]) for i in range(0, len(level), _FAN_IN)]
    return level[0]


class _Slot(int):
    """Where the result of another task goes."""


@dataclass(frozen=True)
class Call:
    """The function of one task, with all arguments except the results of other tasks."""

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def __call__(self, *results: Any) -> Any:
        """Make the call; its loops start no threads, as Dask gives each task one."""
        args = [_filled(arg, results) for arg in self.args]
        return in_threads([lambda: self.function(*args)], 1)[0]


def _filled(arg: Any, results: tuple[Any, ...]) -> Any:
    if isinstance(arg, list):
        return [_filled(one, results) for one in arg]
    return results[arg] if isinstance(arg, _Slot) else arg


def as_delayed(steps: Sequence[Step]) -> list[Any]:
    """Dask's delayed objects of these steps, on one graph."""
    graph: dict[Any, Any] = {}
    known: dict[int, Any] = {}
    merged: set[int] = set()
    name = f"localconformal-{uuid4().hex}"

    def place(item: Any) -> Any:
        """The key of a step or a delayed object, whose graph is added."""
        if id(item) in known:
            return known[id(item)]
        if not isinstance(item, Step):
            if id(item.dask) not in merged:
                merged.add(id(item.dask))
                graph.update(dict(item.dask))
            known[id(item)] = item.key
            return item.key
        behind: list[Any] = []
        call = Call(item.function, tuple(opened(arg, behind) for arg in item.args))
        key = known[id(item)] = f"{name}-{len(known)}"
        graph[key] = (call, *behind)
        return key

    def opened(arg: Any, behind: list[Any]) -> Any:
        """The argument with slots for the results that it needs; their keys are recorded."""
        if isinstance(arg, list):
            return [opened(one, behind) for one in arg]
        if not (isinstance(arg, Step) or type(arg).__module__ == "dask.delayed"):
            return arg
        behind.append(place(arg))
        return _Slot(len(behind) - 1)

    keys = [place(step) for step in steps]
    return [load("dask.delayed").Delayed(key, graph) for key in keys]


# ---- rows as blocks -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """Steps for (X, y) of the non-empty partitions, and where they begin."""

    pairs: tuple[Any, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    support: Support

    @property
    def n(self) -> int:
        """Rows of all blocks."""
        return sum(self.lengths)

    def map(self, ask: Callable[..., Any], *shared: Any) -> list[Step]:
        """Steps ask(X, y, start, *shared), block by block; what they share is sent once."""
        sent = [held(value) for value in shared]
        return [
            Step(_ask_block, pair, start, length, self.support, ask, *sent)
            for pair, start, length in zip(self.pairs, self.starts, self.lengths, strict=True)
        ]


def _ask_block(
    pair: tuple[Any, Any],
    start: int,
    length: int,
    support: Support,
    ask: Callable[..., Any],
    *shared: Any,
) -> Any:
    """The result of one block, whose X and y must be as long as when counted."""
    X, y = pair
    if len(X) != length or len(y) != length:
        raise ValueError(
            f"a partition has {len(X)} rows of X and {len(y)} of y, and had {length} when counted; "
            "expected the same number: partition X and y at the same rows."
        )
    return ask(X, check_target(y, support), start, *shared)


def is_dask_array(value: Any) -> bool:
    """Whether this is a Dask array; frames and series are not."""
    return hasattr(value, "chunks") and hasattr(value, "to_delayed")


def make_blocks(X: Any, y: Any, support: Support) -> Blocks:
    """Blocks of a Dask frame and series, or of two Dask arrays, split at the same rows."""
    if is_dask_array(X) != is_dask_array(y) or not hasattr(y, "dask"):
        raise ValueError(
            f"X is a Dask {type(X).__name__} and y a {type(y).__name__}; expected a Dask frame and "
            "a Dask series, or two Dask arrays."
        )
    pairs, lengths = (_array_pairs if is_dask_array(X) else _frame_pairs)(X, y)
    starts = accumulate(lengths, initial=0)
    filled = [block for block in zip(pairs, starts, lengths, strict=False) if block[2]]
    if not filled:
        raise ValueError("X has 0 sample(s) in all its partitions; expected at least 1.")
    some, first, sizes = zip(*filled, strict=True)
    return Blocks(some, first, sizes, support)


def _pair(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y


def _frame_pairs(X: Any, y: Any) -> tuple[list[Any], list[int]]:
    """Pairs of a frame and a series; lengths come from a pass over y only."""
    if X.npartitions != y.npartitions:
        raise ValueError(
            f"X has {X.npartitions} partitions and y has {y.npartitions}; expected the same "
            "number: take both from one frame, or repartition both in the same way."
        )
    counts = y.map_partitions(len, meta=(None, "int64"), enforce_metadata=False)
    # One collection of both, so that Dask reads shared data once.
    both = load("dask.dataframe").map_partitions(
        _pair, X, y, meta=(None, "object"), enforce_metadata=False, align_dataframes=False
    )
    return _own_partitions(both), list(map(int, compute(*_own_partitions(counts))))


def _own_partitions(collection: Any) -> list[Any]:
    """Tasks of the user's partitions, which read no more columns than they need.

    Dask's full optimisation also joins Parquet files, and joins more if fewer columns are read: y
    alone would be split at different rows from X and y together.
    """
    return list(collection.simplify().to_delayed(optimize_graph=False))


def whole_rows(X: Any) -> Any:
    """The Dask array with all columns in one chunk."""
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1))


def _array_pairs(X: Any, y: Any) -> tuple[list[Any], list[int]]:
    """Pairs of two arrays; columns in one chunk, rows chunked as in X."""
    whole = whole_rows(X)
    column = y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y
    known = not np.isnan([*whole.chunks[0], *column.chunks[0]]).any()
    if known and len(X) != len(column):
        raise ValueError(f"X has {len(X)} rows and y has {len(column)}; expected the same number.")
    if known and whole.chunks[0] != column.chunks[0]:
        column = column.rechunk((whole.chunks[0],))
    # Not optimised, so that what X and y share keeps its name and is computed once.
    rows, responses = (one.to_delayed(optimize_graph=False).ravel() for one in (whole, column))
    if len(rows) != len(responses):
        raise ValueError(
            f"X has {len(rows)} chunks of rows and y has {len(responses)}; expected the same "
            "number: call compute_chunk_sizes() on both."
        )
    counts = whole.chunks[0] if known else compute(*(Step(len, one) for one in responses))
    return list(map(partial(Step, _pair), rows, responses)), list(map(int, counts))


def kept_rows(X: Any, y: Array, flags: Any) -> tuple[Any, Array]:
    """The flagged rows; all of them without a copy."""
    if flags.all():
        return X, y
    rows = np.flatnonzero(flags)
    return take_rows(X, rows), y[rows]


def stack_parts(parts: Sequence[Any]) -> Any:
    """Stacked arrays or frames; labels known to only some of them are kept."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    filled = [part for part in parts if len(part)] or parts[:1]
    return load("dask.dataframe.dispatch").concat(filled)


# ---- roles by position --------------------------------------------------------------------------


def uniforms(seed: int, stream: int, start: int, count: int) -> Array:
    """Random numbers in [0, 1) for the positions start, ..., start + count - 1.

    Philox can start anywhere: row i has the same number whatever partition it is in. And a
    calibration set chosen by position is exchangeable with new rows whenever the rows are.
    """
    skipped = start % _WORDS
    made = np.random.Philox(key=[seed, stream], counter=start // _WORDS)
    return np.random.Generator(made).random(skipped + count)[skipped:]


@dataclass(frozen=True)
class Roles:
    """Rows whose number is at most ``threshold`` calibrate; the others train, in folds."""

    seed: int
    threshold: float
    n_folds: int = 1

    def calibrates(self, start: int, count: int) -> NDArray[np.bool_]:
        """Rows that calibrate; the others train."""
        return uniforms(self.seed, SPLIT, start, count) <= self.threshold

    def folds(self, start: int, count: int) -> NDArray[np.intp]:
        """Fold of each row, 0 to n_folds - 1."""
        drawn = uniforms(self.seed, FOLD, start, count)
        return np.floor(self.n_folds * drawn).astype(np.intp)

    def drawn(self, share: float, start: int, count: int) -> NDArray[np.bool_]:
        """Training rows in a sample; the sample of a smaller share is part of a larger one."""
        chosen = uniforms(self.seed, DRAW, start, count) < share
        return chosen & ~self.calibrates(start, count)
