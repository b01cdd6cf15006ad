"""Synthetic data whose conditional quantiles are known, so that intervals have an ideal.

A simulation is a row of the table `SIMULATIONS`: how rows are drawn, and the conditional mean,
distribution function and quantiles of the response. Gaussian ones need a mean and a standard
deviation only, mixtures of Gaussians the same for each part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from localconformal.quantiles import Array

#: (generator, n) -> X (n, d)
Features = Callable[[np.random.Generator, int], Array]
#: X (n, d) -> (n,)
Curve = Callable[[Array], Array]


@dataclass(frozen=True)
class Simulation:
    """A joint law of (X, y) with known conditional quantiles.

    Attributes
    ----------
    name : str
    draw_features : callable
        ``draw_features(rng, n)`` -> X of shape (n, d).
    draw_response : callable
        ``draw_response(rng, X)`` -> y of shape (n,).
    conditional_mean : callable
        X -> E[y | x] of shape (n,).
    conditional_cdf : callable
        X, y (n,) -> P(Y <= y | x) of shape (n,).
    conditional_quantile : callable
        X, levels (L,) -> the quantiles of y given x, of shape (n, L).

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> simulation = load_simulation("sim2")
    >>> X, y = simulation.sample(1000, random_state=0)
    >>> X.shape, y.shape
    ((1000, 1), (1000,))
    >>> ideal = simulation.quantile(X, [0.05, 0.95])
    >>> ideal.shape
    (1000, 2)
    """

    name: str
    draw_features: Features
    draw_response: Callable[[np.random.Generator, Array], Array]
    conditional_mean: Curve
    conditional_cdf: Callable[[Array, Array], Array]
    conditional_quantile: Callable[[Array, Array], Array]

    def sample(
        self, n: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[Array, Array]:
        """Draw n independent rows: X (n, d), y (n,)."""
        rng = np.random.default_rng(random_state)
        X = self.draw_features(rng, n)
        return X, self.draw_response(rng, X)

    def mean(self, X: ArrayLike) -> Array:
        """E[y | x]: (n,)."""
        return self.conditional_mean(np.asarray(X, dtype=np.float64))

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(Y <= y | x) at each pair (x, y): (n,)."""
        points = np.asarray(X, dtype=np.float64)
        return self.conditional_cdf(points, np.asarray(y, dtype=np.float64))

    def coverage(self, X: ArrayLike, intervals: ArrayLike) -> Array:
        """P(lower <= Y <= upper | x) of intervals (n, 2): (n,). Responses are continuous here."""
        bounds = np.asarray(intervals, dtype=np.float64)
        return np.maximum(self.cdf(X, bounds[:, 1]) - self.cdf(X, bounds[:, 0]), 0.0)

    def quantile(self, X: ArrayLike, levels: ArrayLike) -> Array:
        """Quantiles of y given x: (n, L). Levels alpha/2, 1 - alpha/2 are the ideal interval."""
        asked = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        return self.conditional_quantile(np.asarray(X, dtype=np.float64), asked)


#: Standard deviations stay above this: at one point of x the noise of some simulations vanishes.
TINY = 1e-12
#: Halvings of a bracket: to the last digits of a float, or nearly so.
HALVINGS = 60


def gaussian(name: str, features: Features, mean: Curve, deviation: Curve) -> Simulation:
    """y = mean(x) + deviation(x) e with e standard normal; deviation may be negative."""

    def spread(X: Array) -> Array:
        return np.maximum(np.abs(deviation(X)), TINY)

    return Simulation(
        name,
        draw_features=features,
        draw_response=lambda rng, X: mean(X) + deviation(X) * rng.standard_normal(len(X)),
        conditional_mean=mean,
        conditional_cdf=lambda X, y: ndtr((y - mean(X)) / spread(X)),
        conditional_quantile=lambda X, levels: (
            mean(X)[:, None] + np.abs(deviation(X))[:, None] * ndtri(levels)
        ),
    )


class Parts(NamedTuple):
    """A mixture of normal laws at each row: shares, means and deviations, each (n, K)."""

    shares: Array
    means: Array
    deviations: Array

    def cdf(self, y: Array) -> Array:
        """P(Y <= y): (n,)."""
        z = (y[:, None] - self.means) / np.maximum(self.deviations, TINY)
        return np.asarray((self.shares * ndtr(z)).sum(axis=1))

    def quantile(self, level: float) -> Array:
        """Found by halving a bracket that holds the quantile of every part: (n,)."""
        edges = self.means + self.deviations * ndtri(level)
        low, high = edges.min(axis=1), edges.max(axis=1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2.0
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high


def mixture(
    name: str,
    features: Features,
    draw: Callable[[np.random.Generator, Array], Array],
    parts: Callable[[Array], Parts],
) -> Simulation:
    """A response whose law at each x is a mixture of normal laws."""
    return Simulation(
        name,
        draw_features=features,
        draw_response=draw,
        conditional_mean=lambda X: (parts(X).shares * parts(X).means).sum(axis=1),
        conditional_cdf=lambda X, y: parts(X).cdf(y),
        conditional_quantile=lambda X, levels: np.column_stack(
            [parts(X).quantile(float(level)) for level in levels]
        ),
    )


def uniform_features(low: float, high: float, d: int = 1) -> Features:
    """X uniform on [low, high]^d."""
    return lambda rng, n: rng.uniform(low, high, size=(n, d))
