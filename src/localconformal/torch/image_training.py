"""Train an image network so that a run that was killed ends where an undisturbed one does.

Whatever is random in a step is drawn from a generator seeded by the plan's seed and the number of
the step, and the order of the rows from the number of the epoch. So a checkpoint needs weights,
the optimiser and the number of steps, and no state of any generator. It is written after every
epoch and every two minutes or so within one. Bits are the same for the same number of threads.
"""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from localconformal.torch.checkpoint import read_checkpoint, write_checkpoint
from localconformal.torch.plan import TrainingPlan
from localconformal.torch.resnet import ImageNetwork, read_images
from localconformal.torch.time_left import time_left

#: Seconds between two checkpoints within an epoch.
SAVE_EVERY = 120.0
#: Share of the steps in which the learning rate rises, and where it begins.
RISING, FIRST_RATE = 0.25, 0.04
ORDER, STEP = 0, 1

History = list[dict[str, Any]]


def train_images(
    network: ImageNetwork,
    images: Tensor,
    y: Tensor,
    held: Tensor,
    plan: TrainingPlan,
    checkpoint: Path,
    save_every: float = SAVE_EVERY,
) -> History:
    """Least squares; the network ends as it was after the epoch with the least error on held rows.

    Parameters
    ----------
    network : ImageNetwork
        Its first weights count only where there is no checkpoint.
    images : bytes of shape (n, rows, columns, 3)
    y : float32 of shape (n,)
    held : bool of shape (n,)
        Rows that only judge the epochs; all others are trained on.
    plan : TrainingPlan
    checkpoint : Path
        The training goes on from this file if it is there, and replaces it on its way.
    save_every : float, default=120.0
        Seconds between two checkpoints within an epoch.

    Returns
    -------
    list of dicts
        For each epoch: its number, the mean loss in units of the variance of y, and on held rows
        the root mean squared and the mean absolute error, in units of y; seconds since the start.

    Examples
    --------
    >>> import tempfile
    >>> network = ImageNetwork(torch.Generator().manual_seed(0), (1,), 2, (4, 2))
    >>> images = torch.randint(256, (60, 8, 8, 3), dtype=torch.uint8)
    >>> y, held = torch.arange(60.0), torch.arange(60) < 12
    >>> path = Path(tempfile.mkdtemp()) / "state.pt"
    >>> history = train_images(network, images, y, held, TrainingPlan(epochs=2), path)
    >>> [row["epoch"] for row in history]
    [1, 2]
    """
    training = Training(network, images, y, held, plan)
    state = read_checkpoint(checkpoint, training.about)
    if state is not None:
        training.load(state)
    saved = time.monotonic()
    with time_left(training.total, training.step) as tell:
        while training.step < training.total:
            training.advance()
            ended = training.step % training.per_epoch == 0
            if ended:
                training.judge()
            if ended or time.monotonic() - saved >= save_every:
                write_checkpoint(checkpoint, training.about, training.state())
                saved = time.monotonic()
            tell(training.step, training.words())
    network.load_state_dict(training.best)
    network.eval()
    return training.history


