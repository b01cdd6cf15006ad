"""The contract of an adjustment."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import Array


class BaseAdjustment(BaseEstimator):
    """p(v, F) increasing in v, and T(theta) = sup{v : p(v, F) <= theta}.

    Shapes: n rows, S sides of the score, L levels. ``levels`` (S, L) are the local levels of the
    law that each side asks for. Numerical error may only enlarge: p(v) <= theta, as computed,
    must imply v <= T(theta), as computed.
    """

    #: False when p does not look at F; then no law is fitted at all.
    uses_law = True

    def fit(self, V: Array) -> BaseAdjustment:
        """Learn constants, such as floors, from the reference scores V (n, S); return self."""
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """p(v, F): V (n, S) -> (n, S, L)."""
        raise NotImplementedError

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """T(theta): theta (S, L), or (n, S, L) to differ by row -> (n, S, L)."""
        raise NotImplementedError


def at_each_level(p: Array, levels: Array) -> Array:
    """A score that does not look at the level: (n, S) -> (n, S, L), to be read only."""
    return np.broadcast_to(p[:, :, None], (len(p), *levels.shape))
