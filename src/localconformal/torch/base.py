"""What networks of the mean and of quantiles share: parameters, units, training, outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from localconformal.laws.layers import activations
from localconformal.quantiles import Array
from localconformal.torch.training import train

#: parameter -> (test of its value, what was expected)
CONSTRAINTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden_layer_sizes": (
        lambda value: np.ndim(value) == 1 and all(size >= 1 for size in value),
        "a sequence of positive numbers of units",
    ),
    "dropout": (lambda value: 0 <= value < 1, "a number in [0, 1)"),
    "learning_rate": (lambda value: value > 0, "a positive number"),
    "weight_decay": (lambda value: value >= 0, "a number that is not negative"),
    "batch_size": (lambda value: value >= 1, "a positive number of rows"),
    "max_epochs": (lambda value: value >= 1, "a positive number of epochs"),
    "patience": (lambda value: value >= 1, "a positive number of epochs"),
    "validation_share": (lambda value: 0 < value < 1, "a number in (0, 1)"),
}


class BaseNetwork(RegressorMixin, BaseEstimator):
    """Dense layers with relu, by Adam, with features and responses in units of their own.

    Training happens in float32 with features of mean 0 and variance 1 and responses of mean 0 and
    mean absolute value 1. Both scalings are then folded into the first and the last layer, so
    that ``coefs_`` and ``intercepts_`` (float64) take and give the user's units, as those of
    scikit-learn's MLPRegressor do; `HiddenLayer` reads them. A row's prediction does not depend
    on the rows beside it, to the last bit.
    """

    activation = "relu"

    def __init__(
        self,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.random_state = random_state

    def _fit(self, X: Any, y: Any, outputs: int, **criterion: Any) -> None:
        """Train a network of so many outputs with this criterion of skorch's."""
        self._check_parameters()
        X, y = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2, order="C"
        )
        y = np.asarray(y, dtype=np.float64)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        features, responses = feature_units(X), response_units(y)
        self.net_ = train(
            as_tensor((X - features[0]) / features[1]),
            as_tensor((y[:, None] - responses[0]) / responses[1]),
            min(max(1, round(self.validation_share * len(y))), len(y) - 1),
            (X.shape[1], *self.hidden_layer_sizes, outputs),
            torch.Generator().manual_seed(seed),
            dropout=self.dropout,
            patience=self.patience,
            lr=self.learning_rate,
            optimizer__weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            **criterion,
        )
        self.n_epochs_ = len(self.net_.history)
        self.coefs_, self.intercepts_ = in_user_units(self.net_.module_, features, responses)

    def _check_parameters(self) -> None:
        for name, (holds, expected) in CONSTRAINTS.items():
            if not holds(value := getattr(self, name)):
                raise ValueError(f"{name} is {value!r}; {expected} was expected.")

    def _outputs(self, X: Any) -> Array:
        """(n, outputs) in units of y."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return activations(self, X, len(self.coefs_))


def as_tensor(values: Array) -> torch.Tensor:
    """The same numbers in float32."""
    return torch.from_numpy(values.astype(np.float32))


def feature_units(X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column.

    A constant one has an infinite deviation: the network has not learned what to make of other
    values, and leaves them out.
    """
    varies = np.ptp(X, axis=0) > 0
    return X.mean(axis=0), np.where(varies, X.std(axis=0), np.inf)


def response_units(y: Array) -> tuple[float, float]:
    """Mean, and mean distance from it; the standard deviation would follow a few large values."""
    centre = float(y.mean())
    return centre, float(np.abs(y - centre).mean()) or 1.0


def in_user_units(
    module: Any, features: tuple[Array, Array], responses: tuple[float, float]
) -> tuple[list[Array], list[Array]]:
    """Matrices (inputs, outputs) and offsets of the layers, with both scalings folded in."""
    with torch.no_grad():
        arrays = [
            (layer.weight.numpy().T.astype(np.float64), layer.bias.numpy().astype(np.float64))
            for layer in module.layers
        ]
    coefs, intercepts = map(list, zip(*arrays, strict=True))
    coefs[0] = coefs[0] / features[1][:, None]
    intercepts[0] = intercepts[0] - features[0] @ coefs[0]
    coefs[-1] = coefs[-1] * responses[1]
    intercepts[-1] = intercepts[-1] * responses[1] + responses[0]
    return coefs, intercepts
