"""Networks of any hidden size, in NumPy: two layers of ReLU, Adam, and the best epoch kept.

The paper's network is d-64-64-out with dropout 0.1. Here the hidden size varies, down to one
unit, where a framework's overhead would be most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from benchmarks.harness import Preset
from localconformal.quantiles import Array
from paper.models import Family, Unfitted, nearest

LEVELS = (0.05, 0.5, 0.95)
BATCH, DROPOUT, HELD_OUT = 64, 0.1, 0.1
#: Ten times the paper's, which trains ten times as many epochs.
STEP = 5e-3
DECAY, FIRST, SECOND, TINY = 1e-6, 0.9, 0.999, 1e-8


class Network(RegressorMixin, BaseEstimator):
    """f(x) = W3 relu(W2 relu(W1 x + b1) + b2) + b3, for the mean or for quantiles.

    Parameters
    ----------
    hidden : int, default=64
        Units of each of the two hidden layers.
    levels : tuple of floats or None, default=None
        Quantile levels, one output each, by the pinball loss; None is the mean, by squared error.
    epochs : int, default=100
        The weights of the epoch with the least loss on a tenth of the rows are kept.
    random_state : int, default=0

    Examples
    --------
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> error = Network(16, epochs=60).fit(X, np.abs(X[:, 0])).predict(X) - np.abs(X[:, 0])
    >>> bool(np.abs(error).mean() < 0.1)
    True
    """

    def __init__(
        self,
        hidden: int = 64,
        levels: Sequence[float] | None = None,
        epochs: int = 100,
        random_state: int = 0,
    ) -> None:
        self.hidden = hidden
        self.levels = levels
        self.epochs = epochs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Network:
        """Train on nine tenths of the rows."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        rng = np.random.default_rng(self.random_state)
        order = rng.permutation(len(y))
        held, rest = np.split(order, [max(1, round(HELD_OUT * len(y)))])
        outputs = 1 if self.levels is None else len(self.levels)
        weights = first_weights((X.shape[1], self.hidden, self.hidden, outputs), rng)
        loss, least, self.weights_ = self._loss(), np.inf, weights
        adam = Adam(weights)
        for _ in range(self.epochs):
            for rows in np.array_split(rng.permutation(rest), max(1, len(rest) // BATCH)):
                weights = adam.step(gradients(weights, X[rows], y[rows], loss, rng))
            value, _ = loss(forward(weights, X[held])[-1], y[held])
            if value < least:
                least, self.weights_ = value, [w.copy() for w in weights]
        return self

    def _loss(self) -> Loss:
        if self.levels is None:
            return squared
        levels = np.asarray(self.levels)
        return lambda output, y: pinball(output, y, levels)

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """(n,) for the mean, (n, L) in rising order for quantiles."""
        output = forward(self.weights_, np.asarray(X, dtype=np.float64))[-1]
        if self.levels is None:
            return output[:, 0]
        asked = self.levels if quantiles is None else quantiles
        return np.sort(output, axis=1)[:, [nearest(self.levels, level) for level in asked]]


#: (output (n, L), y (n,)) -> mean loss and its gradient (n, L)
Loss = Callable[[Array, Array], tuple[float, Array]]


def squared(output: Array, y: Array) -> tuple[float, Array]:
    """Mean squared error."""
    error = output - y[:, None]
    return float(np.mean(error**2)), 2.0 * error / len(y)


def pinball(output: Array, y: Array, levels: Array) -> tuple[float, Array]:
    """Mean pinball loss, summed over levels."""
    error = y[:, None] - output
    slope = np.where(error < 0, levels - 1.0, levels)
    return float(np.sum(slope * error) / len(y)), -slope / len(y)


def first_weights(sizes: tuple[int, ...], rng: np.random.Generator) -> list[Array]:
    """Orthogonal matrices and zero offsets, in turn."""
    weights = []
    for rows, columns in pairwise(sizes):
        square, _ = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
        weights += [np.array(square if rows >= columns else square.T), np.zeros(columns)]
    return weights


def forward(weights: list[Array], X: Array, masks: Sequence[Array] | None = None) -> list[Array]:
    """X, what the hidden layers give (times the masks of dropout), and the output."""
    layers = [X]
    for depth in range(2):
        layer = np.maximum(layers[-1] @ weights[2 * depth] + weights[2 * depth + 1], 0.0)
        layers.append(layer if masks is None else layer * masks[depth])
    return [*layers, layers[-1] @ weights[4] + weights[5]]


def gradients(
    weights: list[Array], X: Array, y: Array, loss: Loss, rng: np.random.Generator
) -> list[Array]:
    """Of the mean loss at these rows, with dropout and weight decay."""
    shape = (len(y), weights[0].shape[1])
    masks = [(rng.random(shape) >= DROPOUT) / (1.0 - DROPOUT) for _ in range(2)]
    layers = forward(weights, X, masks)
    _, slope = loss(layers[-1], y)
    found: list[Array] = []
    for depth in (2, 1, 0):
        found = [layers[depth].T @ slope + DECAY * weights[2 * depth], slope.sum(axis=0), *found]
        if depth:
            # A unit that is off, or dropped, passes nothing back.
            slope = (slope @ weights[2 * depth].T) * (layers[depth] > 0) * masks[depth - 1]
    return found


class Adam:
    """Adam's steps, which change the weights in place."""

    def __init__(self, weights: list[Array]) -> None:
        self.weights = weights
        self.first = [np.zeros_like(w) for w in weights]
        self.second = [np.zeros_like(w) for w in weights]
        self.count = 0

    def step(self, slopes: list[Array]) -> list[Array]:
        """One step against the gradients."""
        self.count += 1
        for w, m, s, slope in zip(self.weights, self.first, self.second, slopes, strict=True):
            m += (1.0 - FIRST) * (slope - m)
            s += (1.0 - SECOND) * (slope**2 - s)
            corrected = np.sqrt(s / (1.0 - SECOND**self.count)) + TINY
            w -= STEP / (1.0 - FIRST**self.count) * m / corrected
        return self.weights


def network_family(hidden: int) -> Family:
    """Mean and quantile networks of this hidden size."""

    def choose(X: Array, y: Array, seed: int, preset: Preset) -> Unfitted:
        mean = Network(hidden, None, preset.epochs, seed)
        return Unfitted(mean, Network(hidden, LEVELS, preset.epochs, seed), mean)

    return Family(f"network of {hidden}", choose)
