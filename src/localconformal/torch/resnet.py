"""A residual network that predicts a number from an image, and shows what it saw.

ResNet-34 with its standard stem, and on top of it the head of the age model in the SLCP paper:

    concat pool -> BN, dropout -> 512, ReLU -> BN, dropout -> 16 -> ReLU -> 1

The paper's description of the head names no ReLU behind the 512 units; without one they and the
next layer would be a single linear map. The 16 numbers before the last ReLU are the embedding in
which the paper measures "near".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

#: Residual blocks of each stage of ResNet-34.
RESNET34 = (3, 4, 6, 3)


class Reading(NamedTuple):
    """What the network makes of n images: hidden (n, 512), embedding (n, 16), mean (n,)."""

    hidden: Tensor
    embedding: Tensor
    mean: Tensor


class ImageNetwork(nn.Module):
    """E[y | image] by a residual network, in the units of y, from pixels 0 to 255.

    Everything random, the first weights and dropout, comes from the generator: PyTorch's global
    one is not touched. Layers are stored channels last, which oneDNN reads faster on a CPU.

    Parameters
    ----------
    generator : torch.Generator
    blocks : sequence of ints, default=(3, 4, 6, 3)
        Residual blocks of each stage; every stage but the first halves the sides of the image.
    width : int, default=64
        Channels of the first stage; each stage doubles them.
    head : pair of ints, default=(512, 16)
        Units of the hidden layer and of the embedding.
    dropout : float, default=0.5
        Share of units that a training step leaves out, before both layers of the head.

    Examples
    --------
    >>> network = ImageNetwork(torch.Generator().manual_seed(0), (1, 1), 4, (8, 3)).eval()
    >>> images = torch.zeros(5, 3, 16, 16, dtype=torch.uint8)
    >>> [tuple(part.shape) for part in network.read(images)]
    [(5, 8), (5, 3), (5,)]
    """

    pixel_mean: Tensor
    pixel_spread: Tensor
    centre: Tensor
    unit: Tensor

    def __init__(
        self,
        generator: torch.Generator,
        blocks: Sequence[int] = RESNET34,
        width: int = 64,
        head: tuple[int, int] = (512, 16),
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.generator = generator
        # On no device at first: constructors would draw weights from the global generator.
        with torch.device("meta"):
            self.trunk = trunk(blocks, width)
            channels = 2 * width * 2 ** (len(blocks) - 1)
            units, coordinates = head
            self.hidden = nn.Sequential(
                nn.BatchNorm1d(channels),
                Dropout(dropout, generator),
                nn.Linear(channels, units),
                nn.ReLU(),
                nn.BatchNorm1d(units),
            )
            self.dropout = Dropout(dropout, generator)
            self.embedding = nn.Linear(units, coordinates)
            self.readout = nn.Linear(coordinates, 1)
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
        hidden = self.hidden(concat_pool(self.trunk(x)))
        embedding = self.embedding(self.dropout(hidden))
        mean = self.readout(torch.relu(embedding))[:, 0]
        return Reading(hidden, embedding, self.centre + self.unit * mean)

    def forward(self, images: Tensor) -> Tensor:
        """Images (n, 3, rows, columns) -> (n,) in units of y."""
        return self.read(images).mean


class Dropout(nn.Module):
    """Leave out units at random while training, drawn from the generator.

    Parameters
    ----------
    share : float
    generator : torch.Generator
    """

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


class ResidualBlock(nn.Module):
    """relu(s(x) + BN(conv(relu(BN(conv(x)))))), s(x) = x or, where shapes differ, BN(conv(x)).

    Parameters
    ----------
    inputs, outputs : int
        Channels.
    stride : int
        2 halves the sides of the image.
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
    layers: list[nn.Module] = [
        convolution(3, width, 7, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    inputs = width
    for stage, count in enumerate(blocks):
        outputs = width * 2**stage
        for place in range(count):
            stride = 2 if stage > 0 and place == 0 else 1
            layers.append(ResidualBlock(inputs, outputs, stride))
            inputs = outputs
    return nn.Sequential(*layers)


def concat_pool(x: Tensor) -> Tensor:
    """Mean and maximum of each channel: (n, c, rows, columns) -> (n, 2 c)."""
    return torch.cat([x.mean(dim=(2, 3)), x.amax(dim=(2, 3))], dim=1)


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
    """What the trained network makes of bytes (n, rows, columns, 3), in batches, no gradient.

    Examples
    --------
    >>> network = ImageNetwork(torch.Generator().manual_seed(0), (1, 1), 4, (8, 3))
    >>> read_images(network, torch.zeros(5, 16, 16, 3, dtype=torch.uint8), 2).mean.shape
    torch.Size([5])
    """
    network.eval()
    with torch.no_grad():
        parts = [network.read(part.permute(0, 3, 1, 2)) for part in torch.split(images, batch_size)]
    return Reading(*(torch.cat(columns) for columns in zip(*parts, strict=True)))
