"""Where tasks run: Dask's scheduler in force, and one sentence where a cluster is lost."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar
from uuid import uuid4

from localconformal.parallel import in_threads

T = TypeVar("T")
#: Results added up by one task: enough to keep the tree flat, few enough to hold at a time.
FAN_IN = 8
#: Seconds that a scheduler has to answer.
PATIENCE = 10


def load(module: str) -> Any:
    """A part of Dask, or a sentence that names the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"rows out of memory and clusters need {module}, which this environment lacks: run "
            "pip install 'localconformal[dask]'."
        ) from error


class ClusterError(ConnectionError):
    """The cluster cannot be reached, was lost, or cannot do the work; one sentence."""


def compute(*wanted: Any) -> tuple[Any, ...]:
    """Results of steps or Dask collections, on the cluster in force or on this machine."""
    steps = [one for one in wanted if isinstance(one, Step)]
    made = dict(zip(map(id, steps), as_delayed(steps), strict=True))
    with clear_errors():
        return tuple(load("dask").compute(*(made.get(id(one), one) for one in wanted)))


@contextmanager
def clear_errors() -> Iterator[None]:
    """A cluster that is lost becomes a `ClusterError`; errors of the work itself stay."""
    try:
        yield
    except Exception as error:
        reason = why_lost(error)
        if reason is None:
            raise
        raise ClusterError(reason) from error


def why_lost(error: Exception) -> str | None:
    """What happened to the cluster, if that is what the error is about."""
    if "distributed" not in sys.modules:
        return None
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    if isinstance(error, (FutureCancelledError, CommClosedError)):
        return (
            "the Dask scheduler was lost before the work was done, and nothing was kept; start "
            "the cluster again and repeat the call."
        )
    if isinstance(error, KilledWorker):
        return (
            "several Dask workers died on the same task, most likely for want of memory; cut the "
            "rows into smaller partitions, or give workers more memory."
        )
    return None


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """The cluster at this address is in force within; None is the threads of this process."""
    if address is None:
        yield
        return
    distributed = load("distributed")
    try:
        client = distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address!r}; start one with `dask scheduler`, or check "
            "the address."
        ) from error
    with client, quiet("distributed"):
        yield


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Nothing of a logger within: what matters comes as an error of one sentence."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


@dataclass(frozen=True, eq=False)
class Step:
    """A call to be made by a worker, in one thread; arguments may be steps and Dask's delayed.

    Dask's own delayed objects carry the graph behind them, and merge it with each call built on
    them. Steps are turned into a graph once, when all of them are there, in linear time.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Slot:
    """Where the result of another task goes."""

    number: int


@dataclass(frozen=True)
class Call:
    """The function of one task, with all arguments but the results of other tasks."""

    function: Callable[..., Any]
    args: tuple[Any, ...]

    def __call__(self, *results: Any) -> Any:
        """Make the call; its own loops start no threads, as Dask gives each task one."""
        args = [filled(arg, results) for arg in self.args]
        return in_threads([lambda: self.function(*args)], 1)[0]


def filled(arg: Any, results: tuple[Any, ...]) -> Any:
    """The argument with results in its slots."""
    if isinstance(arg, list):
        return [filled(one, results) for one in arg]
    return results[arg.number] if isinstance(arg, Slot) else arg


def task(function: Callable[..., Any], *args: Any) -> Step:
    """A step; lists among the arguments may hold steps too."""
    return Step(function, args)


def held(value: Any) -> Step:
    """A value that many steps take: sent to each worker once."""
    return Step(itself, (value,))


def itself(value: T) -> T:
    """The value."""
    return value


def as_delayed(steps: Sequence[Step]) -> list[Any]:
    """Dask's delayed objects of these steps, on one graph."""
    graph: dict[Any, Any] = {}
    known: dict[int, Any] = {}
    merged: set[int] = set()
    name = f"localconformal-{uuid4().hex}"

    def place(item: Any) -> Any:
        """The key of a step or a delayed object; what is behind it goes into the graph."""
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
        """The argument with slots for the results that it needs, whose keys are noted."""
        if isinstance(arg, list):
            return [opened(one, behind) for one in arg]
        if not (isinstance(arg, Step) or is_delayed(arg)):
            return arg
        behind.append(place(arg))
        return Slot(len(behind) - 1)

    keys = [place(step) for step in steps]
    return [load("dask.delayed").Delayed(key, graph) for key in keys]


def is_delayed(value: Any) -> bool:
    """Whether this is one of Dask's delayed objects."""
    return type(value).__module__ == "dask.delayed" and hasattr(value, "key")


def add_up(parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
    """One step with the sum of the parts, neighbours first: the order never depends on timing."""
    level = list(parts)
    while len(level) > 1:
        level = [task(add, level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]
