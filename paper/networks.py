"""Mean and quantile networks (PyTorch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from localconformal.laws.blend import activations
from localconformal.quantiles import Array
from paper.models import nearest


class Dropout(nn.Module):
    """Leave out a share of the units at random while training, drawn from the generator."""

    def __init__(self, share: float, generator: torch.Generator) -> None:
        super().__init__()
        self.share = share
        self.generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """Of the same shape."""
        if not self.training or self.share == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1.0 - self.share, generator=self.generator)
        return x * kept / (1.0 - self.share)


class Perceptron(nn.Module):
    """x -> W_k relu(... relu(W_1 x + b_1) ...) + b_k, with dropout behind every relu.

    ``sizes`` are features, units of each hidden layer, outputs. Everything random comes from the
    generator: PyTorch's global one is not touched, so that fits in several threads neither
    disturb each other nor the caller.
    """

    def __init__(self, sizes: Sequence[int], dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = Dropout(dropout, generator)
        self.layers = nn.ModuleList(linear(*pair, generator) for pair in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """(n, features) -> (n, outputs)."""
        *hidden, last = self.layers
        for layer in hidden:
            x = self.dropout(torch.relu(layer(x)))
        return last(x)

    def gradients(self, x: Tensor, y: Tensor, criterion: Loss) -> list[Tensor]:
        """Of the criterion at rows x (n, features) and y, in the order of the parameters.

        By hand, because autograd takes longer to note what is done than these small networks take
        to do it. The operations are autograd's own, so that the two agree to rounding: the pinball
        loss divides once where autograd multiplies by a rounded 1 / n.
        """
        *hidden, last = self.layers
        share, draw = 1.0 - self.dropout.share, self.dropout.generator
        inputs, active, kept = [x], [], []
        for layer in hidden:
            a = torch.relu(torch.addmm(layer.bias, inputs[-1], layer.weight.t()))
            active.append(a)
            if share < 1.0:
                kept.append(torch.empty_like(a).bernoulli_(share, generator=draw))
                a = a * kept[-1] / share
            inputs.append(a)
        g = criterion.gradient(torch.addmm(last.bias, inputs[-1], last.weight.t()), y)
        found: list[Tensor] = []
        for i, layer in reversed(list(enumerate(self.layers))):
            found[:0] = [torch.mm(g.t(), inputs[i]), g.sum(0)]
            if i:
                g = torch.mm(g, layer.weight)
                g = g / share * kept[i - 1] if share < 1.0 else g
                g = torch.where(active[i - 1] > 0, g, 0.0)
        return found


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A layer with orthogonal weights and no offset."""
    # On no device at first: the constructor would draw weights from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    nn.init.orthogonal_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class Loss(nn.Module):
    """A mean over n rows and L outputs: forward and ``gradient`` of outputs (n, L) and y."""

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(n, L)"""
        raise NotImplementedError


class SquaredLoss(Loss):
    """Mean of (y - f)^2, y (n, L)."""

    def forward(self, outputs: Tensor, y: Tensor) -> Tensor:
        """A number."""
        return nn.functional.mse_loss(outputs, y)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(n, L)"""
        return (outputs - y) * (2.0 / outputs.numel())


