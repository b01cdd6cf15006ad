"""The hidden layers of a fitted network, as a place to measure "near"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator

from localconformal.models import unwrap
from localconformal.quantiles import Array

#: Activations of scikit-learn's networks.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda a: a,
    "logistic": expit,
    "relu": lambda a: np.maximum(a, 0.0),
    "tanh": np.tanh,
}


class HiddenLayer(BaseEstimator):
    """What a layer of a fitted MLPRegressor makes of a row.

    Give it to a law as ``embedding=HiddenLayer(model)``; ``embedding="hidden"`` is the last hidden
    layer of the regressor's own network.

    Parameters
    ----------
    model : fitted MLPRegressor
        Or a Pipeline, FrozenEstimator or TransformedTargetRegressor around one.
    layer : int, default=-1
        Which hidden layer: 0 is the first, -1 the last.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neural_network import MLPRegressor
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> model = MLPRegressor(hidden_layer_sizes=(8, 3), max_iter=2000, random_state=0)
    >>> HiddenLayer(model.fit(X, X[:, 0])).transform(X).shape
    (50, 3)
    """

    def __init__(self, model: Any, layer: int = -1) -> None:
        self.model = model
        self.layer = layer

    def __sklearn_clone__(self) -> HiddenLayer:
        # The network stays fitted: cloning a law must not undo it.
        return HiddenLayer(self.model, self.layer)

    def transform(self, X: Any) -> Array:
        """Activations of the layer: (n, units)."""
        before, network = unwrap(self.model)
        if not hasattr(network, "coefs_"):
            raise ValueError(
                f"a hidden layer of {type(network).__name__} was asked for; a fitted MLPRegressor "
                "was expected."
            )
        depth = len(network.coefs_) - 1
        if not -depth <= self.layer < depth:
            raise ValueError(
                f"layer is {self.layer!r} and the network has {depth} hidden layers; a number "
                f"from {-depth} to {depth - 1} was expected."
            )
        for step in before:
            X = step.transform(X)
        return activations(network, X, self.layer % depth + 1)


def activations(network: Any, X: Any, layers: int) -> Array:
    """Values behind so many layers of a fitted network, each row by itself.

    Not by a matrix product, whose last bits depend on the number of rows.
    """
    values = np.asarray(X, dtype=np.float64)
    last = len(network.coefs_) - 1
    for k in range(layers):
        values = np.einsum("ij,jk->ik", values, network.coefs_[k]) + network.intercepts_[k]
        values = values if k == last else ACTIVATIONS[network.activation](values)
    return values
