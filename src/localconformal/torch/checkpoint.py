"""A training's state on disk: whole or not there, and of this training or refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from localconformal.files import write_whole


def write_checkpoint(path: Path, about: dict[str, Any], state: dict[str, Any]) -> Path:
    """Replace the file by tensors, numbers and texts; ``about`` says what they belong to."""
    return write_whole(path, lambda part: torch.save({"about": about, **state}, part))


def read_checkpoint(path: Path, about: dict[str, Any]) -> dict[str, Any] | None:
    """The state in the file; None where there is no file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "state.pt"
    >>> read_checkpoint(path, {}) is None
    True
    >>> read_checkpoint(write_checkpoint(path, {"rows": 3}, {"step": 1}), {"rows": 3})["step"]
    1
    """
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