class PinballLoss(Loss):
    """Mean over rows and L levels t of max(t r, (t - 1) r), r = y - q_t.

    Examples
    --------
    >>> PinballLoss([0.1, 0.9])(torch.zeros(1, 2), torch.ones(1, 1)).item()
    0.5
    """

    levels: Tensor

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("levels", torch.tensor(levels, dtype=torch.float32))

    def forward(self, quantiles: Tensor, y: Tensor) -> Tensor:
        """Quantiles (n, L) and responses (n, 1) -> a number."""
        return torch.maximum(*self._sides(quantiles, y)).mean()

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """(n, L); at a residual of zero the mean of both slopes, as autograd has it."""
        above, below = self._sides(outputs, y)
        slopes = torch.where(above > below, self.levels, self.levels - 1.0)
        slopes = torch.where(above == below, (self.levels + (self.levels - 1.0)) / 2.0, slopes)
        return -(slopes / outputs.numel())

    def _sides(self, quantiles: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        residual = y - quantiles
        return self.levels * residual, (self.levels - 1.0) * residual


def batches(rows: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """All rows in slices, in an order drawn anew."""
    return iter(torch.randperm(rows, generator=generator).split(size))


def adam(
    parameters: list[Tensor], lr: float, weight_decay: float
) -> Callable[[list[Tensor]], None]:
    """A function that moves the parameters by one step of Adam, given their gradients.

    `torch.optim.Adam(fused=True)` without what it does around each step.
    """
    first, second = ([torch.zeros_like(one) for one in parameters] for _ in range(2))
    counts = [torch.zeros(()) for _ in parameters]
    rates = {"lr": lr, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": weight_decay}

    def step(gradients: list[Tensor]) -> None:
        torch._foreach_add_(counts, 1)
        torch._fused_adam_(
            parameters, gradients, first, second, [], counts, **rates, amsgrad=False, maximize=False
        )

    return step


def train(
    X: Tensor,
    y: Tensor,
    held_out: int,
    sizes: tuple[int, ...],
    generator: torch.Generator,
    criterion: Loss,
    *,
    dropout: float,
    patience: int,
    batch_size: int,
    max_epochs: int,
    **settings: Any,
) -> tuple[Perceptron, list[float]]:
    """The network of the epoch with the least loss on rows held out, and the loss of each epoch.

    X (n, d) and y (n, 1) are float32; ``sizes`` are features, hidden units, outputs. The generator
    draws the rows held out, the first weights, the batches and the dropout; ``settings`` are
    those of Adam. What a framework does around each step would take longer than the step of a
    network as small as these, so nothing is around it.
    """
    held, rest = torch.randperm(len(y), generator=generator).tensor_split([held_out])
    held_X, held_y, X, y = X[held], y[held], X[rest], y[rest]
    network = Perceptron(sizes, dropout, generator).eval()
    step = adam(list(network.parameters()), **settings)
    losses: list[float] = []
    best: dict[str, Tensor] = {}
    with one_thread(), torch.no_grad():
        while len(losses) < max_epochs:
            for batch in batches(len(y), batch_size, generator):
                step(network.gradients(X[batch], y[batch], criterion))
            losses.append(criterion(network(held_X), held_y).item())
            if losses[-1] <= min(losses):
                kept = len(losses)
                best = {name: value.clone() for name, value in network.state_dict().items()}
            if len(losses) - kept == patience:
                break
    network.load_state_dict(best)
    return network, losses


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch in one thread: tasks share the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Network(RegressorMixin, BaseEstimator):
    """E[y | x] by squared error or, at increasing ``levels``, quantiles by the pinball loss.

    Dense layers with relu, trained by Adam. Quantiles are an output each, sorted within each row,
    so that they never cross; sorting never raises the pinball loss (Chernozhukov,
    Fernandez-Val and Galichon, 2010).

    Training happens in float32 with features of mean 0 and variance 1 and responses of mean 0 and
    mean absolute value 1. Both scalings are then folded into the first and the last layer, so
    that ``coefs_`` and ``intercepts_`` (float64) take and give the user's units, as those of
    scikit-learn's MLPRegressor do; `HiddenLayer` reads them. A row's prediction does not depend
    on the rows beside it, to the last bit. Fits are deterministic on the CPU for a given
    ``random_state``; PyTorch's global random state and thread setting are left as they were.

    ``validation_share`` of the rows are held out: ``patience`` epochs without a lesser loss there
    end the training, and the epoch with the least loss is kept.
    """

    activation = "relu"

    def __init__(
        self,
        levels: Sequence[float] | None = None,
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
        self.hidden_layer_sizes = hidden_layer_sizes
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Network:
        """Train on rows X (n, d) and responses y (n,), or means of several (n, k) at once."""
        checks: dict[str, Any] = {"y_numeric": True, "multi_output": self.levels is None}
        X, y = validate_data(
            self, X, y, dtype=np.float64, ensure_min_samples=2, order="C", **checks
        )
        y = np.asarray(y, dtype=np.float64)
        self.one_response_ = y.ndim == 1
        y = y.reshape(len(y), -1)
        outputs = y.shape[1]
        criterion: Loss = SquaredLoss()
        if self.levels is not None:
            outputs = len(self.levels)
            criterion = PinballLoss([float(level) for level in self.levels])
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        features, responses = feature_units(X), response_units(y)
        self.module_, self.held_losses_ = train(
            torch.from_numpy((X - features[0]) / features[1]).float(),
            torch.from_numpy((y - responses[0]) / responses[1]).float(),
            min(max(1, round(self.validation_share * len(y))), len(y) - 1),
            (X.shape[1], *self.hidden_layer_sizes, outputs),
            torch.Generator().manual_seed(seed),
            criterion,
            dropout=self.dropout,
            patience=self.patience,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
        )
        self.n_epochs_ = len(self.held_losses_)
        self.coefs_, self.intercepts_ = in_user_units(self.module_, features, responses)
        return self

    def predict(self, X: Any, quantiles: Sequence[float] | None = None) -> Array:
        """The mean, as the responses were, or quantiles (n, L) at L of the trained levels.

        Where quantiles were trained and none is asked for, the answer is the median (n,) or,
        without one, the mean of the trained quantiles nearest to it.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        columns = activations(self, X, len(self.coefs_))
        if self.levels is None:
            return columns[:, 0] if self.one_response_ else columns
        columns = np.sort(columns, axis=1)
        if quantiles is None:
            off = np.abs(np.asarray(self.levels) - 0.5).round(9)
            return np.asarray(columns[:, off == off.min()].mean(axis=1))
        return columns[:, [nearest(self.levels, level) for level in quantiles]]


def feature_units(X: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column.

    A constant one has an infinite deviation: the network has not learned what to make of other
    values, and leaves them out.
    """
    varies = np.ptp(X, axis=0) > 0
    return X.mean(axis=0), np.where(varies, X.std(axis=0), np.inf)


def response_units(y: Array) -> tuple[Array, Array]:
    """Mean of each column, and mean distance from it: a few large values would rule a variance."""
    centre = y.mean(axis=0)
    unit = np.abs(y - centre).mean(axis=0)
    return centre, np.where(unit > 0, unit, 1.0)


def in_user_units(
    module: Any, features: tuple[Array, Array], responses: tuple[Array, Array]
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
