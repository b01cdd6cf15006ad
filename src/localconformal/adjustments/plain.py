"""No adjustment: split conformal prediction."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment, at_each_level
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import Array


class Plain(BaseAdjustment):
    """p = v; T = theta. No law is fitted.

    Examples
    --------
    >>> Plain().uses_law
    False
    """

    uses_law = False

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """The score itself."""
        return at_each_level(V, levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The correction itself."""
        return np.broadcast_to(theta, (F.n, *levels.shape))
