"""Adjustments by the local quantile: SLCP and its multiplicative form."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment
from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import Array, typical_size


class AdditiveQuantile(BaseAdjustment):
    """p = v - Q(tau; F); T = Q(tau; F) + theta. The score of SLCP.

    Examples
    --------
    >>> AdditiveQuantile()
    AdditiveQuantile()
    """

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """How far v exceeds the local quantile."""
        return V[:, :, None] - F.quantile(levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The local quantile, corrected."""
        return round_up(F.quantile(levels), theta)


class MultiplicativeQuantile(BaseAdjustment):
    """p = v / (eps + |Q(tau; F)|); T = theta (eps + |Q(tau; F)|).

    Meant for absolute scores. eps is ``floor`` times the median size of the reference scores.

    Parameters
    ----------
    floor : float, default=0.001

    Examples
    --------
    >>> MultiplicativeQuantile()
    MultiplicativeQuantile()
    """

    def __init__(self, floor: float = 1e-3) -> None:
        self.floor = floor

    def fit(self, V: Array) -> MultiplicativeQuantile:
        """Learn eps of each side."""
        self.eps_ = relative_floors(self.floor, V)
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """v in units of the local quantile."""
        return V[:, :, None] / self._unit(F, levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """theta local units."""
        return round_up(theta * self._unit(F, levels))

    def _unit(self, F: LocalLaw, levels: Array) -> Array:
        return self.eps_[:, None] + np.abs(F.quantile(levels))


def relative_floors(floor: float, V: Array) -> Array:
    """A small positive number for each side, in units of its reference scores: (S,)."""
    if not floor > 0:
        raise ValueError(f"floor is {floor!r}; a positive number was expected.")
    return np.array([floor * typical_size(column) for column in V.T])
