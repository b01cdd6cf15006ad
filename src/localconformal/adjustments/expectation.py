"""Adjustments by the local mean."""

from __future__ import annotations

import numpy as np

from localconformal.adjustments.base import BaseAdjustment, at_each_level
from localconformal.adjustments.quantile import relative_floors
from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.quantiles import Array


class AdditiveExpectation(BaseAdjustment):
    """p = v - E_F[V]; T = E_F[V] + theta.

    With signed scores the width is constant: it corrects a local bias. With absolute scores it
    adapts, less than a quantile does.

    Examples
    --------
    >>> AdditiveExpectation()
    AdditiveExpectation()
    """

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """How far v exceeds the local mean."""
        return at_each_level(V - F.mean(), levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The local mean, corrected."""
        return round_up(F.mean()[:, :, None], theta)


class MultiplicativeExpectation(BaseAdjustment):
    """p = v / (eps + E_F|V|); T = theta (eps + E_F|V|): normalised residuals by a local law.

    Parameters
    ----------
    floor : float, default=0.001
        eps in units of the median size of the reference scores.

    Examples
    --------
    >>> MultiplicativeExpectation()
    MultiplicativeExpectation()
    """

    def __init__(self, floor: float = 1e-3) -> None:
        self.floor = floor

    def fit(self, V: Array) -> MultiplicativeExpectation:
        """Learn eps of each side."""
        self.eps_ = relative_floors(self.floor, V)
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """v in units of the local mean size."""
        return at_each_level(V / self._unit(F), levels)

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """theta local units."""
        return round_up(theta * self._unit(F)[:, :, None])

    def _unit(self, F: LocalLaw) -> Array:
        # A sketch may answer with less than nothing, and p must rise with v.
        return self.eps_ + np.maximum(F.mean(absolute=True), 0.0)
