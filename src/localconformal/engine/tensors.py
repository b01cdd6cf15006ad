"""Engines on tensors, for a kernel law with ``device=``: on a GPU where there is one.

::

    Gaussian, 10,000 rows and more    sketch, if its certificate meets the tolerance
    else                              exact

The same laws as those of the compiled engines, decided the same way. The engines use functions of
the array API standard alone, so that they run on the arrays of any module that has it; PyTorch is
named where a device is chosen, and nowhere else. Rows come and go as NumPy arrays; references stay
on the device.

Every block of query rows has the same shape, the last one filled up, and rows of a block begin at
aligned addresses: how a device cuts up its work then never depends on the number of queries, and
one by one or in a batch a row gets the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine import Engine, choose
from localconformal.quantiles import Array

#: Columns come in multiples of this, so that every row of a block is aligned alike.
ALIGNED = 64
#: Query rows of a block at most, and numbers in one of its arrays (16 MB in float64).
MOST_ROWS, CHUNK = 64, 2**21
ENGINES = ("auto", "exact", "sketch", "minibatch")
#: What each block of rows yields: which rows, running sums (block, N) of their weights in the order
#: of V, the sums of all weights (block,), and a flag for each row (block,).
Laws = Iterator[tuple[slice, Any, Any, Any]]


def load(module: str) -> Any:
    """A module of the extra, or an error that says what to do."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"device= needs {error.name or module}, which this environment lacks: run "
            "pip install 'localconformal[torch]', or leave device=None."
        ) from error


def check_device(device: str | None, kind: str = "float64") -> None:
    """A device that exists and knows numbers of this kind, or an error that says what to do."""
    torch = load("torch")
    try:
        torch.zeros(1, dtype=getattr(torch, kind), device=device)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"device is {device!r}, on which PyTorch cannot put {kind} numbers ({reason}); "
            "'cpu', 'cuda' or another device it has was expected."
        ) from error


@dataclass(frozen=True)
class Place:
    """Where an engine has its arrays.

    Parameters
    ----------
    device : str or object
        As the module calls it: "cpu", "cuda", ...
    module : str
        Name of a module with the functions of the array API standard.
    host : str or object
        The device of that module whose arrays NumPy can read.
    """

    device: Any
    module: str = "array_api_compat.torch"
    host: Any = "cpu"

    def put(self, values: Any) -> Any:
        """A copy of the numbers on the device."""
        return load(self.module).asarray(np.array(values), device=self.device)

    def fetch(self, values: Any) -> NDArray[Any]:
        """The numbers, for NumPy."""
        return np.asarray(load("array_api_compat").to_device(values, self.host))


def namespace(values: Any) -> Any:
    """The functions of the array API standard for these arrays."""
    return load("array_api_compat").array_namespace(values)


def device_of(values: Any) -> Any:
    """The device on which these arrays are."""
    return load("array_api_compat").device(values)


def number(value: float, like: Any) -> Any:
    """An array () of this number, of the same type and on the same device as another."""
    return namespace(like).full((), value, dtype=like.dtype, device=device_of(like))


