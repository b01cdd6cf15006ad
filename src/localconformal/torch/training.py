"""Train a small network with skorch: quickly, in one thread, and the same way every time.

A network of some thousand weights spends its time in overhead, so batches are slices of tensors
that lie in memory (a DataLoader collates row by row), Adam is one fused kernel, and PyTorch works
in one thread: for products this small another one costs more than it brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import torch
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping
from skorch.dataset import Dataset
from skorch.helper import predefined_split
from torch import Tensor

from localconformal.torch.perceptron import Perceptron


class Batches:
    """The rows of a data set in slices, in an order drawn anew each time.

    Parameters
    ----------
    dataset : skorch Dataset of tensors
    batch_size : int
    generator : torch.Generator or None, default=None
        None leaves the rows in their order.
    """

    def __init__(
        self, dataset: Any, batch_size: int, generator: torch.Generator | None = None
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.generator = generator

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        X, y = self.dataset.X, self.dataset.y
        # At prediction there are no responses, and skorch expects something in their place.
        y = torch.zeros(len(X)) if y is None else y
        if self.generator is not None:
            order = torch.randperm(len(y), generator=self.generator)
            X, y = X[order], y[order]
        return zip(X.split(self.batch_size), y.split(self.batch_size), strict=True)


def train(
    X: Tensor,
    y: Tensor,
    held_out: int,
    sizes: tuple[int, ...],
    generator: torch.Generator,
    *,
    dropout: float,
    patience: int,
    **settings: Any,
) -> NeuralNet:
    """The network of the epoch with the least loss on rows held out.

    Parameters
    ----------
    X : (n, d) float32
    y : (n, 1) float32
    held_out : int
        So many rows, drawn at random, stop the training and take no other part in it.
    sizes : tuple of ints
        Features, hidden units, outputs.
    generator : torch.Generator
        Draws the rows held out, the first weights, the batches and the dropout.
    dropout : float
    patience : int
        Epochs without a lesser loss that end the training.
    **settings
        Other parameters of skorch's NeuralNet.

    Returns
    -------
    skorch NeuralNet
    """
    held, rest = torch.randperm(len(y), generator=generator).tensor_split([held_out])
    stopping = EarlyStopping(patience=patience, threshold=0.0, load_best=True)
    net = NeuralNet(
        Perceptron,
        module__sizes=sizes,
        module__dropout=dropout,
        module__generator=generator,
        optimizer=torch.optim.Adam,
        optimizer__fused=True,
        iterator_train=Batches,
        iterator_train__generator=generator,
        iterator_valid=Batches,
        iterator_valid__batch_size=held_out,
        train_split=predefined_split(Dataset(X[held], y[held])),
        callbacks=[("stopping", stopping)],
        callbacks__print_log=None,
        verbose=0,
        **settings,
    )
    with one_thread():
        net.fit(X[rest], y[rest])
    # skorch takes an interrupt by the user for the end of the training.
    if len(net.history) < net.max_epochs and dict(net.callbacks_)["stopping"].misses_ < patience:
        raise KeyboardInterrupt
    # The rows have done their work; they need not travel with the model.
    return net.set_params(train_split=None)


_counting = Lock()
_inside, _threads_before = 0, 1


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch in one thread; the last of several callers to leave restores what the first found.

    Two that overlap, each restoring what it found, would leave the limit of the other behind.
    """
    global _inside, _threads_before
    with _counting:
        if _inside == 0:
            _threads_before = torch.get_num_threads()
        _inside += 1
        torch.set_num_threads(1)
    try:
        yield
    finally:
        with _counting:
            _inside -= 1
            # Each thread has a setting of its own beside the common one, and restores both.
            torch.set_num_threads(_threads_before)
