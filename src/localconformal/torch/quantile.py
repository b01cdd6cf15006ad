"""A network of several conditional quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from localconformal.quantiles import Array
from localconformal.torch.base import BaseNetwork
from localconformal.torch.perceptron import PinballLoss

LEVELS = (0.05, 0.5, 0.95)


class QuantileNetwork(BaseNetwork):
    """Quantiles of y given x by one network, an output each, trained by the pinball loss.

    Outputs are sorted within each row, so that quantiles never cross; sorting never raises the
    pinball loss [1]_. Deterministic on the CPU for a given ``random_state``; PyTorch's global
    random state and thread setting are left as they were.

    Parameters
    ----------
    levels : sequence of floats, default=(0.05, 0.5, 0.95)
        Increasing, inside (0, 1): the only ones that `predict` can be asked for.
    hidden_layer_sizes : sequence of ints, default=(64, 64)
        Units of each hidden layer.
    dropout : float, default=0.1
        Share of hidden units that a training step leaves out.
    learning_rate : float, default=0.005
        Of Adam.
    weight_decay : float, default=1e-06
        Half of it times the squared norm of the weights is added to the loss.
    batch_size : int, default=128
        Rows of a training step.
    max_epochs : int, default=100
        Most passes over the training rows.
    patience : int, default=20
        Epochs without a lesser loss on the rows held out that end the training.
    validation_share : float, default=0.05
        Share of the rows that are held out; the epoch with the least loss there is kept.
    random_state : int, RandomState or None, default=None
        Draws the rows held out, the first weights, the batches and the dropout.

    Attributes
    ----------
    coefs_, intercepts_ : lists of arrays
        Of each layer, in the user's units, as in scikit-learn's MLPRegressor.
    net_ : skorch NeuralNet
        As trained, in units of its own; ``net_.history`` has the losses of each epoch.
    n_epochs_ : int
        Epochs that were trained.

    References
    ----------
    .. [1] Chernozhukov, Fernandez-Val and Galichon (2010), "Quantile and probability curves
       without crossing", Econometrica 78.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(400, 1))
    >>> y = X[:, 0] * rng.uniform(size=400)
    >>> model = QuantileNetwork(max_epochs=40, random_state=0).fit(X, y)
    >>> model.predict([[1.0]], quantiles=[0.05, 0.95]).shape
    (1, 2)
    """

    def __init__(
        self,
        levels: Sequence[float] = LEVELS,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        dropout: float = 0.1,
        learning_rate: float = 0.005,
        weight_decay: float = 1e-6,
        batch_size: int = 128,
        max_epochs: int = 100,
        patience: int = 20,
        validation_share: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.levels = levels
        super().__init__(
            hidden_layer_sizes,
            dropout,
            learning_rate,
            weight_decay,
            batch_size,
            max_epochs,
            patience,
            validation_share,
            random_state,
        )

    def fit(self, X: Any, y: Any) -> QuantileNetwork:
        """Train on rows X (n, d) and responses y (n,)."""
        self.levels_ = check_levels(self.levels)
        self._fit(
            X, y, len(self.levels_), criterion=PinballLoss, criterion__levels=self.levels_.tolist()
        )
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """Quantiles (n, L) at L of the trained levels.

        None is the median, (n,); without one, the mean of the trained quantiles nearest to it.
        """
        columns = np.sort(self._outputs(X), axis=1)
        if quantiles is None:
            off = np.abs(self.levels_ - 0.5).round(9)
            return np.asarray(columns[:, off == off.min()].mean(axis=1))
        return columns[:, [position(self.levels_, level) for level in quantiles]]


def check_levels(levels: Any) -> Array:
    """Levels (L,) as an array, or refused."""
    found = np.asarray(levels, dtype=np.float64)
    inside = found.ndim == 1 and len(found) > 0 and np.all((found > 0) & (found < 1))
    if not inside or np.any(np.diff(found) <= 0):
        raise ValueError(f"levels are {levels!r}; increasing numbers inside (0, 1) were expected.")
    return found


def position(levels: Array, level: float) -> int:
    """Position of the level; 1 - 0.95 is 0.05 in other last digits."""
    nearest = int(np.argmin(np.abs(levels - level)))
    if not abs(levels[nearest] - level) <= 1e-9:
        raise ValueError(
            f"quantile {level} was asked for; one of {levels.tolist()} was expected: add it to "
            "levels and fit again."
        )
    return nearest
