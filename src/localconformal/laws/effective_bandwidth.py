"""A bandwidth that leaves a given number of rows within reach of each row."""

from __future__ import annotations

from numbers import Real

import numpy as np
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from localconformal.engine.kernels import FLAT, KERNELS
from localconformal.laws.bandwidth import DISTANCE_ROWS, BandwidthProblem
from localconformal.quantiles import Array

# h is found to within this share of itself.
PRECISION = 1e-4
# exp(-u^2 / 2) is 0 in float64 at this u.
NOTHING = 40.0


class EffectiveSize(BaseEstimator):
    """h at which a row has on average so many effective neighbours: n / ||W||_F^2 - 1 = target.

    W is the kernel matrix K(|X_i - X_j| / h) of the reference rows, or of a sample of 2,000 of
    them, with rows that sum to one. The left side is 0 for h -> 0 and n - 1 for h -> inf, where
    each row weighs all others alike. Of a kernel with steps, h is where the target is passed;
    infinite where fewer rows than the target are there. Methods that weigh calibration rows have
    as many effective ones as the target when there are as many of them as rows in W, else in
    proportion.

    Parameters
    ----------
    target : float, default=50.0
        Effective neighbours.

    References
    ----------
    Hore and Barber, "Conformal prediction with local weights: randomization enables robust
    guarantees", arXiv:2310.07850.

    Examples
    --------
    >>> from localconformal import KernelLaw
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> law = KernelLaw("boxcar", bandwidth=EffectiveSize(50), embedding=lambda x: x)
    >>> within = np.abs(X - 0.5) / X.std() <= law.fit(X, X[:, 0]).bandwidth_
    >>> abs(int(within.sum()) - 1 - 50) <= 5
    True
    """

    def __init__(self, target: float = 50.0) -> None:
        self.target = target

    def choose(self, problem: BandwidthProblem) -> float:
        """The bandwidth, by Brent's kind of bisection on a logarithmic scale."""
        if not isinstance(self.target, Real) or not self.target > 0:
            raise ValueError(f"target is {self.target!r}; a positive number was expected.")
        points = problem.points[problem.sample(len(problem.points), DISTANCE_ROWS)]
        squared = cdist(points, points, "sqeuclidean")
        narrow, wide = extremes(squared)
        if effective_size(problem.kernel, squared, wide) < self.target:
            return float("inf")
        if effective_size(problem.kernel, squared, narrow) >= self.target:
            return narrow

        def excess(log_h: float) -> float:
            size = effective_size(problem.kernel, squared, float(np.exp(log_h)))
            return float(np.log1p(size) - np.log1p(self.target))

        return float(np.exp(brentq(excess, np.log(narrow), np.log(wide), xtol=PRECISION)))


def extremes(squared: Array) -> tuple[float, float]:
    """An h that reaches no row but those that coincide, and one that weighs all alike."""
    positive = squared[squared > 0]
    if not len(positive):
        return 1.0, 1.0
    return float(np.sqrt(positive.min())) / NOTHING, float(np.sqrt(positive.max())) * FLAT


def effective_size(kernel: str, squared: Array, bandwidth: float) -> float:
    """n / ||W||_F^2 - 1 from squared distances (n, n)."""
    weights = KERNELS[kernel](squared / bandwidth**2)
    total = weights.sum(axis=1)
    return len(weights) / float(np.sum(np.einsum("ij,ij->i", weights, weights) / total**2)) - 1.0
