"""The level itself as the score: the rank of v in its local law."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment, at_each_level
from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import MASS_GUARD, Array, typical_size

#: Q+ at 1 is infinite: the end of a law is asked for as far out as any law can tell.
LAST = 1.0 - 2.0 * MASS_GUARD


class ThetaQuantile(BaseAdjustment):
    """p = F(v-) up to M(x), then 1 + (v - M(x)) / scale; T = Q+(theta; F), then their inverse.

    M(x) is the largest reference score or, where it is larger, the end of the law's support at x;
    scale is the median size of the reference scores. Beyond the support every v has rank one, and
    the excess tells them apart, so that T stays finite.

    Examples
    --------
    >>> ThetaQuantile()
    ThetaQuantile()
    """

    def fit(self, V: Array) -> ThetaQuantile:
        """Learn the largest score and the unit beyond it, of each side."""
        self.largest_ = V.max(axis=0)
        self.scale_ = np.array([typical_size(column) for column in V.T])
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """Mass strictly below v, or the distance beyond the support."""
        end = self._end(F.upper_quantile(np.full((V.shape[1], 1), LAST)))[:, :, 0]
        excess = np.maximum(V - end, 0.0) / self.scale_
        return at_each_level(np.where(end < V, 1.0 + excess, F.cdf(V, side="left")), levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The upper quantile at the calibrated level."""
        theta = np.broadcast_to(theta, (F.n, *levels.shape))
        last = np.full((*theta.shape[:2], 1), LAST)
        asked = np.concatenate([np.minimum(theta, 1.0), last], axis=2)
        within, end = np.split(F.upper_quantile(asked), [-1], axis=2)
        # Nothing beyond the end has a rank below one.
        within = np.minimum(within, self._end(end))
        excess = round_up(np.maximum(theta, 1.0), -1.0)
        beyond = round_up(self._end(end), self.scale_[:, None] * excess)
        return np.where(theta < 1.0, within, beyond)

    def _end(self, last: Array) -> Array:
        """M(x) from the end of the law there: (n, S, 1)."""
        return np.maximum(self.largest_[:, None], last)