def aligned(n: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-n // ALIGNED) * ALIGNED


def blocks(rows: Array, columns: int) -> Iterator[tuple[slice, Array]]:
    """Rows in blocks of one shape, whatever their number; the last is filled up with zeros."""
    size = max(1, min(MOST_ROWS, CHUNK // columns))
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        block = np.zeros((size, rows.shape[1]))
        block[: part.stop - start] = rows[part]
        yield part, block


def squared_distances(rows: Any, columns: Any) -> Any:
    """|x_i - t_j|^2 for rows (m, d) and columns (d, n), feature by feature: (m, n)."""
    shape = rows.shape[0], columns.shape[1]
    squared = namespace(rows).zeros(shape, dtype=rows.dtype, device=device_of(rows))
    for feature in range(rows.shape[1]):
        difference = rows[:, feature, None] - columns[feature, ...]
        difference *= difference
        squared += difference
    return squared


def ratio(numerator: Any, denominator: Any) -> Any:
    """a / b, and a where b is 0."""
    xp = namespace(denominator)
    return numerator / xp.where(denominator == 0.0, xp.ones_like(denominator), denominator)


def locate(laws: Laws, targets: Array, n: int, place: Place) -> tuple[Any, NDArray[np.bool_]]:
    """First of n positions where F reaches each target (m, L), n where none does; flags (m,)."""
    positions, _, flags = walk(laws, targets, n, place, by_position=False)
    positions[targets > 1.0] = n
    return positions, flags


def values_at(laws: Laws, positions: Any, n: int, place: Place) -> tuple[Array, NDArray[np.bool_]]:
    """F at given positions (m, k), 0 below the first; flags (m,)."""
    _, values, flags = walk(laws, positions, n, place, by_position=True)
    return np.where(positions >= 0, values, 0.0), flags


def walk(
    laws: Laws, asked: Any, n: int, place: Place, by_position: bool
) -> tuple[Any, Array, NDArray[np.bool_]]:
    """Positions and values (m, L) that `descend` reaches from what is asked (m, L); flags (m,)."""
    positions, values = np.zeros(asked.shape, dtype=np.int64), np.zeros(asked.shape)
    flags = np.zeros(len(asked), dtype=bool)
    for part, masses, total, of_rows in gather(laws):
        reached, value = descend(masses, total[:, None], place.put(asked[part]), n, by_position)
        positions[part], values[part] = place.fetch(reached), place.fetch(value)
        flags[part] = place.fetch(of_rows)
    return positions, values, flags


def gather(laws: Laws) -> Laws:
    """The laws of several blocks together, up to `CHUNK` numbers, without what fills them up.

    The descent is many small steps, each of which costs the same for a few rows or a thousand.
    """
    held: list[tuple[slice, Any, Any, Any]] = []
    for part, masses, *of_rows in laws:
        m = part.stop - part.start
        held.append((part, masses[:m, ...], *(values[:m] for values in of_rows)))
        if (len(held) + 1) * masses.shape[0] * masses.shape[1] > CHUNK:
            yield join(held)
            held = []
    if held:
        yield join(held)


def join(laws: list[tuple[slice, Any, Any, Any]]) -> tuple[slice, Any, Any, Any]:
    """The laws of blocks that follow each other, as those of one."""
    if len(laws) == 1:
        return laws[0]
    parts, masses, total, flags = zip(*laws, strict=True)
    concat = namespace(masses[0]).concat
    return slice(parts[0].start, parts[-1].stop), concat(masses), concat(total), concat(flags)


def descend(masses: Any, total: Any, asked: Any, n: int, by_position: bool) -> tuple[Any, Any]:
    """Down the tree over n positions, to the first value to reach a target, or to a position.

    Values are masses (m, N) in units of the total (m, 1), held between those of the two positions
    that they lie between in the tree: so they rise, in whatever order a device adds up. Quantiles
    and CDF both come through here, and stay inverses.
    """
    xp = namespace(masses)
    right = xp.full_like(asked, n - 1, dtype=xp.int64)
    left = xp.full_like(right, -1)
    floor = xp.zeros_like(right, dtype=masses.dtype)
    ceiling = xp.ones_like(floor)
    for _ in range(n.bit_length()):
        middle = (left + right) // 2
        value = xp.take_along_axis(masses, middle, axis=1) / total
        value = xp.minimum(xp.maximum(value, floor), ceiling)
        # At the end of a path the middle is its left, which may be -1, and its value plays no part.
        below = (middle > left) & ((middle >= asked) if by_position else (value >= asked))
        right, ceiling = xp.where(below, middle, right), xp.where(below, value, ceiling)
        left, floor = xp.where(below, left, middle), xp.where(below, floor, value)
    return right, ceiling


def build_on_tensors(
    name: str, problem: choose.Problem, tolerance: float
) -> tuple[Engine, choose.EngineReport]:
    """The engine of this name on tensors, or the one that "auto" chooses, and the report on it."""
    from localconformal.engine.tensor_exact import TensorExactEngine
    from localconformal.engine.tensor_sketch import TensorSketchEngine

    if name not in ENGINES:
        raise ValueError(
            f"engine={name!r} came with device={problem.device!r}; one of {', '.join(ENGINES)} "
            "runs on tensors: choose one, or leave device=None."
        )
    device = str(problem.device)
    check_device(device)
    load("array_api_compat")
    place = Place(device)
    compiled: Any = None
    reason = "asked for"
    if name == "sketch":
        compiled, report = choose.sketch_engine(problem, tolerance)
    elif name == "auto":
        compiled, reason, report = certified_sketch(problem, tolerance)
    if compiled is not None:
        return TensorSketchEngine(compiled, place), replace(
            report, reason=f"{report.reason}; on {device}"
        )
    ordered = problem.by_score()
    engine = TensorExactEngine(
        ordered.v,
        ordered.points,
        ordered.kernel,
        ordered.bandwidth,
        ordered.min_effective_samples,
        place,
    )
    n_bytes = ordered.points.nbytes
    reason = f"{reason}; on {device}"
    return engine, choose.EngineReport("exact", reason, len(ordered.v), n_bytes=n_bytes)


def certified_sketch(problem: choose.Problem, tolerance: float) -> tuple[Any, str, Any]:
    """A sketch where one serves, else None and why not; and its report."""
    if problem.kernel != "gaussian" or len(problem.v) < choose.SKETCH_FROM:
        return None, "a sketch is for Gaussian kernels and many rows", None
    engine, report = choose.try_sketch(problem, tolerance, insist=False)
    return engine, report.reason, report
