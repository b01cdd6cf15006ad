"""Engines on tensors, for a kernel law with ``device=``: on a GPU if there is one.

The laws of the compiled engines, using only functions of the array API standard: PyTorch is named
only where a device is chosen. Rows come and go as NumPy arrays; references stay on the device.

Every block of query rows has the same shape, the last one padded, and rows of a block begin at
aligned addresses: how a device divides its work then never depends on the number of queries, and a
row gets the same bits alone as in a batch. Either engine computes F for a block, and results are
read from a tree (see `engine.sketch`), walked for all rows and levels at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.engine import NO_MASS, Engine, EngineReport, fewest_doublings
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.laws.kernel import Problem
from localconformal.quantiles import EDGE_GUARD, Array

#: Columns come in multiples of this, so that every row of a block has the same alignment.
_ALIGNED = 64
#: Most query rows in a block, and most numbers in one of its arrays (16 MB in float64).
_MOST_ROWS, _CHUNK = 64, 2**21


def _load(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"device= needs {error.name or module}, which is not installed: run "
            "pip install 'localconformal[torch]', or leave device=None."
        ) from error


def check_device(device: str | None, kind: str) -> None:
    """Check that the device exists and supports this kind of numbers."""
    torch = _load("torch")
    try:
        torch.zeros(1, dtype=getattr(torch, kind), device=device)
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"got device={device!r}, on which PyTorch cannot put {kind} numbers ({reason}); "
            "expected 'cpu', 'cuda' or another available device."
        ) from error


@dataclass(frozen=True)
class Place:
    """A device of a module with the array API standard; NumPy can read the arrays on ``host``."""

    device: Any
    module: str = "array_api_compat.torch"
    host: Any = "cpu"

    @property
    def xp(self) -> Any:
        """The functions of the standard."""
        return _load(self.module)

    def put(self, values: Any) -> Any:
        """A copy of the numbers on the device."""
        return self.xp.asarray(np.array(values, order="C"), device=self.device)

    def fetch(self, values: Any) -> NDArray[Any]:
        """The numbers, for NumPy."""
        return np.asarray(_load("array_api_compat").to_device(values, self.host))


def _padded(columns: NDArray[Any], fill: float = 0.0) -> NDArray[Any]:
    """Columns (..., n), padded to an aligned number."""
    beside = [(0, 0)] * (columns.ndim - 1)
    return np.pad(columns, [*beside, (0, -columns.shape[-1] % _ALIGNED)], constant_values=fill)


def _squared_distances(rows: Any, columns: Any) -> Any:
    """|x_i - t_j|^2 for rows (m, d) and columns (d, n), feature by feature: (m, n)."""
    squared: Any = 0.0
    for feature in range(rows.shape[1]):
        difference = rows[:, feature, None] - columns[feature, ...]
        difference *= difference
        squared += difference
    return squared


def _ratio(xp: Any, numerator: Any, denominator: Any) -> Any:
    """a / b, or a if b is 0."""
    return numerator / xp.where(denominator == 0.0, xp.ones_like(denominator), denominator)


# The loops of `Engine`: of F (m, N) on the device at the engine's positions, and moments (m, 4).


def _locate(engine: Any, F: Any, _: Array, targets: Array, out: Any) -> None:
    positions, _ = _descend(engine, F, targets, by_position=False)
    out[:] = np.where(targets > 1.0, len(engine.v), positions)


def _mass_up_to(engine: Any, F: Any, _: Array, counts: Any, out: Array) -> None:
    _, values = _descend(engine, F, counts - 1, by_position=True)
    out[:] = np.where(counts > 0, values, 0.0)


def _moments_of(_v: Any, _engine: Any, _F: Any, moments: Array, _asked: Any, out: Array) -> None:
    out[:] = moments


def _descend(engine: Any, F: Any, asked: Any, by_position: bool) -> tuple[Any, Any]:
    """Down the tree, to the first value that reaches a target (m, L), or to a position (m, L).

    Returns the positions reached and their values: F, limited to the values of the two tree
    positions around it. So values ascend, in whatever order a device adds up; quantiles and CDF
    both use this, and stay inverses.
    """
    place, xp, n = engine.place, engine.place.xp, len(engine.v)
    asked = place.put(asked)
    right = xp.full_like(asked, n - 1, dtype=xp.int64)
    left = xp.full_like(right, -1)
    floor = xp.zeros_like(right, dtype=F.dtype)
    ceiling = xp.ones_like(floor)
    for _ in range(n.bit_length()):
        middle = (left + right) // 2
        value = xp.take_along_axis(F, middle, axis=1)
        value = xp.minimum(xp.maximum(value, floor), ceiling)
        # At the end of a path the middle is its left, which may be -1, and its value is not used.
        below = (middle > left) & ((middle >= asked) if by_position else (value >= asked))
        right, ceiling = xp.where(below, middle, right), xp.where(below, value, ceiling)
        left, floor = xp.where(below, left, middle), xp.where(below, floor, value)
    return place.fetch(right), place.fetch(ceiling)


class _OnTensors(Engine):
    """Fills an array block by block; `_read` gives F (block, N) and moments, 4 of (block,)."""

    place: Place
    _loops = _locate, _mass_up_to, _moments_of
    _read: Callable[[Array], tuple[Any, tuple[Any, ...]]]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_tables"}

    def _run(self, loop: Callable[..., None], rows: Array, asked: Any, out: Any) -> Any:
        """Fill ``out``; the last of the moments of each row, as a flag: (m,)."""
        width, flags = len(_padded(self.v)), np.zeros(len(rows), dtype=bool)
        size = max(1, min(_MOST_ROWS, _CHUNK // width))
        # Blocks are searched together: each of the many small steps down the tree costs the same
        # for a few rows or a thousand.
        together = size * max(1, _CHUNK // (size * width))
        for start in range(0, len(rows), together):
            part = slice(start, min(start + together, len(rows)))
            m = part.stop - start
            filled = np.pad(rows[part], ((0, -m % size), (0, 0)))
            F, columns = zip(*map(self._read, np.split(filled, len(filled) // size)), strict=True)
            moments = np.hstack([np.stack([*map(self.place.fetch, each)]) for each in columns]).T
            loop(self, self.place.xp.concat(F)[:m, ...], moments[:m], asked[part], out[part])
            flags[part] = moments[:m, 3] > 0
        return flags


#: The formulas of `laws.kernel.KERNELS`, of arrays u^2 (m, n).
_KERNELS: dict[str, Callable[[Any, Any], Any]] = {
    "gaussian": lambda xp, u2: xp.exp(-0.5 * (u2 - xp.min(u2, axis=1, keepdims=True))),
    "boxcar": lambda xp, u2: xp.astype(u2 <= 1.0 + EDGE_GUARD, u2.dtype),
    "epanechnikov": lambda xp, u2: xp.maximum(1.0 - u2, xp.zeros_like(u2)),
}


class _TensorExactEngine(_OnTensors):
    """The kernel law of the problem, in float64."""

    def __init__(self, problem: Problem, place: Place) -> None:
        self.v, self.points, self.place = problem.v, problem.points, place
        self.kernel, self.bandwidth = problem.kernel, problem.bandwidth
        self.needed = min(problem.min_effective_samples, len(self.v)) * (1.0 - 1e-6)

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        """References as columns (d, N), padding infinitely far away; v and |v| (N,)."""
        columns = _padded(self.points.T.astype(np.float64), np.inf)
        return tuple(map(self.place.put, (columns, *_padded(np.stack([self.v, np.abs(self.v)])))))

    def _run(self, loop: Callable[..., None], rows: Array, asked: Any, out: Any) -> Any:
        super()._run(loop, rows.astype(np.float64), asked, out)
        return out

    def _read(self, block: Array) -> tuple[Any, tuple[Any, ...]]:
        """F; means of v and |v|, effective sample sizes, and where h was doubled."""
        xp, fetch, (columns, *scores) = self.place.xp, self.place.fetch, self._tables
        squared = _squared_distances(self.place.put(block), columns)
        weights, sample, enough = self._weigh(squared, np.zeros(len(block)))
        if not bool(xp.all(enough)):
            farthest = np.sqrt(fetch(xp.max(squared[:, : len(self.v)], axis=1))) / self.bandwidth
            doublings = fewest_doublings(farthest, lambda k: fetch(self._weigh(squared, k)[2]))
            weights, sample, _ = self._weigh(squared, np.where(fetch(enough), 0.0, doublings))
        masses = xp.cumulative_sum(weights, axis=1)
        total = masses[:, len(self.v) - 1]
        means = (xp.sum(weights * each, axis=1) / total for each in scores)
        return masses / total[:, None], (*means, sample, ~enough)

    def _weigh(self, squared: Any, doublings: Array) -> tuple[Any, Any, Any]:
        """Weights at h 2^k, k (block,), their effective sample sizes, and whether these suffice."""
        xp = self.place.xp
        if np.isinf(self.bandwidth):
            u2 = xp.where(xp.isfinite(squared), xp.zeros_like(squared), squared)
        else:
            u2 = squared / self.place.put((self.bandwidth * 2.0**doublings) ** 2)[:, None]
        weights = _KERNELS[self.kernel](xp, u2)
        total = xp.sum(weights, axis=1)
        sample = _ratio(xp, total * total, xp.sum(weights * weights, axis=1))
        has_mass = (xp.min(u2, axis=1) <= NO_MASS) & (total > 0.0)
        return weights, sample, has_mass & (sample >= self.needed)


class _TensorSketchEngine(_OnTensors, SketchEngine):
    """Answers from the sketch of a compiled engine on a device; its fallback engine stays."""

    def __init__(self, engine: SketchEngine, place: Place) -> None:
        vars(self).update(vars(engine))
        self.place = place

    def with_sketch(self, sketch: Sketch) -> _TensorSketchEngine:
        return _TensorSketchEngine(super().with_sketch(sketch), self.place)

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        """Landmarks as columns (d, R), A (G, R), squares and means (R,), R and G aligned."""
        columns, A = _padded(self.sketch.columns, np.inf), _padded(_padded(self.A).T).T
        vectors = _padded(np.stack([self.squares, *self.means]))
        return tuple(map(self.place.put, (columns, A, *vectors)))

    def _read(self, block: Array) -> tuple[Any, tuple[Any, ...]]:
        """F; means, effective sample sizes, all in units of n, like `needed`; rows lost."""
        xp, (columns, A, squares, *means) = self.place.xp, self._tables
        k = xp.exp(-0.5 * _squared_distances(self.place.put(self.sketch.scale(block)), columns))
        masses, below = k @ A.T, xp.sum(k * k * squares, axis=1)
        total = masses[:, len(self.A) - 1]
        # Either sum may be lost in rounding.
        known = (total > 0.0) & (below > 0.0)
        sample = xp.where(known, _ratio(xp, total * total, below), xp.zeros_like(total))
        lost = (xp.max(k, axis=1) < self.least) | (sample < self.needed)
        moments = [_ratio(xp, xp.sum(k * mean, axis=1), total) for mean in means]
        F = masses / xp.where(known, total, xp.ones_like(total))[:, None]
        return F, (*moments, sample, lost)


def on_tensors(
    engine: Engine, report: EngineReport, problem: Problem, device: str
) -> tuple[Engine, EngineReport]:
    """The engine built for the problem on a CPU, moved to a device; and its report."""
    check_device(device, "float64")
    _load("array_api_compat")
    report = replace(report, reason=f"{report.reason}; on {device}")
    if isinstance(engine, SketchEngine):
        return _TensorSketchEngine(engine, Place(device)), report
    return _TensorExactEngine(problem, Place(device)), replace(report, engine="exact")
