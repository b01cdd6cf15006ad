"""The exact engine: every weight of every reference, at the speed of the exponential.

`compiled` explains the loops. This file decides precision and threads, and turns positions
into scores.

Precision. float32 coordinates in units of h carry an error of about 8 R^2 eps in u^2, R the
largest norm. Up to R^2 = `FLOAT32_REACH` that is 2e-4 in a squared distance of order one, far
below what moves a quantile by more than a rank. Beyond it float64 is used: for all rows when
the references demand it (known at fit), else for those rows that lie further out. Compact
kernels have an edge, and use float64 always. Either way a row's answer depends on that row and
the references alone.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from localconformal.engine import compiled
from localconformal.engine.announce import compiling
from localconformal.engine.kernels import CODES
from localconformal.engine.positions import scores_at, targets_by_row
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array

BLOCK = 512
FLOAT32_REACH = 500.0
#: Query rows a thread takes at a time, and pairs below which threads do not pay.
CHUNK_ROWS = 256
PAIRS_PER_THREAD = 2_000_000


class ExactEngine:
    """Kernel laws of sorted reference scores, compiled.

    Parameters
    ----------
    v : array of shape (n,)
        Reference scores, sorted.
    references : array of shape (n, d)
        Their rows, in the same order.
    kernel : str
    bandwidth : float
    min_effective_samples : float
    n_jobs : int or None, default=None
        Threads; None is one for each core.
    """

    def __init__(
        self,
        v: Array,
        references: Array,
        kernel: str,
        bandwidth: float,
        min_effective_samples: float,
        n_jobs: int | None = None,
    ) -> None:
        self.v = v
        self.code = CODES[kernel]
        self.bandwidth = bandwidth
        self.needed = min(min_effective_samples, len(v)) * (1.0 - 1e-6)
        self.n_jobs = n_jobs
        self.centre = references.mean(axis=0)
        scaled = (references - self.centre) / bandwidth
        # As they came: centring would round distances that lie on the edge of a kernel.
        self.wide = into_blocks(references)
        reach = float(np.einsum("ij,ij->i", scaled, scaled).max())
        narrow_enough = kernel == "gaussian" and reach <= FLOAT32_REACH
        self.narrow = into_blocks(scaled).astype(np.float32) if narrow_enough else None

    @property
    def n_bytes(self) -> int:
        """Bytes of the references, in the precision that most rows use."""
        return int((self.wide if self.narrow is None else self.narrow).nbytes)

    def quantiles(self, rows: Array, levels: Array, upper: NDArray[np.bool_]) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        targets = targets_by_row(levels, upper, len(rows))
        positions = np.empty(targets.shape, dtype=np.int64)
        self._run(compiled.locate, rows, targets, positions)
        return scores_at(self.v, positions, targets)

    def cdf(self, rows: Array, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        counts = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        masses = np.empty(v.shape)
        self._run(compiled.mass_up_to, rows, counts, masses)
        return masses

    def mean(self, rows: Array, absolute: bool = False) -> Array:
        """E[V] or E[|V|]: (m,)."""
        return self._moments(rows, np.abs(self.v) if absolute else self.v)[:, 0]

    def effective_sample_size(self, rows: Array) -> Array:
        """(sum w)^2 / sum w^2: (m,)."""
        return self._moments(rows, self.v)[:, 1]

    def fallback(self, rows: Array) -> NDArray[np.bool_]:
        """Where h was doubled: (m,)."""
        return self._moments(rows, self.v)[:, 2] > 0

    def _moments(self, rows: Array, v: Array) -> Array:
        out = np.empty((len(rows), 3))
        # v is the same for all rows; the loop wants one array a row, so it goes in a closure.
        self._run(lambda *a: compiled.moments(*a[:-2], v, a[-1]), rows, out, out)
        return out

    def _run(self, loop: Callable[..., None], rows: Array, asked: Any, out: Any) -> None:
        """Call the loop on chunks of rows, in threads, each at the precision that its rows need."""
        scaled = (rows - self.centre) / self.bandwidth
        near = np.zeros(len(rows), dtype=bool)
        if self.narrow is not None:
            near = np.einsum("ij,ij->i", scaled, scaled) <= FLOAT32_REACH
        narrow, wide = (self.narrow, scaled, 1.0), (self.wide, rows, self.bandwidth**-2)
        jobs = []
        for precision, wanted in ((narrow, near), (wide, ~near)):
            index = np.flatnonzero(wanted)
            for start in range(0, len(index), CHUNK_ROWS):
                jobs.append((*precision, index[start : start + CHUNK_ROWS]))

        def work(job: Any) -> None:
            blocks, coordinates, unit, index = job
            points = np.ascontiguousarray(coordinates[index], dtype=blocks.dtype)
            answer = np.empty((len(index), *out.shape[1:]), dtype=out.dtype)
            loop(points, blocks, len(self.v), self.code, self.needed, unit, asked[index], answer)
            out[index] = answer

        run_in_threads(work, jobs, self.n_jobs, len(rows) * len(self.v) // PAIRS_PER_THREAD)


@cache
def load_loops(kernel: str) -> None:
    """Have the loops compiled, or loaded from the disk cache, before anything waits for them."""
    row = np.zeros((1, 1))
    engine = ExactEngine(row[0], row, kernel, 1.0, 1.0, 1)
    with compiling():
        engine.quantiles(row, np.array([0.5]), np.array([False]))


def into_blocks(points: Array) -> Array:
    """(n, d) -> (blocks, d, BLOCK), the last one padded; short references make one short block."""
    n, d = points.shape
    size = min(BLOCK, n)
    padded = np.zeros((-(-n // size) * size, d))
    padded[:n] = points
    return np.ascontiguousarray(padded.reshape(-1, size, d).transpose(0, 2, 1))


def run_in_threads(
    work: Callable[[Any], None], jobs: list[Any], n_jobs: int | None, worthwhile: int
) -> None:
    """Do the jobs, in as many threads as asked for and worthwhile; the loops release the lock."""
    threads = min(effective_n_jobs(asked_jobs(n_jobs)), len(jobs), worthwhile + 1)
    if threads <= 1:
        for job in jobs:
            work(job)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, jobs))
