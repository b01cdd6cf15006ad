"""A correction in units of the local width."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment
from localconformal.adjustments.quantile import relative_floors
from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import MASS_GUARD, Array


class ScaledQuantile(BaseAdjustment):
    """p = (v - Q(tau; F)) / u(x); T = Q(tau; F) + theta u(x).

    u(x) = eps + Q(tau; F) - Q(1 - tau; F) is the width of the local law, so that wide intervals
    are corrected by more than narrow ones: what CQR-r does to quantile models, for any law.

    Parameters
    ----------
    floor : float, default=0.01
        eps in units of the median size of the reference scores.

    Examples
    --------
    >>> ScaledQuantile()
    ScaledQuantile()
    """

    def __init__(self, floor: float = 1e-2) -> None:
        self.floor = floor

    def fit(self, V: Array) -> ScaledQuantile:
        """Learn eps of each side."""
        self.eps_ = relative_floors(self.floor, V)
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """How far v exceeds the local quantile, in local widths."""
        quantile, unit = self._line(F, levels)
        return (V[:, :, None] - quantile) / unit

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The local quantile, corrected."""
        quantile, unit = self._line(F, levels)
        return round_up(quantile, round_up(theta * unit))

    def _line(self, F: LocalLaw, levels: Array) -> tuple[Array, Array]:
        # Q(0) is -inf: the lower end is asked for no further out than any law can tell.
        lower = np.maximum(1.0 - levels, 2.0 * MASS_GUARD)
        quantile, below = np.dsplit(F.quantile(np.hstack([levels, lower])), 2)
        return quantile, self.eps_[:, None] + np.maximum(quantile - below, 0.0)
