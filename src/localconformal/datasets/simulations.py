"""Synthetic data whose conditional quantiles are known, so that intervals have an ideal.

A simulation is a row of the table `SIMULATIONS`: how rows are drawn, their conditional mean and
their conditional quantiles. Gaussian ones need a mean and a standard deviation only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

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
    conditional_quantile : callable
        X, levels (L,) -> the quantiles of y given x, of shape (n, L).

    Examples
    --------
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

    def quantile(self, X: ArrayLike, levels: ArrayLike) -> Array:
        """Quantiles of y given x: (n, L). Levels alpha/2, 1 - alpha/2 are the ideal interval."""
        asked = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        return self.conditional_quantile(np.asarray(X, dtype=np.float64), asked)


def gaussian(name: str, features: Features, mean: Curve, deviation: Curve) -> Simulation:
    """y = mean(x) + deviation(x) e with e standard normal; deviation may be negative."""
    return Simulation(
        name,
        draw_features=features,
        draw_response=lambda rng, X: mean(X) + deviation(X) * rng.standard_normal(len(X)),
        conditional_mean=mean,
        conditional_quantile=lambda X, levels: (
            mean(X)[:, None] + np.abs(deviation(X))[:, None] * ndtri(levels)
        ),
    )


def uniform_features(low: float, high: float, d: int = 1) -> Features:
    """X uniform on [low, high]^d."""
    return lambda rng, n: rng.uniform(low, high, size=(n, d))


#: sim1 and sim2 are those of the SLCP paper, as its authors' code has them.
SIMULATIONS: dict[str, Simulation] = {
    simulation.name: simulation
    for simulation in (
        gaussian(
            "sim1",
            uniform_features(0.0, 5.0),
            mean=lambda X: np.sin(X[:, 0]) ** 2 + 0.1,
            deviation=lambda X: 0.6 * np.sin(2.0 * X[:, 0]),
        ),
        gaussian(
            "sim2",
            uniform_features(0.0, 5.0),
            mean=lambda X: 2.0 * np.sin(X[:, 0]) ** 2 + 0.1,
            deviation=lambda X: 0.15 * X[:, 0],
        ),
    )
}


def load_simulation(name: str) -> Simulation:
    """The simulation of this name.

    Examples
    --------
    >>> load_simulation("sim1").name
    'sim1'
    """
    if name not in SIMULATIONS:
        raise ValueError(f"There is no simulation {name!r}; choose one of {sorted(SIMULATIONS)}.")
    return SIMULATIONS[name]
