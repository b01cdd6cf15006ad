"""A law's masses on the bins, smoothed over neighbouring bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d
from sklearn.base import clone

from localconformal.densities.base import BaseDensity, Sample, cde_loss, default_forest
from localconformal.densities.grid import Grid
from localconformal.laws import BaseLaw, ForestLaw, SidedLaw, make_law, seeded
from localconformal.laws.once import one_query
from localconformal.quantiles import Array

#: Standard deviations of the smoothing to choose from, in bins.
BANDWIDTHS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
#: Where there are too few rows to choose.
FOR_FEW_ROWS = 16.0


@dataclass(frozen=True)
class LawDensity(BaseDensity):
    """f(v | x) = sum_k N(v; bin_k, bandwidth^2) [F(edge_k+1 | x) - F(edge_k | x)].

    The bandwidth, in bins, is the one with the least loss at reference rows that the law has not
    seen. What a law has beyond the grid counts for the outermost bins.
    """

    bandwidth: float

    @classmethod
    def fit(cls, sample: Sample, law: Any) -> LawDensity:
        """From reference rows; ``law`` None is `default_law`."""
        unfitted = seeded(
            default_law(sample) if law is None else make_law(law), sample.seed, sample.n_jobs
        )
        grid = Grid.around(sample.v, sample.outputs.response)
        bandwidth = choose_bandwidth(unfitted, grid, sample)
        both = np.stack([-sample.v, sample.v], axis=1)
        fitted = SidedLaw.fit(unfitted, sample.X, both, sample.outputs)
        return cls(grid, fitted, bandwidth)

    def estimate(self, X: Any) -> Array:
        """Mass of each bin at each row: (n, M)."""
        return smooth(law_mass(self.law.laws[0], self.grid, X), self.bandwidth)


def default_law(sample: Sample) -> ForestLaw:
    """Trees grown on the signed score and its size side by side."""
    return ForestLaw(default_forest(len(sample.v), sample.seed, sample.n_jobs))


def law_mass(law: BaseLaw, grid: Grid, X: Any) -> Array:
    """F(edge_k+1 | x) - F(edge_k | x): (n, M)."""
    inner = grid.edges[1:-1]
    with one_query():
        F = law.cdf(X, np.tile(inner, (len(X), 1)))
    # Rounding, and laws from elsewhere, may let F fall.
    F = np.maximum.accumulate(np.clip(F, 0.0, 1.0), axis=1)
    return np.diff(F, axis=1, prepend=0.0, append=1.0)


def smooth(mass: Array, bandwidth: float) -> Array:
    """Masses spread over neighbouring bins, reflected at the ends of the grid: (n, M)."""
    if bandwidth == 0.0:
        return mass
    spread = gaussian_filter1d(mass, bandwidth, axis=1, mode="reflect")
    return spread / spread.sum(axis=1, keepdims=True)


def choose_bandwidth(law: BaseLaw, grid: Grid, sample: Sample) -> float:
    """The bandwidth with the least loss at held-out reference rows."""
    held = sample.held_out()
    if held is None:
        return FOR_FEW_ROWS
    fold, v = held
    fitted = clone(law).fit(fold.X_rest, fold.v_rest, outputs=fold.outputs)
    mass = law_mass(fitted, grid, fold.X)
    losses = [cde_loss(smooth(mass, bandwidth), grid, v) for bandwidth in BANDWIDTHS]
    return BANDWIDTHS[int(np.argmin(losses))]
