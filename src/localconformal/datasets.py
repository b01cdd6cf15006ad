"""Synthetic data with known conditional quantiles, and so known ideal intervals.

They are the simulations of the SLCP paper, including those it takes from Izbicki et al. ``sim1`` to
``sim3`` follow the authors' code. The paper prints other formulas, and calls the standard normal
noise "a random variable that generates either 0 or 1": ``sim1_printed`` to ``sim3_printed`` are the
printed formulas with normal noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincinv, gammaln, ndtr, ndtri

from localconformal.quantiles import Array
from localconformal.text import unknown_choice

__all__ = ["SIMULATIONS", "Simulation", "load_simulation", "shifted_simulation"]

#: (generator, n) -> X (n, d)
_Features = Callable[[np.random.Generator, int], Array]
#: X (n, d) -> (n,)
_Curve = Callable[[Array], Array]
#: Lower limit of standard deviations: at one point of x, the noise of some simulations vanishes.
_TINY = 1e-12
#: Bisections of a bracket: nearly to the last digits of a float.
_HALVINGS = 60


class _Mixture(NamedTuple):
    """A mixture of normal laws at each row: shares, means and deviations, each (n, K)."""

    shares: Array
    means: Array
    deviations: Array

    def mean(self) -> Array:
        return np.asarray((self.shares * self.means).sum(axis=1))

    def cdf(self, y: Array) -> Array:
        z = (y[:, None] - self.means) / np.maximum(self.deviations, _TINY)
        return np.asarray((self.shares * ndtr(z)).sum(axis=1))

    def quantile(self, level: float) -> Array:
        """By bisection, from a bracket that contains the quantiles of all parts."""
        edges = self.means + self.deviations * ndtri(level)
        low, high = edges.min(axis=1), edges.max(axis=1)
        for _ in range(_HALVINGS if edges.shape[1] > 1 else 0):
            middle = (low + high) / 2.0
            below = self.cdf(middle) < level
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return high


class _ShiftedGamma(NamedTuple):
    """At each row a start (n,), plus Gamma noise with equal shape and rate (n,), so mean 1."""

    start: Array
    shape: Array

    def mean(self) -> Array:
        return self.start + 1.0

    def cdf(self, y: Array) -> Array:
        return np.asarray(gammainc(self.shape, np.maximum(y - self.start, 0.0) * self.shape))

    def quantile(self, level: float) -> Array:
        return np.asarray(self.start + gammaincinv(self.shape, level) / self.shape)


@dataclass(frozen=True)
class Simulation:
    """A joint law of (X, y) with known conditional quantiles.

    ``draw_features(rng, n)`` gives X (n, d), ``draw_response(rng, X)`` gives y (n,), and
    ``given(X)`` is the law of y at these rows.

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
    draw_features: _Features
    draw_response: Callable[[np.random.Generator, Array], Array]
    given: Callable[[Array], _Mixture | _ShiftedGamma]

    def sample(
        self, n: int, random_state: int | np.random.Generator | None = None
    ) -> tuple[Array, Array]:
        """Draw n independent rows: X (n, d), y (n,)."""
        rng = np.random.default_rng(random_state)
        X = self.draw_features(rng, n)
        return X, self.draw_response(rng, X)

    def mean(self, X: ArrayLike) -> Array:
        """E[y | x]: (n,)."""
        return self.given(np.asarray(X, dtype=np.float64)).mean()

    def cdf(self, X: ArrayLike, y: ArrayLike) -> Array:
        """P(Y <= y | x) at each pair (x, y): (n,)."""
        return self.given(np.asarray(X, dtype=np.float64)).cdf(np.asarray(y, dtype=np.float64))

    def coverage(self, X: ArrayLike, intervals: ArrayLike) -> Array:
        """P(lower <= Y <= upper | x) of intervals (n, 2): (n,). Responses are continuous."""
        bounds = np.asarray(intervals, dtype=np.float64)
        return np.maximum(self.cdf(X, bounds[:, 1]) - self.cdf(X, bounds[:, 0]), 0.0)

    def quantile(self, X: ArrayLike, levels: ArrayLike) -> Array:
        """Quantiles of y given x: (n, L). Levels alpha/2, 1 - alpha/2 give the ideal interval."""
        law = self.given(np.asarray(X, dtype=np.float64))
        return np.column_stack([law.quantile(float(level)) for level in np.atleast_1d(levels)])


