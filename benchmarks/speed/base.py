"""What the timings share: rows, clocks, errors, and ways to compute the local quantiles.

A method is built on reference rows (``fit``) and asked for quantiles (``query``). ``pairs`` is
the number of (query, reference) pairs that one timing may take: where n queries would be more,
fewer are timed and the cost of n follows, since all of these are linear in the queries.
"""

import time
import zlib

import numpy as np

from benchmarks.harness import timed
from localconformal import KernelLaw

D = 10
LEVELS = np.array([0.05, 0.95])


def rows(n, name, d=D):
    """n rows X (n, d) and scores v (n,); the seed comes from the name."""
    rng = np.random.default_rng(zlib.crc32(f"{name}-{n}-{d}".encode()))
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def regression(n, name):
    """The same with a response that takes a model some trees to learn."""
    X, v = rows(n, name)
    return X, np.sin(2 * X[:, 1]) * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + v


def bandwidth(d=D):
    """Half the median distance of Gaussian rows: local enough to be no constant."""
    return 0.5 * float(np.sqrt(2 * d))


def least_seconds(work, repeats=3):
    """Least wall time of the repeats, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def growth_exponent(sizes, seconds):
    """Slope of log seconds on log size, over the upper half of the sizes; None for one size."""
    if len(sizes) < 2:
        return None
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def rank_errors(answer, levels, exact, points):
    """How far, in mass of the exact law, the answers (m, L) lie from their levels: (m, L)."""
    above = exact.cdf(points, answer, "left") - levels
    below = levels - exact.cdf(points, answer, "right")
    return np.maximum(np.maximum(above, below), 0.0)


def both_clocks(work):
    """Wall and processor seconds."""
    return np.array(timed(work)[1])


class Naive:
    """All pairwise differences by broadcasting, and a sort for each query, as the paper's code."""

    pairs = 2e7

    def fit(self, X, v):
        self.X, self.v = X, v
        return self

    def query(self, Q):
        step = max(1, int(2e6 / len(self.v)))
        return np.concatenate([self._chunk(Q[i : i + step]) for i in range(0, len(Q), step)])

    def _chunk(self, Q):
        squared = ((Q[:, None, :] - self.X[None]) ** 2).sum(axis=2)
        weights = np.exp(-0.5 * squared / bandwidth() ** 2)
        weights /= weights.sum(axis=1, keepdims=True)
        scores = np.broadcast_to(self.v, weights.shape)
        order = np.argsort(scores, axis=1)
        mass = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
        sorted_scores = np.take_along_axis(scores, order, axis=1)
        index = [np.minimum((mass < t).sum(axis=1), len(self.v) - 1) for t in LEVELS]
        return np.take_along_axis(sorted_scores, np.stack(index, axis=1), axis=1)


class Law:
    """The library's kernel law with one engine; rows are embedded as for any user."""

    def __init__(self, engine, pairs, batch_size=None):
        self.pairs = pairs
        self.law = KernelLaw(
            bandwidth=bandwidth(), engine=engine, batch_size=batch_size, random_state=0
        )

    def fit(self, X, v):
        self.law.fit(X, v)
        return self

    def query(self, Q):
        return self.law.quantile(Q, LEVELS)


METHODS = {
    "naive": Naive,
    "oracle": lambda: Law("reference", 5e7),
    "exact": lambda: Law("exact", 4e8),
    "minibatch 30 %": lambda: Law("minibatch", 1e9, 0.3),
    "minibatch 10 %": lambda: Law("minibatch", 2e9, 0.1),
    "sketch": lambda: Law("sketch", np.inf),
}
