"""A layer of any network, as a place to measure "near".

A row's point must not depend on the rows beside it. Two things in a network's arithmetic do
depend on them, in the last bits: the number of rows in a batch, which decides how matrix products
are cut up, and for some layers the place of the row in it, which decides how its numbers lie in
memory. What the other rows contain does not matter. So every batch has the same number of rows,
the last one filled up, and where the place matters (which `fit` finds out) a row's own content
decides its place. Points are then functions of their rows alone, to the last bit, as long as
PyTorch, its threads and the device stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from localconformal.engine.tensors import check_device
from localconformal.laws.once import ask_once
from localconformal.models import take_rows, unwrap

#: Rows that `fit` puts in every place of a batch, to see whether the place matters.
PROBES = 4
#: Hooks, modes and devices belong to the module: one caller at a time.
_one_at_a_time = RLock()


class TorchEmbedding(TransformerMixin, BaseEstimator):
    """What a layer of a network makes of a row: images, sequences or any other array.

    Give it to a law as ``embedding=TorchEmbedding(module, "layer")``, or use it as a transformer
    whose points a regressor of this library takes for its rows. The network is run in batches,
    without gradients and in evaluation mode, and left as it was. A row's point does not depend on
    the rows beside it, to the last bit.

    Inside a regressor the network runs once for each set of rows, also where the point model is a
    Pipeline that begins with an embedding of the same layer.

    Parameters
    ----------
    module : torch.nn.Module or fitted skorch net
        Or a Pipeline or FrozenEstimator around a net. It is neither trained nor copied, also by
        ``clone``.
    layer : str
        Name of the layer, as in ``module.named_modules()``; "" is the network's own output. Where
        a layer gives a tuple, as recurrent ones do, its first entry counts. Everything beyond the
        first dimension is flattened.
    batch_size : int, default=64
        Rows of a batch. The last one is filled up, so that a single row costs as much as a batch;
        1 is for rows that come one at a time.
    device : str or None, default=None
        Where the network runs, such as "cuda"; it is moved there and back. None is where it is.

    Attributes
    ----------
    place_matters_ : bool
        Whether the place of a row in its batch changes the last bits of its point, seen on some
        of the rows given to `fit`. If so a row's content decides its place, and batches are less
        full: some 12 % more of them for 10,000 rows in batches of 32.

    Examples
    --------
    >>> import numpy as np
    >>> from torch import nn
    >>> network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1))
    >>> images = np.random.default_rng(0).random((10, 1, 8, 8))
    >>> TorchEmbedding(network, "2").fit_transform(images).shape
    (10, 144)
    """

    def __init__(
        self, module: Any, layer: str, batch_size: int = 64, device: str | None = None
    ) -> None:
        self.module = module
        self.layer = layer
        self.batch_size = batch_size
        self.device = device

    def __sklearn_clone__(self) -> TorchEmbedding:
        # The network stays fitted: cloning a law must not undo it.
        return TorchEmbedding(self.module, self.layer, self.batch_size, self.device)

    def __sklearn_tags__(self) -> Any:
        """Rows may have any number of dimensions."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def fit(self, X: Any, y: Any = None) -> TorchEmbedding:
        """Find out whether the place of a row in its batch matters; nothing else is learned."""
        if self.batch_size < 1:
            raise ValueError(
                f"batch_size is {self.batch_size!r}; a positive number of rows was expected."
            )
        check_device(self.device, "float32")
        before, module = network_of(self.module)
        layer_of(module, self.layer)
        rows = through(before, take_rows(X, np.arange(min(PROBES, len(X)))))
        with at_work(module, self.device):
            tables = [
                as_numpy(self._run(module, rows, np.full(self.batch_size, i)))
                for i in range(len(rows))
            ]
        self.place_matters_ = any(bool(np.any(table != table[0])) for table in tables)
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """The layer's values at each row, flattened: (n, units), in the network's precision."""
        check_is_fitted(self)
        before, module = network_of(self.module)
        settings = self.layer, self.batch_size, self.device, self.place_matters_
        points: NDArray[Any] = ask_once(
            module, X, lambda: self._points(module, through(before, X)), *settings
        )
        return points

    def _points(self, module: nn.Module, rows: Any) -> NDArray[Any]:
        if len(rows) == 0:
            raise ValueError("X has 0 rows; at least 1 was expected.")
        points: NDArray[Any] | None = None
        with at_work(module, self.device):
            for members, places in batches(self._slots(module, rows), self.batch_size):
                # Free places hold a member too: what they hold does not matter, but it is valid.
                filled = np.full(self.batch_size, members[0])
                filled[places] = members
                answer = as_numpy(self._run(module, rows, filled))
                if points is None:
                    points = np.empty((len(rows), answer.shape[1]), dtype=answer.dtype)
                points[members] = answer[places]
        assert points is not None
        return points

    def _slots(self, module: nn.Module, rows: Any) -> NDArray[np.intp]:
        """Where each row stands when all batches are laid end to end."""
        if not self.place_matters_:
            return np.arange(len(rows))
        own = np.array([content_of(rows[i : i + 1], module) for i in range(len(rows))])
        return slots_at(own % self.batch_size, self.batch_size)

    def _run(self, module: nn.Module, rows: Any, members: NDArray[np.intp]) -> Tensor:
        """The layer's values, (batch_size, units), for these rows."""
        found: list[Any] = []
        layer = layer_of(module, self.layer)
        with layer.register_forward_hook(lambda _, __, output: found.append(output)):
            module(as_input(rows[members], module).to(first_number(module).device))
        if not found:
            raise ValueError(
                f"layer {self.layer!r} took no part in the network's answer; another was expected."
            )
        output = found[-1][0] if isinstance(found[-1], tuple) else found[-1]
        if not isinstance(output, Tensor) or len(output) != len(members):
            shape = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(
                f"layer {self.layer!r} gave {shape} for {len(members)} rows; a tensor with one "
                "entry a row was expected: choose another layer."
            )
        return output.reshape(len(members), -1)


