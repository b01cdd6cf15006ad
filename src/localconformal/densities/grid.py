"""The bins that all densities of one estimator share, frozen from reference scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localconformal.intervals import round_up
from localconformal.quantiles import Array

BINS = 400
#: The grid reaches beyond the reference scores by this share of their range, on each side.
MARGIN = 0.1
#: Scores that differ by less than this share of their size differ by rounding alone.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Grid:
    """Bins of equal width in u = arcsinh((v - centre) / unit).

    The unit is the range of the middle 90 % of the scores. Within it u is about linear in v and
    the bins are of about equal width; far out their widths grow in proportion to the distance, so
    that a few wild scores do not leave the others in one bin.

    Parameters
    ----------
    centre, unit : float
    low, high : float
        Ends of the grid, in u.

    Examples
    --------
    >>> v = np.linspace(-1.0, 1.0, 101)
    >>> grid = Grid.around(v, y=v)
    >>> bool(grid.edges[0] < -1.0), bool(grid.edges[-1] > 1.0), len(grid.widths)
    (True, True, 400)
    """

    centre: float
    unit: float
    low: float
    high: float

    @classmethod
    def around(cls, v: Array, y: Array) -> Grid:
        """A grid for reference scores v (n,) of responses y (n,).

        Equal scores get bins as narrow as rounding allows; where all are 0 the responses say
        what that is.
        """
        first, centre, last = map(float, np.quantile(v, [0.05, 0.5, 0.95]))
        size = float(np.max(np.abs(v)) or np.max(np.abs(y)) or 1.0)
        spread, noise = float(np.ptp(v)), ROUNDING * size
        if spread <= noise:
            return cls(centre, noise, -1.0, 1.0)
        unit = last - first if last - first > noise else spread
        u = np.arcsinh((v - centre) / unit)
        margin = MARGIN * float(np.ptp(u))
        return cls(centre, unit, float(u.min()) - margin, float(u.max()) + margin)

    @property
    def edges(self) -> Array:
        """(M + 1,), rising."""
        return self.centre + self.unit * np.sinh(np.linspace(self.low, self.high, BINS + 1))

    @property
    def widths(self) -> Array:
        """(M,)."""
        return np.diff(self.edges)

    def position(self, v: Array) -> Array:
        """u scaled so that the grid is [0, 1]; what lies outside is moved to its ends."""
        u = np.arcsinh((v - self.centre) / self.unit)
        return np.clip((u - self.low) / (self.high - self.low), 0.0, 1.0)

    def bins(self, v: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The closed bins that hold v (n,): two on a common edge, else twice the same.

        -1 outside the grid.
        """
        edges = self.edges
        inside = (edges[0] <= v) & (v <= edges[-1])
        left, right = (np.searchsorted(edges, v, side=side) - 1 for side in ("left", "right"))
        left, right = np.maximum(left, 0), np.minimum(right, BINS - 1)
        return np.where(inside, left, -1), np.where(inside, right, -1)

    def beyond(self, v: Array) -> Array:
        """How many units v (n,) lies outside the grid; 0 inside."""
        edges = self.edges
        with np.errstate(over="ignore"):
            return np.maximum(np.maximum(edges[0] - v, v - edges[-1]), 0.0) / self.unit

    def extended(self, units: Array) -> tuple[Array, Array]:
        """Ends of the grid with so many units (n,) more on both sides, rounded outward.

        Examples
        --------
        >>> grid = Grid(centre=0.0, unit=2.0, low=-1.0, high=1.0)
        >>> start, end = grid.extended(np.array([0.5, np.inf]))
        >>> grid.beyond(end).round(6), start.round(3)
        (array([0.5, inf]), array([-3.35,  -inf]))
        """
        with np.errstate(over="ignore"):
            reach = self.unit * units
            return -round_up(reach, -self.edges[0]), round_up(reach, self.edges[-1])
