"""Images of known age, and which of them may be used for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets.faces import load_faces
from localconformal.experiments.rows import SHARES
from localconformal.experiments.seeds import seed_of
from localconformal.quantiles import Array

#: Images that weights are fitted to; training images that judge the epochs; all others.
FITTED, HELD, POOL = "fitted", "held", "pool"
#: Share of the training images that are held out.
HELD_SHARE = 0.15
#: Sides and number of the made images.
SIDE, MADE = 16, 700


@dataclass(frozen=True)
class Images:
    """Bytes (n, rows, columns, 3), ages (n,), and groups by name, each (n,) of texts."""

    pixels: NDArray[np.uint8]
    age: Array
    groups: dict[str, NDArray[np.str_]]


def faces() -> Images:
    """Real faces."""
    found = load_faces()
    return Images(found.images, found.age, found.groups)


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


SOURCES: dict[str, Callable[[], Images]] = {"faces": faces, "made": made}


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
