"""A network of the conditional mean."""

from __future__ import annotations

from typing import Any

import torch

from localconformal.quantiles import Array
from localconformal.torch.base import BaseNetwork


class MeanNetwork(BaseNetwork):
    """E[y | x] by a network that is trained by squared error.

    Deterministic on the CPU for a given ``random_state``; PyTorch's global random state and
    thread setting are left as they were.

    Parameters
    ----------
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

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400)[:, None]
    >>> model = MeanNetwork(max_epochs=40, random_state=0).fit(X, np.abs(X[:, 0]))
    >>> bool(np.abs(model.predict(X) - np.abs(X[:, 0])).mean() < 0.1)
    True
    """

    def fit(self, X: Any, y: Any) -> MeanNetwork:
        """Train on rows X (n, d) and responses y (n,)."""
        self._fit(X, y, outputs=1, criterion=torch.nn.MSELoss)
        return self

    def predict(self, X: Any) -> Array:
        """(n,) in units of y."""
        return self._outputs(X)[:, 0]
