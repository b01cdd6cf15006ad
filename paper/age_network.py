"""ResNet-34 and its resumable training."""

from __future__ import annotations

import math
import pickle
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from localconformal.io.files import write_whole
from paper.age import FACES, Setting, TrainingPlan
from paper.networks import Dropout


def read_checkpoint(path: Path, about: dict[str, Any]) -> dict[str, Any] | None:
    """The state of a training about this in the file; None where there is no file."""
    if not path.exists():
        return None
    try:
        found: dict[str, Any] = torch.load(path, weights_only=True)
        belongs = found["about"] == about
    except (OSError, RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        raise ValueError(
            f"{path} could not be read as a checkpoint ({type(error).__name__}); remove it to "
            "train from the start."
        ) from error
    if not belongs:
        raise ValueError(
            f"{path} is the checkpoint of a training on other rows or with other settings; "
            "choose another place, or remove it to train from the start."
        )
    return found


class Reading(NamedTuple):
    """What the network makes of n images: hidden (n, 512), embedding (n, 16), output.

    The output is the mean (n,) or, of a network with L levels, increasing quantiles (n, L).
    """

    hidden: Tensor
    embedding: Tensor
    output: Tensor


class ImageNetwork(nn.Module):
    """E[y | image], or quantiles, by a residual network, in units of y, from pixels 0 to 255.

    Everything random, the first weights and dropout, comes from the generator: PyTorch's global
    one is not touched. Layers are stored channels last, which oneDNN reads faster on a CPU.
    """

    pixel_mean: Tensor
    pixel_spread: Tensor
    centre: Tensor
    unit: Tensor

    def __init__(self, generator: torch.Generator, setting: Setting = FACES) -> None:
        super().__init__()
        self.generator, self.levels = generator, setting.levels
        # On no device at first: constructors would draw weights from the global generator.
        with torch.device("meta"):
            self.trunk = trunk(setting.blocks, setting.width)
            channels = 2 * setting.width * 2 ** (len(setting.blocks) - 1)
            units, coordinates = setting.head
            self.hidden = nn.Sequential(
                nn.BatchNorm1d(channels),
                Dropout(setting.dropout, generator),
                nn.Linear(channels, units),
                nn.ReLU(),
                nn.BatchNorm1d(units),
            )
            self.dropout = Dropout(setting.dropout, generator)
            self.embedding = nn.Linear(units, coordinates)
            self.readout = nn.Linear(coordinates, len(setting.levels or [0]))
        self.to_empty(device="cpu")
        self.register_buffer("pixel_mean", torch.full((1, 3, 1, 1), 127.5))
        self.register_buffer("pixel_spread", torch.full((1, 3, 1, 1), 127.5))
        self.register_buffer("centre", torch.tensor(0.0))
        self.register_buffer("unit", torch.tensor(1.0))
        draw_weights(self, generator)
        # The first prediction is the mean of y: large errors at the start switch units of the
        # embedding off behind the last ReLU, and they do not come back.
        nn.init.zeros_(self.readout.weight)
        for weight in self.parameters():
            if weight.dim() == 4:
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)

    def set_units(self, images: Tensor, y: Tensor) -> None:
        """Take mean and spread of the pixels of each channel, and of y, from training rows.

        images (n, 3, rows, columns) of any type, y (n,).
        """
        for channel in range(3):
            pixels = images[:, channel].to(torch.float32)
            self.pixel_mean[0, channel] = pixels.mean()
            self.pixel_spread[0, channel] = pixels.std().clamp(min=1.0)
        self.centre.copy_(y.mean())
        self.unit.copy_(y.std().clamp(min=1e-6))

    def read(self, images: Tensor) -> Reading:
        """Images (n, 3, rows, columns) with pixels 0 to 255, as bytes or floats."""
        x = (images.to(torch.float32) - self.pixel_mean) / self.pixel_spread
        x = self.trunk(x)
        # Mean and maximum of each channel.
        hidden = self.hidden(torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1))
        embedding = self.embedding(self.dropout(hidden))
        found = self.centre + self.unit * self.readout(torch.relu(embedding))
        # Sorted quantiles never cross, and their pinball loss is never greater.
        output = found.sort(dim=1).values if self.levels else found[:, 0]
        return Reading(hidden, embedding, output)

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, 3, rows, columns) -> (n,) or (n, L) in units of y."""
        return self.read(images).output

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Mean squared error, or mean pinball loss of the levels; y in units of its spread."""
        error = (y[:, None] - output.reshape(len(y), -1)) / self.unit
        if self.levels is None:
            return torch.mean(error**2)
        levels = torch.tensor(self.levels)
        return torch.mean(torch.maximum(levels * error, (levels - 1.0) * error))

    def centres(self, output: Tensor) -> Tensor:
        """The mean, or the middle one of the quantiles: (n,)."""
        return output if self.levels is None else output[:, len(self.levels) // 2]


class ResidualBlock(nn.Module):
    """relu(s(x) + BN(conv(relu(BN(conv(x)))))), s(x) = x or, where shapes differ, BN(conv(x)).

    From so many channels to so many; a stride of 2 halves the sides of the image.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(inputs, outputs, 3, stride)
        self.second = convolution(outputs, outputs, 3, 1)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs, rows, columns) -> (n, outputs, rows / stride, columns / stride)."""
        return torch.relu(self.shortcut(x) + self.second(torch.relu(self.first(x))))


def convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Sequential:
    """A convolution without offset, and the normalisation that makes up for it."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
    )


def trunk(blocks: Sequence[int], width: int) -> nn.Sequential:
    """The standard stem (7 x 7, then a pool, each halving the sides) and the stages."""
    pool = nn.MaxPool2d(3, stride=2, padding=1)
    layers: list[nn.Module] = [convolution(3, width, 7, 2), nn.ReLU(), pool]
    inputs = width
    for stage, count in enumerate(blocks):
        outputs = width * 2**stage
        for place in range(count):
            stride = 2 if stage > 0 and place == 0 else 1
            layers.append(ResidualBlock(inputs, outputs, stride))
            inputs = outputs
    return nn.Sequential(*layers)


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """He's normal weights and no offsets; each residual block begins as its shortcut."""
    for module in network.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.reset_parameters()
    for name, weight in network.named_parameters():
        if name.endswith("second.1.weight"):
            nn.init.zeros_(weight)


def read_images(network: ImageNetwork, images: Tensor, batch_size: int = 256) -> Reading:
    """What the trained network makes of bytes (n, rows, columns, 3), in batches, no gradient."""
    network.eval()
    with torch.no_grad():
        parts = [network.read(part.permute(0, 3, 1, 2)) for part in torch.split(images, batch_size)]
    return Reading(*(torch.cat(columns) for columns in zip(*parts, strict=True)))


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
    """The network ends as it was after the epoch with the least loss on held rows.

    ``images`` are bytes (n, rows, columns, 3), ``y`` float32 (n,); rows that are ``held`` only
    judge the epochs. The training goes on from the checkpoint if it is there, and replaces it at
    the end of each epoch and after every ``save_every`` seconds. What is returned has for each
    epoch its number, the mean loss, on held rows the loss and the mean absolute error in units of
    y, and seconds since the start.
    """
    training = Training(network, images, y, held, plan)
    state = read_checkpoint(checkpoint, training.about)
    if state is not None:
        training.load(state)
    saved = time.monotonic()
    while training.step < training.total:
        training.advance()
        ended = training.step % training.per_epoch == 0
        if ended:
            training.judge()
            training.say()
        if ended or time.monotonic() - saved >= save_every:
            write_whole(checkpoint, lambda part: torch.save(training.state(), part))
            saved = time.monotonic()
    network.load_state_dict(training.best)
    network.eval()
    return training.history


class Training:
    """A training at some step: the network, the optimiser, the best epoch so far."""

    def __init__(
        self, network: ImageNetwork, images: Tensor, y: Tensor, held: Tensor, plan: TrainingPlan
    ) -> None:
        self.network, self.images, self.y, self.plan = network, images, y, plan
        self.rest, self.held = torch.nonzero(~held)[:, 0], torch.nonzero(held)[:, 0]
        self.about = {
            **asdict(plan),
            "weights": sum(weight.numel() for weight in network.parameters()),
            "levels": list(network.levels or ()),
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
        epoch, place = divmod(self.step, self.per_epoch)
        generator = torch.Generator().manual_seed(seed(self.plan.seed, ORDER, epoch))
        order = torch.randperm(len(self.rest), generator=generator)
        rows = self.rest[order.tensor_split(self.per_epoch)[place]]
        generator = self.network.generator.manual_seed(seed(self.plan.seed, STEP, self.step))
        pixels = augment(self.images[rows], self.plan.shift, generator)
        self.network.train()
        loss = self.network.loss(self.network(pixels), self.y[rows])
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

    def judge(self) -> None:
        """Measure the epoch on held rows, and keep its weights if there was none better."""
        network, y = self.network, self.y[self.held]
        output = read_images(network, self.images[self.held]).output
        found = {
            "epoch": self.step // self.per_epoch,
            "loss": self.loss / self.per_epoch,
            "held_loss": network.loss(output, y).item(),
            "held_mae": torch.mean((network.centres(output) - y).abs()).item(),
            "seconds": self.seconds(),
        }
        if all(found["held_loss"] < row["held_loss"] for row in self.history):
            self.best = weights_of(self.network)
        self.history.append(found)
        self.loss = 0.0

    def seconds(self) -> float:
        """Since the start of the training, without the time between two runs."""
        return self.seconds_before + time.monotonic() - self.begin

    def state(self) -> dict[str, Any]:
        """What a later run needs; of a finished training the best weights are enough."""
        known = {"about": self.about, "step": self.step, "history": self.history, "best": self.best}
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

    def say(self) -> None:
        """On a terminal: which epoch has ended, how good it is, and the time left."""
        if sys.stderr is not None and sys.stderr.isatty():
            seconds = self.seconds() * (self.total / self.step - 1.0)
            print(
                f"epoch {self.history[-1]['epoch']} of {self.plan.epochs}: "
                f"error {self.history[-1]['held_mae']:.2f}, "
                f"{timedelta(seconds=round(seconds))} left",
                file=sys.stderr,
            )


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
