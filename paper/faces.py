"""UTKFace: faces to tell the age from, and which of them may be used for what.

For non-commercial research only, and the copyright of each image stays with its owner: images are
read into memory, and nothing here shows them or writes them anywhere.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import seed_of
from localconformal.quantiles import Array
from paper.data import SHARES, fetch_file, read_file

GENDERS = {0: "male", 1: "female"}
ETHNICITIES = {0: "White", 1: "Black", 2: "Asian", 3: "Indian", 4: "other"}
#: Three file names lack the ethnicity.
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Images:
    """Bytes (n, rows, columns, 3), ages (n,), and gender and ethnicity, each (n,) of texts.

    The ages of faces, 1 to 116 years, are estimated by an algorithm and checked by a human, so
    noisy themselves.
    """

    pixels: NDArray[np.uint8]
    age: Array
    groups: dict[str, NDArray[np.str_]]


def load_faces(data_home: str | Path | None = None) -> Images:
    """The 23,707 faces of UTKFace at 64 x 64 pixels, from the folders of `load_dataset`."""
    path = fetch_file("utkface64", data_home)
    try:
        frame = read_file("utkface64", path)
        pixels = np.stack([decode(jpeg) for jpeg in frame["jpeg"]])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path} could not be read as faces ({type(error).__name__}); replace the file."
        ) from error
    groups = {
        kind: np.array([names.get(int(code), UNKNOWN) for code in frame[kind]])
        for kind, names in (("gender", GENDERS), ("ethnicity", ETHNICITIES))
    }
    return Images(pixels, frame["age"].to_numpy(dtype=np.float64), groups)


def decode(jpeg: bytes) -> NDArray[np.uint8]:
    """Bytes (rows, columns, 3)."""
    from PIL import Image

    with Image.open(io.BytesIO(jpeg)) as image:
        return np.asarray(image.convert("RGB"))


#: Images that weights are fitted to; training images that judge the epochs; all others.
FITTED, HELD, POOL = "fitted", "held", "pool"
#: Share of the training images that are held out.
HELD_SHARE = 0.15
#: Sides and number of the made images.
SIDE, MADE = 16, 700


def made() -> Images:
    """Bright spots on a noisy ground, larger with age; what is seen of old ones is less certain."""
    rng = np.random.default_rng(seed_of("made images"))
    seen = rng.uniform(5.0, 75.0, MADE)
    across = np.arange(SIDE) - SIDE / 2 + 0.5
    radius = np.hypot(across[:, None], across[None, :])
    spot = 140.0 * (radius[None] < SIDE / 2 * np.sqrt(seen / 80.0)[:, None, None])
    noise = rng.normal(60.0, 20.0, (MADE, SIDE, SIDE, 3))
    pixels = np.clip(spot[..., None] + noise, 0, 255).astype(np.uint8)
    age = np.maximum(1.0, np.round(seen + (1.0 + 0.1 * seen) * rng.normal(size=MADE)))
    groups = {
        "gender": rng.choice(["female", "male"], MADE),
        "ethnicity": rng.choice(["one", "two", "three"], MADE),
    }
    return Images(pixels, age, groups)


SOURCES: dict[str, Callable[[], Images]] = {"faces": load_faces, "made": made}


def parts_of(n: int) -> NDArray[np.str_]:
    """The part of each image (n,): drawn once, since a network is trained once."""
    order = np.random.default_rng(seed_of("split", "age")).permutation(n)
    training = round(SHARES[0] * n)
    parts = np.full(n, POOL, dtype=f"<U{max(map(len, (FITTED, HELD, POOL)))}")
    parts[order[:training]] = FITTED
    parts[order[: round(HELD_SHARE * training)]] = HELD
    return parts


def halves(parts: NDArray[np.str_], repeat: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Images to calibrate and to test on: the pool, halved anew for each repeat."""
    rng = np.random.default_rng(seed_of("split", "age", repeat))
    pool = rng.permutation(np.flatnonzero(parts == POOL))
    return pool[: len(pool) // 2], pool[len(pool) // 2 :]