class Training:
    """A training at some step: the network, the optimiser, the best epoch so far.

    Parameters
    ----------
    network, images, y, held, plan
        As in `train_images`.
    """

    def __init__(
        self, network: ImageNetwork, images: Tensor, y: Tensor, held: Tensor, plan: TrainingPlan
    ) -> None:
        self.network, self.images, self.y, self.plan = network, images, y, plan
        self.rest, self.held = torch.nonzero(~held)[:, 0], torch.nonzero(held)[:, 0]
        self.about = {
            **asdict(plan),
            "weights": sum(weight.numel() for weight in network.parameters()),
            "rows": len(y),
            "y": zlib.crc32(y.numpy().tobytes()),
            "held": zlib.crc32(held.numpy().tobytes()),
        }
        network.set_units(images[self.rest].permute(0, 3, 1, 2), y[self.rest])
        self.per_epoch = max(1, len(self.rest) // plan.batch_size)
        self.total = plan.epochs * self.per_epoch
        self.optimiser = torch.optim.AdamW(
            network.parameters(), lr=plan.learning_rate, weight_decay=plan.weight_decay
        )
        self.step, self.loss, self.best = 0, 0.0, weights_of(network)
        self.history: History = []
        self.seconds_before, self.begin = 0.0, time.monotonic()

    def advance(self) -> None:
        """One step."""
        rows = self.rows_of_step()
        generator = self.network.generator.manual_seed(seed(self.plan.seed, STEP, self.step))
        pixels = augment(self.images[rows], self.plan.shift, generator)
        self.network.train()
        error = self.network(pixels) - self.y[rows]
        loss = torch.mean((error / self.network.unit) ** 2)
        self.optimiser.zero_grad()
        torch.autograd.backward(loss)
        for group in self.optimiser.param_groups:
            group["lr"] = self.plan.learning_rate * one_cycle(self.step / self.total)
        self.optimiser.step()
        self.step += 1
        self.loss += loss.item()
        if not math.isfinite(self.loss):
            raise ValueError(
                f"the loss is {loss.item()} at step {self.step}; a finite one was expected: "
                f"choose a learning_rate below {self.plan.learning_rate}."
            )

    def rows_of_step(self) -> Tensor:
        """Rows of the step that comes."""
        epoch, place = divmod(self.step, self.per_epoch)
        generator = torch.Generator().manual_seed(seed(self.plan.seed, ORDER, epoch))
        order = torch.randperm(len(self.rest), generator=generator)
        return self.rest[order.tensor_split(self.per_epoch)[place]]

    def judge(self) -> None:
        """Measure the epoch on held rows, and keep its weights if there was none better."""
        error = read_images(self.network, self.images[self.held]).mean - self.y[self.held]
        found = {
            "epoch": self.step // self.per_epoch,
            "loss": self.loss / self.per_epoch,
            "held_rmse": math.sqrt(torch.mean(error**2).item()),
            "held_mae": torch.mean(error.abs()).item(),
            "seconds": self.seconds(),
        }
        if all(found["held_rmse"] < row["held_rmse"] for row in self.history):
            self.best = weights_of(self.network)
        self.history.append(found)
        self.loss = 0.0

    def seconds(self) -> float:
        """Since the start of the training, without the time between two runs."""
        return self.seconds_before + time.monotonic() - self.begin

    def state(self) -> dict[str, Any]:
        """What a later run needs; of a finished training the best weights are enough."""
        known = {"step": self.step, "history": self.history, "best": self.best}
        if self.step == self.total:
            return known
        return {
            **known,
            "loss": self.loss,
            "seconds": self.seconds(),
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self.step, self.history, self.best = state["step"], state["history"], state["best"]
        if self.step < self.total:
            self.loss, self.seconds_before = state["loss"], state["seconds"]
            self.network.load_state_dict(state["network"])
            self.optimiser.load_state_dict(state["optimiser"])

    def words(self) -> str:
        """Where the training is, and how good it was after the last epoch."""
        epoch = min(self.step // self.per_epoch + 1, self.plan.epochs)
        error = f", error {self.history[-1]['held_mae']:.2f}" if self.history else ""
        return f"epoch {epoch}/{self.plan.epochs}{error}"


def weights_of(network: ImageNetwork) -> dict[str, Tensor]:
    """A copy of all weights: those of the network go on changing."""
    return {name: values.clone() for name, values in network.state_dict().items()}


def seed(*numbers: int) -> int:
    """A seed that these numbers always have, unlike that of their neighbours."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def one_cycle(done: float) -> float:
    """The learning rate after this share of the steps, as a share of its top: cosines up and down.

    Examples
    --------
    >>> [round(one_cycle(done), 3) for done in (0.0, 0.125, 0.25, 0.625, 1.0)]
    [0.04, 0.52, 1.0, 0.5, 0.0]
    """
    if done < RISING:
        return FIRST_RATE + (1.0 - FIRST_RATE) * (1.0 - math.cos(math.pi * done / RISING)) / 2.0
    return (1.0 + math.cos(math.pi * (done - RISING) / (1.0 - RISING))) / 2.0


def augment(images: Tensor, shift: int, generator: torch.Generator) -> Tensor:
    """Each image moved by up to ``shift`` pixels and mirrored or not, with its edge repeated.

    Bytes (n, rows, columns, 3) -> a view (n, 3, rows, columns) of bytes that lie channels last.
    """
    n, height, width, _ = images.shape

    def moved(size: int) -> Tensor:
        by = torch.randint(-shift, shift + 1, (n, 1), generator=generator)
        return (torch.arange(size) + by).clamp(0, size - 1)

    rows, columns = moved(height), moved(width)
    mirrored = torch.rand(n, 1, generator=generator) < 0.5
    columns = torch.where(mirrored, columns.flip(1), columns)
    each = torch.arange(n)[:, None, None]
    return images[each, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
