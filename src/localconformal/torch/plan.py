"""How an image network is trained: numbers only, so that naming them needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingPlan:
    """AdamW with a one-cycle schedule on flipped and shifted images.

    Attributes
    ----------
    epochs : int
        Passes over the rows that are trained on.
    batch_size : int
        Rows of a step; the last ones of an epoch are spread over its other steps.
    learning_rate : float
        At the top of the cycle.
    weight_decay : float
        Of AdamW.
    shift : int
        Most pixels by which an image is moved, in each direction.
    seed : int
        Draws the order of the rows, the flips and shifts, and dropout.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.003
    weight_decay: float = 0.01
    shift: int = 4
    seed: int = 0
