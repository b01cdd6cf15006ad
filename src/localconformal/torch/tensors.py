"""Engines on tensors, for a kernel law with ``device=``: on a GPU where there is one.

The same laws as those of the compiled engines, by functions of the array API standard alone:
PyTorch is named where a device is chosen, and nowhere else. Rows come and go as NumPy arrays;
references stay on the device.

Every block of query rows has the same shape, the last one filled up, and rows of a block begin at
aligned addresses: how a device cuts up its work then never depends on the number of queries, and
one by one or in a batch a row gets the same bits. Either engine makes running sums of weights by
block, and the law is read off a tree (see `engine.sketch`), walked for all rows and levels at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine import NO_MASS, Engine, EngineReport, fewest_doublings
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws.kernel import Problem, sketch_or_none
from localconformal.quantiles import EDGE_GUARD, Array

#: Columns come in multiples of this, so that every row of a block is aligned alike.
_ALIGNED = 64
#: Query rows of a block at most, and numbers in one of its arrays (16 MB in float64).
_MOST_ROWS, _CHUNK = 64, 2**21
#: What each block of rows yields: which rows, running sums (block, N) of their weights in the order
#: of V, the sums of all weights (block,), and a flag for each row (block,).
_Laws = Iterator[tuple[slice, Any, Any, Any]]


def _load(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"device= needs {error.name or module}, which this environment lacks: run "
            "pip install 'localconformal[torch]', or leave device=None."
        ) from error


def check_device(device: str | None, kind: str = "float64") -> None:
    """A device that exists and knows numbers of this kind, or an error that says what to do."""
    torch = _load("torch")
    try:
        torch.zeros(1, dtype=getattr(torch, kind), device=device)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"got device={device!r}, on which PyTorch cannot put {kind} numbers ({reason}); "
            "expected 'cpu', 'cuda' or another device that it has."
        ) from error


@dataclass(frozen=True)
class Place:
    """A device of a module with the array API standard; NumPy can read the arrays on ``host``."""

    device: Any
    module: str = "array_api_compat.torch"
    host: Any = "cpu"

    def put(self, values: Any) -> Any:
        """A copy of the numbers on the device."""
        return _load(self.module).asarray(np.array(values, order="C"), device=self.device)

    def fetch(self, values: Any) -> NDArray[Any]:
        """The numbers, for NumPy."""
        return np.asarray(_load("array_api_compat").to_device(values, self.host))

    def fill(self, out: Array, *columns: Any) -> None:
        """Write columns of the device into those of an array (m, ...), as far as it goes."""
        for into, values in zip(out.T, columns, strict=True):
            into[:] = self.fetch(values[: len(into)])


def _namespace(values: Any) -> Any:
    return _load("array_api_compat").array_namespace(values)


def _zeros(shape: tuple[int, ...], like: Any) -> Any:
    """Of the same type and on the same device as another array."""
    device = _load("array_api_compat").device(like)
    return _namespace(like).zeros(shape, dtype=like.dtype, device=device)


def _padded(columns: NDArray[Any], fill: float = 0.0) -> NDArray[Any]:
    """Columns (..., n) and so many more that their number is aligned."""
    beside = [(0, 0)] * (columns.ndim - 1)
    return np.pad(columns, [*beside, (0, -columns.shape[-1] % _ALIGNED)], constant_values=fill)


def _blocks(rows: Array, columns: int) -> Iterator[tuple[slice, Array]]:
    """Rows in blocks of one shape, whatever their number; the last is filled up with zeros."""
    size = max(1, min(_MOST_ROWS, _CHUNK // columns))
    for start in range(0, len(rows), size):
        part = slice(start, min(start + size, len(rows)))
        block = np.zeros((size, rows.shape[1]))
        block[: part.stop - start] = rows[part]
        yield part, block


def _squared_distances(rows: Any, columns: Any) -> Any:
    """|x_i - t_j|^2 for rows (m, d) and columns (d, n), feature by feature: (m, n)."""
    squared = _zeros((rows.shape[0], columns.shape[1]), rows)
    for feature in range(rows.shape[1]):
        difference = rows[:, feature, None] - columns[feature, ...]
        difference *= difference
        squared += difference
    return squared


def _ratio(numerator: Any, denominator: Any) -> Any:
    """a / b, and a where b is 0."""
    xp = _namespace(denominator)
    return numerator / xp.where(denominator == 0.0, xp.ones_like(denominator), denominator)


def _locate(laws: _Laws, targets: Array, n: int, place: Place) -> tuple[Any, NDArray[np.bool_]]:
    """First of n positions where F reaches each target (m, L), n where none does; flags (m,)."""
    positions, _, flags = _walk(laws, targets, n, place, by_position=False)
    positions[targets > 1.0] = n
    return positions, flags


def _values_at(
    laws: _Laws, positions: Any, n: int, place: Place
) -> tuple[Array, NDArray[np.bool_]]:
    """F at given positions (m, k), 0 below the first; flags (m,)."""
    _, values, flags = _walk(laws, positions, n, place, by_position=True)
    return np.where(positions >= 0, values, 0.0), flags


def _walk(
    laws: _Laws, asked: Any, n: int, place: Place, by_position: bool
) -> tuple[Any, Array, NDArray[np.bool_]]:
    """Positions and values (m, L) that `descend` reaches from what is asked (m, L); flags (m,)."""
    positions, values = np.zeros(asked.shape, dtype=np.int64), np.zeros(asked.shape)
    flags = np.zeros(len(asked), dtype=bool)
    for part, masses, total, of_rows in _gather(laws):
        reached, value = _descend(masses, total[:, None], place.put(asked[part]), n, by_position)
        positions[part], values[part] = place.fetch(reached), place.fetch(value)
        flags[part] = place.fetch(of_rows)
    return positions, values, flags


def _gather(laws: _Laws) -> _Laws:
    """The laws of several blocks together, up to `_CHUNK` numbers, without what fills them up.

    The descent is many small steps, each of which costs the same for a few rows or a thousand.
    """
    held: list[tuple[slice, Any, Any, Any]] = []
    for part, masses, *of_rows in laws:
        m = part.stop - part.start
        held.append((part, masses[:m, ...], *(values[:m] for values in of_rows)))
        if (len(held) + 1) * masses.shape[0] * masses.shape[1] > _CHUNK:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(laws: list[tuple[slice, Any, Any, Any]]) -> tuple[slice, Any, Any, Any]:
    parts, *of_rows = zip(*laws, strict=True)
    masses, total, flags = map(_namespace(of_rows[0][0]).concat, of_rows)
    return slice(parts[0].start, parts[-1].stop), masses, total, flags


def _descend(masses: Any, total: Any, asked: Any, n: int, by_position: bool) -> tuple[Any, Any]:
    """Down the tree over n positions, to the first value to reach a target, or to a position.

    Values are masses (m, N) in units of the total (m, 1), held between those of the two positions
    that they lie between in the tree: so they rise, in whatever order a device adds up. Quantiles
    and CDF both come through here, and stay inverses.
    """
    xp = _namespace(masses)
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


def _gaussian(u2: Any) -> Any:
    xp = _namespace(u2)
    return xp.exp(-0.5 * (u2 - xp.min(u2, axis=1, keepdims=True)))


#: The formulas of `laws.kernel.KERNELS`, of arrays u^2 (m, n).
_KERNELS: dict[str, Callable[[Any], Any]] = {
    "gaussian": _gaussian,
    "boxcar": lambda u2: _namespace(u2).astype(u2 <= 1.0 + EDGE_GUARD, u2.dtype),
    "epanechnikov": lambda u2: _namespace(u2).maximum(1.0 - u2, _zeros((), u2)),
}


class _TensorExactEngine(Engine):
    """Kernel laws of sorted reference scores v (n,) and their rows (n, d), in float64."""

    def __init__(
        self,
        v: Array,
        references: Array,
        kernel: str,
        bandwidth: float,
        min_effective_samples: float,
        place: Place,
    ) -> None:
        self.v, self.references, self.place = v, references, place
        self.kernel, self.bandwidth = kernel, bandwidth
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_columns"}

    @cached_property
    def _columns(self) -> Any:
        """References as columns (d, N), N aligned; those that fill up are infinitely far."""
        return self.place.put(_padded(self.references.T.astype(np.float64), np.inf))

    def _locate(self, rows: Array, targets: Array) -> NDArray[np.int64]:
        return _locate(self._laws(rows), targets, len(self.v), self.place)[0]

    def _mass_up_to(self, rows: Array, counts: Any) -> Array:
        return _values_at(self._laws(rows), counts - 1, len(self.v), self.place)[0]

    def moments(self, rows: Array) -> Array:
        columns = self.place.put(_padded(np.stack([self.v, np.abs(self.v)])))
        out = np.empty((len(rows), 4))
        for part, weights, thin in self._blocks(rows):
            xp = _namespace(weights)
            total = xp.sum(weights, axis=1)
            means = (xp.sum(weights * columns[i, ...], axis=1) / total for i in (0, 1))
            self.place.fill(out[part], *means, _sample_size(weights), thin)
        return out

    def _laws(self, rows: Array) -> _Laws:
        """Running sums of the weights; rows where h was doubled have the flag."""
        for part, weights, thin in self._blocks(rows):
            masses = _namespace(weights).cumulative_sum(weights, axis=1)
            yield part, masses, masses[:, len(self.v) - 1], thin

    def _blocks(self, rows: Array) -> Iterator[tuple[slice, Any, Any]]:
        """Each block: which rows, their weights (block, N), and where h was doubled (block,)."""
        kernel = _KERNELS[self.kernel]
        for part, block in _blocks(rows, self._columns.shape[1]):
            squared = _squared_distances(self.place.put(block), self._columns)
            xp = _namespace(squared)
            u2 = self._in_units(squared, np.zeros(len(block)))
            weights = kernel(u2)
            thin = ~_is_enough(u2, weights, self.needed)
            if bool(xp.any(thin)):
                widened = kernel(self._in_units(squared, self._doublings(squared)))
                weights = xp.where(thin[:, None], widened, weights)
            yield part, weights, thin

    def _in_units(self, squared: Any, doublings: Array) -> Any:
        """Squared distances in units of h 2^k, k (block,)."""
        if np.isinf(self.bandwidth):
            xp = _namespace(squared)
            return xp.where(xp.isfinite(squared), _zeros((), squared), squared)
        return squared / self.place.put((self.bandwidth * 2.0**doublings) ** 2)[:, None]

    def _doublings(self, squared: Any) -> Array:
        """The smallest number of doublings that is enough at each row: (block,)."""

        def enough(doublings: Array) -> NDArray[np.bool_]:
            u2 = self._in_units(squared, doublings)
            return self.place.fetch(_is_enough(u2, _KERNELS[self.kernel](u2), self.needed))

        farthest = self.place.fetch(_namespace(squared).max(squared[:, : len(self.v)], axis=1))
        return fewest_doublings(np.sqrt(farthest) / self.bandwidth, enough)


def _sample_size(weights: Any) -> Any:
    """(sum w)^2 / sum w^2 of each row; 0 where all weights are 0."""
    xp = _namespace(weights)
    total = xp.sum(weights, axis=1)
    return _ratio(total * total, xp.sum(weights * weights, axis=1))


def _is_enough(u2: Any, weights: Any, needed: float) -> Any:
    """Whether each row has mass, and the needed effective sample size."""
    xp = _namespace(u2)
    has_mass = (xp.min(u2, axis=1) <= NO_MASS) & (xp.max(weights, axis=1) > 0.0)
    return has_mass & (_sample_size(weights) >= needed)


class _TensorSketchEngine(SketchEngine):
    """Answers from the sketch of a compiled engine on a device; its fallback engine stays."""

    def __init__(self, engine: SketchEngine, place: Place) -> None:
        vars(self).update(vars(engine))
        self.place = place

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tables"}

    def with_sketch(self, sketch: Sketch) -> _TensorSketchEngine:
        return _TensorSketchEngine(super().with_sketch(sketch), self.place)

    @cached_property
    def _tables(self) -> tuple[Any, Any, Any]:
        """Landmarks as columns (d, R), A (G, R) and squares (R,), R and G aligned."""
        columns, A = _padded(self.sketch.columns, np.inf), _padded(_padded(self.A).T).T
        return self._put(columns), self._put(A), self._put(_padded(self.squares))

    def _put(self, values: NDArray[Any]) -> Any:
        return self.place.put(values.astype(np.float32))

    def _read(self, block: Array) -> tuple[Any, Any, Any, Any, Any]:
        """Of a block of rows: k(x, Z), masses up to all edges and in all, sample sizes, the lost.

        All sums are in units of n, as `needed` is.
        """
        columns, A, squares = self._tables
        u2 = _squared_distances(self.place.put(self.sketch.scale(block)), columns)
        xp = _namespace(u2)
        k = xp.exp(-0.5 * u2)
        masses = k @ A.T
        total = masses[:, len(self.A) - 1]
        below = xp.sum(k * k * squares, axis=1)
        known = (total > 0.0) & (below > 0.0)
        sample = xp.where(known, _ratio(total * total, below), xp.zeros_like(total))
        lost = (xp.max(k, axis=1) < self.least) | (sample < self.needed)
        return k, masses, xp.where(known, total, xp.ones_like(total)), sample, lost

    def _reach(self, rows: Array, targets: Array) -> tuple[Any, NDArray[np.bool_]]:
        return _locate(self._laws(rows), targets, len(self.A), self.place)

    def _values(self, rows: Array, edges: Any) -> tuple[Array, NDArray[np.bool_]]:
        return _values_at(self._laws(rows), edges, len(self.A), self.place)

    def _laws(self, rows: Array) -> _Laws:
        """Masses up to all edges; rows that are lost have the flag."""
        for part, block in _blocks(rows, self._tables[1].shape[0]):
            _, masses, total, _, lost = self._read(block)
            yield part, masses, total, lost

    def _moments(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        out = np.empty((len(rows), 4))
        vectors = [self._put(_padded(vector)) for vector in (*self.means, self.A[-1])]
        for part, block in _blocks(rows, self._tables[1].shape[0]):
            k, _, _, sample, lost = self._read(block)
            mean, size, total = (_namespace(k).sum(k * vector, axis=1) for vector in vectors)
            self.place.fill(out[part], _ratio(mean, total), _ratio(size, total), sample, lost)
        return out[:, :3], out[:, 3] > 0


def build_on_tensors(name: str, problem: Problem, device: str) -> tuple[Engine, EngineReport]:
    """The engine of this name on a device, or the one that "auto" chooses, and the report on it."""
    check_device(device)
    _load("array_api_compat")
    place, (sketch, report) = Place(device), sketch_or_none(name, problem)
    engine: Engine
    if sketch is not None:
        engine = _TensorSketchEngine(sketch, place)
    else:
        parts = (problem.v, problem.points, problem.kernel, problem.bandwidth)
        engine = _TensorExactEngine(*parts, problem.min_effective_samples, place)
        report = replace(report, n_bytes=problem.points.nbytes)
    return engine, replace(report, reason=f"{report.reason}; on {device}")
