"""Ways to compute the local quantiles of many queries, one class each.

A method is built on reference rows (``fit``) and asked for quantiles (``query``). ``pairs`` is
the number of (query, reference) pairs that one timing may take: where n queries would be more,
fewer are timed and the cost of n follows, since all of these are linear in the queries.
"""

import numpy as np

from benchmarks.speed.data import LEVELS, bandwidth
from localconformal import KernelLaw


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