def gaussian(name: str, features: _Features, mean: _Curve, deviation: _Curve) -> Simulation:
    """y = mean(x) + deviation(x) e with e standard normal; deviation may be negative."""

    def law(X: Array) -> _Mixture:
        return _Mixture(np.ones((len(X), 1)), mean(X)[:, None], np.abs(deviation(X))[:, None])

    def draw(rng: np.random.Generator, X: Array) -> Array:
        return mean(X) + deviation(X) * rng.standard_normal(len(X))

    return Simulation(name, features, draw, law)


def uniform_features(low: float, high: float, d: int = 1) -> _Features:
    """X uniform on [low, high]^d."""
    return lambda rng, n: rng.uniform(low, high, size=(n, d))


#: Values of the Poisson part that are distinguished; its mean is at most 1.1.
_COUNTS = np.arange(12)
#: Share and size of the outliers of the third simulation.
_OUTLIERS, _OUTLIER_SIZE = 0.01, 25.0
#: Number of features of Izbicki et al., of which only the first matters.
_D_IZBICKI = 20


def _poisson_mean(X: Array) -> Array:
    return np.asarray(np.sin(X[:, 0]) ** 2 + 0.1)


def _third_parts(X: Array, printed: bool = False) -> _Mixture:
    """Poisson counts plus normal noise, with a share of rows that are outliers."""
    plain = 0.08 * X[:, 0] + printed
    outlier_mean, outlier = (
        (_OUTLIER_SIZE, plain) if printed else (0.0, np.hypot(plain, _OUTLIER_SIZE))
    )
    mean = _poisson_mean(X)[:, None]
    share = np.exp(_COUNTS * np.log(mean) - mean - gammaln(_COUNTS + 1.0))
    share = share / share.sum(axis=1, keepdims=True)
    centres = np.broadcast_to(_COUNTS.astype(np.float64), share.shape)
    return _Mixture(
        np.hstack([(1.0 - _OUTLIERS) * share, _OUTLIERS * share]),
        np.hstack([centres, centres + outlier_mean]),
        np.hstack([np.broadcast_to(s[:, None], share.shape) for s in (plain, outlier)]),
    )


def _draw_third(rng: np.random.Generator, X: Array) -> Array:
    """Pois(sin^2 x + 0.1) + 0.08 x e + 25 1{U < 0.01} e', as in the authors' code."""
    e, other = rng.standard_normal((2, len(X)))
    outlier = rng.uniform(size=len(X)) < _OUTLIERS
    return rng.poisson(_poisson_mean(X)) + 0.08 * X[:, 0] * e + _OUTLIER_SIZE * outlier * other


def _draw_third_printed(rng: np.random.Generator, X: Array) -> Array:
    """Pois(sin^2 x + 0.1) + 0.08 x e + 25 1{U < 0.01} + e, as printed in the paper."""
    e, outlier = rng.standard_normal(len(X)), rng.uniform(size=len(X)) < _OUTLIERS
    return rng.poisson(_poisson_mean(X)) + (0.08 * X[:, 0] + 1.0) * e + _OUTLIER_SIZE * outlier


def _bimodal_parts(X: Array) -> _Mixture:
    """f(x) +- g(x), each with probability 1/2, and noise of variance 1/4 + |x1|."""
    x = X[:, 0]
    f = (x - 1.0) ** 2 * (x + 1.0)
    g = 2.0 * np.sqrt(np.maximum(x + 0.5, 0.0))
    deviation = np.sqrt(0.25 + np.abs(x))
    means = np.column_stack([f - g, f + g])
    return _Mixture(np.full_like(means, 0.5), means, np.column_stack([deviation, deviation]))


