"""Kernels, as formulas of the squared distance in units of the bandwidth.

A new kernel is one function and one line in `KERNELS`: that is enough for every law to use it, on
the NumPy engine. A branch in `exact.weigh` and a number in `CODES` make it fast at scale.

The weights of one x are K(u_j), u_j = d_j / h, up to a factor that cancels in the law. Two
things can go wrong with them, and both are mended here, row by row, from the reference rows and
that x alone:

* underflow: far from every reference, exp(-u^2 / 2) is zero for all of them. The Gaussian
  therefore measures u^2 from its smallest value in the row, which changes no ratio;
* too few rows: the effective sample size (sum w)^2 / sum w^2 may be tiny, or all mass zero (no
  reference within a compact kernel, or so far that a Gaussian underflows). The bandwidth of
  that x is then doubled until it has mass and the asked effective sample size. Both grow with
  h for each kernel here, so that the number of doublings can be bisected instead of walked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from localconformal.quantiles import Array

# A distance equal to h up to rounding is inside: the guard may only enlarge.
EDGE_GUARD = 1e-9
# exp(-u^2 / 2) is no longer a normal float64 beyond this u^2: the nearest row has no mass.
NO_MASS = 1400.0
# At this multiple of the largest distance every kernel here is flat to within rounding.
FLAT = 1e6


def gaussian(u2: Array) -> Array:
    """exp(-u^2 / 2), relative to the largest of the row."""
    return np.exp(-0.5 * (u2 - u2.min(axis=1, keepdims=True)))


def boxcar(u2: Array) -> Array:
    """1{u <= 1}."""
    return (u2 <= 1.0 + EDGE_GUARD).astype(np.float64)


def epanechnikov(u2: Array) -> Array:
    """(1 - u^2)+."""
    return np.maximum(1.0 - u2, 0.0)


KERNELS: dict[str, Callable[[Array], Array]] = {
    "gaussian": gaussian,
    "boxcar": boxcar,
    "epanechnikov": epanechnikov,
}


def absolute_weights(kernel: str, u2: Array) -> Array:
    """K(u) itself, not relative to the row: 1 at distance 0, and 0 where it underflows."""
    return np.exp(-0.5 * u2) if kernel == "gaussian" else KERNELS[kernel](u2)


#: Kernels that compiled code knows, and the number by which it does.
CODES = {"gaussian": 0, "boxcar": 1, "epanechnikov": 2}


def effective_sample_size(weights: Array) -> Array:
    """(sum w)^2 / sum w^2 of each row; 0 where all weights are 0."""
    squares = np.einsum("ij,ij->i", weights, weights)
    total = weights.sum(axis=1)
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


@dataclass(frozen=True)
class KernelWeights:
    """Weights K(|x - X_j| / h) of reference rows X_j at query rows x.

    Parameters
    ----------
    references : array of shape (n, d)
    kernel : name in `KERNELS`
    bandwidth : float
        h > 0; may be infinite.
    min_effective_samples : float
        h is doubled at x until its effective sample size reaches this (n at most).
    """

    references: Array
    kernel: str
    bandwidth: float
    min_effective_samples: float

    def __call__(self, rows: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Weights (m, n), not normalised, and where the bandwidth was widened (m,)."""
        squared = cdist(rows, self.references, "sqeuclidean")
        u2 = squared / self.bandwidth**2
        weights = KERNELS[self.kernel](u2)
        # Weights that are equal but for rounding must count as equal.
        needed = min(self.min_effective_samples, len(self.references)) * (1.0 - 1e-6)
        thin = ~is_enough(u2, weights, needed)
        if thin.any():
            weights[thin] = self._widened(squared[thin], needed)
        return weights, thin

    def _widened(self, squared: Array, needed: float) -> Array:
        """Weights at h 2^k, for each row the smallest k that is enough."""
        kernel = KERNELS[self.kernel]

        def widened(doublings: Array) -> Array:
            return squared / (self.bandwidth * 2.0 ** doublings[:, None]) ** 2

        def enough(doublings: Array) -> NDArray[np.bool_]:
            u2 = widened(doublings)
            return is_enough(u2, kernel(u2), needed)

        farthest = np.sqrt(squared.max(axis=1))
        return kernel(widened(fewest_doublings(farthest / self.bandwidth, enough)))


def fewest_doublings(farthest: Array, enough: Callable[[Array], NDArray[np.bool_]]) -> Array:
    """For each row the smallest number of doublings of h, 1 or more, that is enough: (m,).

    ``farthest`` is the largest distance of the row in units of h; ``enough`` answers for numbers
    of doublings (m,), one per row.
    """
    # `low` is too few doublings, `high` enough.
    high = np.ceil(np.log2(np.maximum(FLAT * farthest, 2.0)))
    low = np.zeros_like(high)
    while (open_ := high - low > 1).any():
        middle = np.floor((low + high) / 2.0)
        reached = enough(middle)
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle, low)
    return high


def is_enough(u2: Array, weights: Array, needed: float) -> NDArray[np.bool_]:
    """Whether each row has mass, and the needed effective sample size."""
    has_mass = (u2.min(axis=1) <= NO_MASS) & (weights.max(axis=1) > 0)
    return has_mass & (effective_sample_size(weights) >= needed)
