"""The module behind the networks, and the loss of their quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class Perceptron(nn.Module):
    """x -> W_k relu(... relu(W_1 x + b_1) ...) + b_k, with dropout behind every relu.

    Everything random comes from the generator: PyTorch's global one is not touched, so that fits
    in several threads neither disturb each other nor the caller.

    Parameters
    ----------
    sizes : sequence of ints
        Features, units of each hidden layer, outputs.
    dropout : float
        Share of hidden units that a training step leaves out.
    generator : torch.Generator
    """

    def __init__(self, sizes: Sequence[int], dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        self.dropout = dropout
        self.generator = generator
        self.layers = nn.ModuleList(linear(*pair, generator) for pair in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """(n, features) -> (n, outputs)."""
        *hidden, last = self.layers
        for layer in hidden:
            x = self._drop(torch.relu(layer(x)))
        return last(x)

    def _drop(self, x: Tensor) -> Tensor:
        if not self.training or self.dropout == 0:
            return x
        kept = torch.empty_like(x).bernoulli_(1.0 - self.dropout, generator=self.generator)
        return x * kept / (1.0 - self.dropout)


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """A layer with orthogonal weights and no offset."""
    # On no device at first: the constructor would draw weights from the global generator.
    layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
    nn.init.orthogonal_(layer.weight, generator=generator)
    nn.init.zeros_(layer.bias)
    return layer


class PinballLoss(nn.Module):
    """Mean over rows and levels t of max(t r, (t - 1) r), r = y - q_t.

    Parameters
    ----------
    levels : sequence of L floats

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
        residual = y - quantiles
        return torch.maximum(self.levels * residual, (self.levels - 1.0) * residual).mean()