def _draw_bimodal(rng: np.random.Generator, X: Array) -> Array:
    parts, rows = _bimodal_parts(X), np.arange(len(X))
    mode, noise = rng.integers(2, size=len(X)), rng.standard_normal(len(X))
    return np.asarray(parts.means[rows, mode] + parts.deviations[rows, mode] * noise)


def _skewed(X: Array) -> _ShiftedGamma:
    return _ShiftedGamma(5.0 * X[:, 0], 1.0 + 2.0 * np.abs(X[:, 0]))


def _draw_skewed(rng: np.random.Generator, X: Array) -> Array:
    start, shape = _skewed(X)
    return start + rng.gamma(shape, 1.0 / shape)


def _along(name: str, features: _Features, mean: _Curve, deviation: _Curve) -> Simulation:
    """y ~ N(mean(x1), deviation(x1)^2)."""
    return gaussian(name, features, lambda X: mean(X[:, 0]), lambda X: deviation(X[:, 0]))


_line, _cube = uniform_features(0.0, 5.0), uniform_features(-5.0, 5.0, _D_IZBICKI)
_small_cube = uniform_features(-1.5, 1.5, _D_IZBICKI)
#: To add a simulation, add it here.
SIMULATIONS: dict[str, Simulation] = {
    simulation.name: simulation
    for simulation in (
        _along("sim1", _line, lambda x: np.sin(x) ** 2 + 0.1, lambda x: 0.6 * np.sin(2.0 * x)),
        _along("sim2", _line, lambda x: 2.0 * np.sin(x) ** 2 + 0.1, lambda x: 0.15 * x),
        Simulation("sim3", _line, _draw_third, _third_parts),
        _along(
            "sim1_printed", _line, lambda x: np.sin(x) ** 2 + 0.6 * np.sin(2.0 * x), np.ones_like
        ),
        _along("sim2_printed", _line, lambda x: 2.0 * np.sin(x) ** 2, lambda x: 0.15 * x),
        Simulation("sim3_printed", _line, _draw_third_printed, partial(_third_parts, printed=True)),
        _along(
            "covariate_shift",
            uniform_features(-1.0, 1.0),
            mean=lambda x: x,
            deviation=lambda x: np.abs(x) / (1.0 + np.abs(x)),
        ),
        # The experiments of Izbicki et al. use |x1|; another repository of theirs uses 1 + |x1|.
        _along("heteroscedastic", _cube, lambda x: x, np.abs),
        _along("heteroscedastic_plus_one", _cube, lambda x: x, lambda x: 1.0 + np.abs(x)),
        _along("homoscedastic", _cube, lambda x: x, np.ones_like),
        Simulation("bimodal", _small_cube, _draw_bimodal, _bimodal_parts),
        Simulation("asymmetric", _cube, _draw_skewed, _skewed),
    )
}


def load_simulation(name: str) -> Simulation:
    """The simulation of this name."""
    if name not in SIMULATIONS:
        raise unknown_choice("simulation", name, sorted(SIMULATIONS))
    return SIMULATIONS[name]


def shifted_simulation(a: float) -> Simulation:
    """Test rows of ``covariate_shift``: the same law of y given x, and X = -1 + 2 Beta(a, a).

    Training rows come from ``load_simulation("covariate_shift")``, whose X is uniform on
    [-1, 1]: a = 1 is no shift. The paper plots 1 - a as the degree of shift.

    Examples
    --------
    >>> X, _ = shifted_simulation(0.01).sample(1000, random_state=0)
    >>> bool((abs(X) > 0.9).mean() > 0.9)
    True
    """
    if not 0.0 < a <= 1.0:
        raise ValueError(f"got a={a!r}; expected a number in (0, 1], 1 for no shift.")
    return replace(
        SIMULATIONS["covariate_shift"],
        draw_features=lambda rng, n: -1.0 + 2.0 * rng.beta(a, a, size=(n, 1)),
    )
