"""A layer of any network, in which to measure distances.

A row's point must not depend on other rows, but the batch size determines how matrix products are
divided, which changes the last bits. So every batch has the same number of rows, the last one
padded; what remains, for some layers, is rounding that depends on a row's position in its batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from localconformal.models import unwrap
from localconformal.torch.tensors import check_device

#: Hooks, modes and devices belong to the module: one caller at a time.
_one_at_a_time = RLock()


@dataclass(eq=False, repr=False)
class TorchEmbedding(TransformerMixin, BaseEstimator):
    """The output of a network layer for each row: images, sequences or any other array.

    Pass it to a law as ``embedding=TorchEmbedding(module, "layer")``, or use it as a transformer
    whose points are the rows of a regressor of this library; if the point model uses the same
    layer, the network then runs only once per row. It runs in batches, without gradients and in
    evaluation mode, and is left as it was.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        Or a Pipeline or FrozenEstimator around a net. It is neither trained nor copied, not even by
        ``clone``.
    layer : str
        Name of the layer, as in ``module.named_modules()``; "" is the network's own output. If a
        layer returns a tuple, as recurrent ones do, its first entry is used. Everything beyond the
        first dimension is flattened.
    batch_size : int, default=64
        Rows per batch. The last one is padded, so a single row costs as much as a batch; use 1 for
        rows that arrive one at a time.
    device : str or None, default=None
        Where the network runs, such as "cuda"; it is moved there and back. None leaves it in place.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
    >>> images = np.random.default_rng(0).random((10, 1, 8, 8))
    >>> TorchEmbedding(network, "2").fit_transform(images).shape
    (10, 144)
    """

    module: Any
    layer: str
    batch_size: int = 64
    device: str | None = None

    def __sklearn_clone__(self) -> TorchEmbedding:
        # The network stays fitted: cloning a law must not undo it.
        return TorchEmbedding(self.module, self.layer, self.batch_size, self.device)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: Any = None) -> TorchEmbedding:
        """Check the settings; nothing is learned."""
        if self.batch_size < 1:
            raise ValueError(
                f"got batch_size={self.batch_size!r}; expected a positive number of rows."
            )
        check_device(self.device, "float32")
        _, module = _network_of(self.module)
        _layer_of(module, self.layer)
        self.is_fitted_ = True
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The layer's values at each row, flattened: (n, units), in the network's precision."""
        check_is_fitted(self)
        before, module = _network_of(self.module)
        for step in before:
            X = step.transform(X)
        rows = X if isinstance(X, Tensor) else np.asarray(X)
        if len(rows) == 0:
            raise ValueError("got X with 0 rows; expected at least 1.")
        parts = []
        with _at_work(module, self.device):
            for start in range(0, len(rows), self.batch_size):
                members = np.arange(start, min(start + self.batch_size, len(rows)))
                # Padding repeats a row: its values do not matter, but they are valid.
                filled = np.pad(members, (0, self.batch_size - len(members)), mode="edge")
                points = self._run(module, rows, filled)[: len(members)].cpu()
                # NumPy has no bfloat16.
                parts.append((points.float() if points.dtype == torch.bfloat16 else points).numpy())
        return np.concatenate(parts)

    def _run(self, module: nn.Module, rows: Any, members: NDArray[np.intp]) -> Tensor:
        """The layer's values, (batch_size, units), for these rows."""
        found: list[Any] = []
        layer = _layer_of(module, self.layer)
        with layer.register_forward_hook(lambda _, __, output: found.append(output)):
            module(_as_input(rows[members], module).to(_first_number(module).device))
        if not found:
            raise ValueError(
                f"layer {self.layer!r} is not used in the network's forward pass; choose another."
            )
        output = found[-1][0] if isinstance(found[-1], tuple) else found[-1]
        if not isinstance(output, Tensor) or len(output) != len(members):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(
                f"got {shape} from layer {self.layer!r} for {len(members)} rows; expected a tensor "
                "with one entry per row: choose another layer."
            )
        return output.reshape(len(members), -1)


def _network_of(model: Any) -> tuple[list[Any], nn.Module]:
    before, network = unwrap(model)
    module = getattr(network, "module_", network)
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"got a {type(network).__name__} as module; expected a torch.nn.Module or a fitted "
            "skorch net."
        )
    return before, module


def _layer_of(module: nn.Module, name: str) -> nn.Module:
    layers = dict(module.named_modules())
    if name not in layers:
        known = ", ".join(map(repr, [*layers][-8:]))
        raise ValueError(
            f"got layer={name!r}; expected a name from module.named_modules(), such as {known}."
        )
    return layers[name]


@contextmanager
def _at_work(module: nn.Module, device: str | None) -> Iterator[None]:
    """The module in evaluation mode, on the device, without gradients; restored afterwards."""
    with _one_at_a_time, torch.no_grad():
        modes = [(part, part.training) for part in module.modules()]
        home = _first_number(module).device
        try:
            module.to(device or home).eval()
            yield
        finally:
            module.to(home)
            for part, training in modes:
                part.training = training


def _first_number(module: nn.Module) -> Tensor:
    """A parameter or buffer with the network's device and precision."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            return tensor
    return torch.empty(0)


def _as_input(rows: Any, module: nn.Module) -> Tensor:
    """Rows in the network's precision; integers stay integers if the network indexes by them."""
    tensor = torch.as_tensor(rows)
    looks_up = any(isinstance(part, (nn.Embedding, nn.EmbeddingBag)) for part in module.modules())
    whole = looks_up and not tensor.is_floating_point()
    return tensor.to(torch.int64 if whole else _first_number(module).dtype)
