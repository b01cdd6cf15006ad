"""Engines, which compute a law. This file has what they share, and does not load the compiler.

numba is loaded when a loop is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array, cdf_targets

#: Number of reference rows up to which plain NumPy is used: no compiler is needed.
FEW = 3_000
#: exp(-u^2 / 2) is no longer a normal float64 beyond this u^2: the nearest row has no mass.
NO_MASS = 1400.0
#: At this multiple of the largest distance, every kernel is flat up to rounding.
FLAT = 1e6
_one_at_a_time = RLock()


class Engine:
    """Sorted reference scores v (n,), and the mass of each at any row.

    Rows are given as the engine's own view of them. A compiled engine has three loops, for
    `_locate`, `_mass_up_to` and `moments`, and `_run`, which lets one of them fill an array; other
    engines define these methods.
    """

    v: Array
    _loops: tuple[Any, Any, Any]
    _run: Callable[..., Any]

    def quantiles(self, rows: Any, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        targets = self._targets(levels, upper, len(rows))
        return self._scores(self._locate(rows, targets), targets)

    def cdf(self, rows: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        return self._mass_up_to(rows, counts)

    def moments(self, rows: Any) -> Array:
        """E V, E|V|, effective sample size, and 1 where the law was widened: (m, 4)."""
        out = np.empty((len(rows), 4))
        return np.asarray(self._run(partial(self._loops[2], self.v), rows, out, out))

    def _locate(self, rows: Any, targets: Array) -> NDArray[np.int64]:
        """First reference at which the law reaches each target (m, L), or n."""
        out = np.empty(targets.shape, dtype=np.int64)
        return np.asarray(self._run(self._loops[0], rows, targets, out))

    def _mass_up_to(self, rows: Any, counts: Any) -> Array:
        """Share of the mass on the first counts (m, k) references."""
        return np.asarray(self._run(self._loops[1], rows, counts, np.empty(counts.shape)))

    def _targets(self, levels: Array, upper: NDArray[np.bool_], m: int) -> Array:
        """Masses to reach at each of m rows: levels (L,) or (m, L) -> (m, L), contiguous."""
        targets = cdf_targets(levels, upper)
        return np.ascontiguousarray(np.broadcast_to(targets, (m, targets.shape[-1])))

    def _scores(self, positions: NDArray[np.int64], targets: Array) -> Array:
        """Scores at these positions; +inf past the last, -inf for targets of 0 or less."""
        return np.where(targets <= 0.0, -np.inf, np.append(self.v, np.inf)[positions])


@dataclass(frozen=True)
class EngineReport:
    """The chosen engine, and why."""

    engine: str
    reason: str
    n_references: int
    #: Landmarks of the sketch, and its largest allowed rank error.
    n_landmarks: int | None = None
    tolerance: float = 0.005
    #: 99th percentile of the rank error at held-out rows; 0 for exact engines.
    certified_error: float = 0.0


def fewest_doublings(farthest: Array, enough: Callable[[Array], NDArray[np.bool_]]) -> Array:
    """For each row the smallest number of doublings of h, at least 1, that is ``enough``: (m,).

    ``farthest`` (m,) is the largest distance of each row in units of h.
    """
    # `low` is too few doublings, `high` enough.
    high = np.ceil(np.log2(np.maximum(FLAT * farthest, 2.0)))
    low = np.zeros_like(high)
    while (open_ := high - low > 1).any():
        middle = np.floor((low + high) / 2.0)
        reached = enough(middle)
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle, low)
    return high


class _Loop:
    """A function compiled on its first call, together with the other loops of its file."""

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        self.function, self.options = function, options
        self.compiled: Any = None
        self.called = False

    def __call__(self, *args: Any) -> Any:
        if self.called:
            return self.compiled(*args)
        with _one_at_a_time:
            answer, self.called = self.compile()(*args), True
            return answer

    def compile(self) -> Any:
        """numba's function; in the file, it and the other loops replace the plain ones."""
        from numba import njit

        with _one_at_a_time:
            if self.compiled is None:
                try:
                    self.compiled = njit(cache=True, **self.options)(self.function)
                except RuntimeError:
                    # No cache folder is writable: every process compiles its own.
                    self.compiled = njit(**self.options)(self.function)
                names = self.function.__globals__
                for name, value in [*names.items()]:
                    if isinstance(value, _Loop):
                        names[name] = value.compile()
            return self.compiled


def jit(inline: str = "never") -> Any:
    """Compile a function without fast maths, so that sums are never reordered."""
    options = {"inline": inline, "nogil": True, "error_model": "numpy"}
    return lambda function: _Loop(function, options)


def run_in_threads(
    work: Callable[[Any], None], jobs: list[Any], n_jobs: int | None, worthwhile: int
) -> None:
    """Do the jobs, in at most ``n_jobs`` threads if worthwhile; the loops release the GIL."""
    threads = min(effective_n_jobs(asked_jobs(n_jobs)), len(jobs), worthwhile + 1)
    if threads <= 1:
        for job in jobs:
            work(job)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, jobs))