def network_of(model: Any) -> tuple[list[Any], nn.Module]:
    """The transformers before a network, and its module."""
    before, network = unwrap(model)
    module = getattr(network, "module_", network)
    if not isinstance(module, nn.Module):
        raise ValueError(
            f"module is a {type(network).__name__}; a torch.nn.Module or a fitted skorch net was "
            "expected."
        )
    return before, module


def layer_of(module: nn.Module, name: str) -> nn.Module:
    """The layer of this name, or an error that tells some of those there are."""
    layers = dict(module.named_modules())
    if name not in layers:
        known = ", ".join(map(repr, [*layers][-8:]))
        raise ValueError(
            f"layer is {name!r}; a name of module.named_modules() was expected, which ends with "
            f"{known}."
        )
    return layers[name]


def through(before: list[Any], X: Any) -> Any:
    """What the transformers make of X, as an array or a tensor."""
    for step in before:
        X = step.transform(X)
    return X if isinstance(X, Tensor) else np.asarray(X)


@contextmanager
def at_work(module: nn.Module, device: str | None) -> Iterator[None]:
    """The module in evaluation mode, on the device, without gradients; then all as it was."""
    with _one_at_a_time, torch.no_grad():
        modes = [(part, part.training) for part in module.modules()]
        home = first_number(module).device
        try:
            module.to(device or home).eval()
            yield
        finally:
            module.to(home)
            for part, training in modes:
                part.training = training


def first_number(module: nn.Module) -> Tensor:
    """A parameter or buffer that tells the network's device and precision."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            return tensor
    return torch.empty(0)


def as_input(rows: Any, module: nn.Module) -> Tensor:
    """Rows in the network's precision.

    Whole numbers stay whole for a network that looks something up by them.
    """
    tensor = torch.as_tensor(rows)
    looks_up = any(isinstance(part, (nn.Embedding, nn.EmbeddingBag)) for part in module.modules())
    whole = looks_up and not tensor.is_floating_point()
    return tensor.to(torch.int64 if whole else first_number(module).dtype)


def as_numpy(points: Tensor) -> NDArray[Any]:
    """The same numbers; NumPy has no bfloat16."""
    points = points.float() if points.dtype == torch.bfloat16 else points
    return np.asarray(points.cpu().numpy())


def content_of(row: Any, module: nn.Module) -> int:
    """A number that depends on what the network sees of a row, and on nothing else."""
    return crc32(as_input(row, module).cpu().contiguous().view(torch.uint8).numpy().data)


def slots_at(places: NDArray[np.intp], batch_size: int) -> NDArray[np.intp]:
    """A slot of its own for each row, in the first batch where its place is free.

    Examples
    --------
    >>> slots_at(np.array([1, 0, 1, 1]), 2)
    array([1, 0, 3, 5])
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    batch = np.empty(len(places), dtype=np.intp)
    batch[order] = np.arange(len(places)) - np.searchsorted(ordered, ordered)
    return batch * batch_size + places


def batches(
    slots: NDArray[np.intp], batch_size: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows and places of each batch."""
    order = np.argsort(slots)
    ends = np.searchsorted(slots[order], np.arange(0, slots.max() + 1, batch_size)[1:])
    for members in np.split(order, ends):
        yield members, slots[members] % batch_size
