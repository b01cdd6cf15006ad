"""The level itself as the score: the rank of v in its local law."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment, at_each_level
from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import MASS_GUARD, Array, typical_size


class ThetaQuantile(BaseAdjustment):
    """p = F(v-) + (v - M)+ / scale; T = Q+(theta; F) below theta = 1, then M + scale (theta - 1).

    M is the largest reference score and scale their median size: beyond the support every v has
    rank one, and the second term tells them apart, so that T stays finite.

    Examples
    --------
    >>> ThetaQuantile()
    ThetaQuantile()
    """

    def fit(self, V: Array) -> ThetaQuantile:
        """Learn the end of the support and the unit beyond it, of each side."""
        self.largest_ = V.max(axis=0)
        self.scale_ = np.array([typical_size(column) for column in V.T])
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """Mass strictly below v, and the distance beyond the support."""
        beyond = np.maximum(V - self.largest_, 0.0) / self.scale_
        return at_each_level(F.cdf(V, side="left") + beyond, levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The upper quantile at the calibrated level."""
        theta = np.broadcast_to(theta, (F.n, *levels.shape))
        within = F.upper_quantile(np.minimum(theta, 1.0))
        excess = round_up(theta - 1.0, MASS_GUARD)
        beyond = round_up(self.largest_[:, None], self.scale_[:, None] * excess)
        return np.where(theta < 1.0 - MASS_GUARD, within, beyond)
