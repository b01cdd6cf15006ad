"""The age model: trained once, run once over all images, and then a table of numbers.

Weights and features are kept in a folder of the cache that is named after the setting: the
environment variable ``LOCALCONFORMAL_CACHE`` names the cache, else it is that of data sets. No
image is ever written.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets.files import cache_folder
from localconformal.experiments.paper._age_images import HELD, POOL, SOURCES, Images, parts_of
from localconformal.experiments.presets import Preset
from localconformal.experiments.seeds import seed_of
from localconformal.files import write_whole
from localconformal.quantiles import Array
from localconformal.torch import missing_packages
from localconformal.torch.plan import TrainingPlan

CACHE_VARIABLE = "LOCALCONFORMAL_CACHE"
#: Raised when a change makes kept weights or features wrong.
VERSION = 1
LEVELS = (0.05, 0.5, 0.95)


@dataclass(frozen=True)
class Setting:
    """Which images, which network, and how both of its heads are trained."""

    source: str
    blocks: tuple[int, ...]
    width: int
    head: tuple[int, int]
    dropout: float
    plan: TrainingPlan
    quantile_epochs: int

    @property
    def folder(self) -> Path:
        """Where weights and features of this setting are kept."""
        text = json.dumps([VERSION, asdict(self)], sort_keys=True)
        root = os.environ.get(CACHE_VARIABLE)
        name = f"age-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        return (Path(root) if root else cache_folder()) / name


#: ResNet-34 with the paper's head. The paper starts from ImageNet's weights and drops half of the
#: head's units; from nothing, in ten epochs, that much dropout only slows the training down.
FACES = Setting("faces", (3, 4, 6, 3), 64, (512, 16), 0.2, TrainingPlan(seed=1), 100)
#: To see that everything runs: seconds, and no face.
TINY = Setting(
    "made", (1, 1), 8, (32, 16), 0.0, TrainingPlan(epochs=8, batch_size=32, shift=1, seed=1), 20
)


def setting_of(preset: Preset) -> Setting:
    """The setting of a preset."""
    return TINY if preset.only_runs else FACES


def why_left_out() -> str:
    """A sentence, where a package is missing; else nothing."""
    missing = " and ".join(missing_packages())
    return missing and (
        f"The age model is left out: it needs {missing}, which pip install "
        "'localconformal[torch]' brings."
    )


@dataclass(frozen=True)
class AgeFeatures:
    """What the network says of every image, n of them.

    Attributes
    ----------
    embedding : array of shape (n, 16)
    mean : array of shape (n,)
    quantiles : array of shape (n, 3)
        At 0.05, 0.5 and 0.95, in this order.
    age : array of shape (n,)
    parts : array of shape (n,)
        "fitted", "held" or "pool".
    weights, offset : array of shape (16,), float
        The last layer: mean = offset + relu(embedding) weights.
    groups : dict of arrays of shape (n,)
    facts : dict
        How the network was trained.
    """

    embedding: Array
    mean: Array
    quantiles: Array
    age: Array
    parts: NDArray[np.str_]
    weights: Array
    offset: float
    groups: dict[str, NDArray[np.str_]]
    facts: dict[str, Any]


# Tasks of one setting follow each other.
@lru_cache(maxsize=1)
def age_features(setting: Setting) -> AgeFeatures:
    """From the cache, or by training; a training that was killed goes on."""
    # PyTorch depends on it, so it is there wherever this runs.
    from filelock import FileLock

    setting.folder.mkdir(parents=True, exist_ok=True)
    path = setting.folder / "features.npz"
    # Tasks that run side by side must not train the same network; the others wait.
    with FileLock(setting.folder / "training.lock"):
        if not path.exists():
            arrays = make_features(setting, SOURCES[setting.source]())
            write_whole(path, lambda part: np.savez(part, **arrays))
    return read_features(path)


def make_features(setting: Setting, images: Images) -> dict[str, Any]:
    """Train both heads, and run the network over all images."""
    import torch

    from localconformal.torch.image_training import train_images
    from localconformal.torch.resnet import ImageNetwork, read_images

    parts = parts_of(len(images.age))
    training = parts != POOL
    generator = torch.Generator().manual_seed(seed_of("age", "weights"))
    network = ImageNetwork(generator, setting.blocks, setting.width, setting.head, setting.dropout)
    pixels = torch.from_numpy(images.pixels)
    history = train_images(
        network,
        pixels[torch.from_numpy(training)],
        torch.from_numpy(images.age[training].astype(np.float32)),
        torch.from_numpy(parts[training] == HELD),
        setting.plan,
        setting.folder / "checkpoint.pt",
    )
    reading = read_images(network, pixels)
    hidden = reading.hidden.numpy()
    unit, readout = network.unit.item(), network.readout
    return {
        "hidden": hidden,
        "embedding": reading.embedding.numpy(),
        "mean": reading.mean.numpy(),
        "quantiles": learn_quantiles(setting, hidden, images.age, training),
        "age": images.age,
        "parts": parts,
        "weights": unit * readout.weight.detach().numpy()[0],
        "offset": network.centre.item() + unit * readout.bias.item(),
        "facts": json.dumps(facts_of(history)),
        **{f"group {name}": values for name, values in images.groups.items()},
    }


def learn_quantiles(
    setting: Setting, hidden: Array, age: Array, training: NDArray[np.bool_]
) -> Array:
    """The quantile head on the frozen trunk: hidden -> 16 -> ReLU -> 3, by the pinball loss."""
    from localconformal.torch import QuantileNetwork

    head = QuantileNetwork(
        LEVELS,
        hidden_layer_sizes=setting.head[1:],
        batch_size=256,
        max_epochs=setting.quantile_epochs,
        random_state=seed_of("age", "quantiles"),
    )
    return head.fit(hidden[training], age[training]).predict(hidden, quantiles=LEVELS)


def facts_of(history: list[dict[str, Any]]) -> dict[str, Any]:
    """How many epochs, which was the best, its error on images held out, and how long it took."""
    best = min(history, key=lambda row: row["held_rmse"])
    return {
        "epochs": len(history),
        "best_epoch": best["epoch"],
        "held_mae": best["held_mae"],
        "training_seconds": history[-1]["seconds"],
    }


def read_features(path: Path) -> AgeFeatures:
    """Features from their file; those of the hidden layer stay there."""
    try:
        with np.load(path) as file:
            numbers = {
                name: file[name].astype(np.float64)
                for name in ("embedding", "mean", "quantiles", "age", "weights")
            }
            return AgeFeatures(
                **numbers,
                parts=file["parts"],
                offset=float(file["offset"]),
                groups={
                    name.removeprefix("group "): file[name]
                    for name in file.files
                    if name.startswith("group ")
                },
                facts=json.loads(str(file["facts"])),
            )
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(
            f"{path} could not be read as features ({type(error).__name__}); remove it, and they "
            "are made again from the weights beside it."
        ) from error
