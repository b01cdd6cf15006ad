"""What a family of base models is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localconformal.experiments.models.shared import Memory, SharedModel, SharedQuantiles
from localconformal.experiments.presets import Preset
from localconformal.quantiles import Array


@dataclass(frozen=True)
class Unfitted:
    """A mean model, a quantile model (``predict(X, quantiles=)``) and a model of the spread.

    ``law`` is a conditional law of the family's kind, for methods that need a whole one; None is
    a forest.
    """

    mean: Any
    quantile: Any
    spread: Any
    law: Any = None


@dataclass(frozen=True)
class Models:
    """The models of one task; all methods share their fits."""

    mean: SharedModel
    quantile: SharedQuantiles
    spread: Any
    law: Any
    memory: Memory


@dataclass(frozen=True)
class Family:
    """A kind of base model.

    Parameters
    ----------
    name : str
        As in the paper's table.
    choose : callable
        (X, y of training rows, seed, preset) -> Unfitted, with parameters chosen by
        cross-validation on these rows.
    left_out : str
        Why experiments leave the family out, in one sentence; empty for one that runs.
    """

    name: str
    choose: Callable[[Array, Array, int, Preset], Unfitted]
    left_out: str = ""

    def make(self, X: Array, y: Array, seed: int, preset: Preset) -> Models:
        """Models for one task, from its training rows."""
        chosen, memory = self.choose(X, y, seed, preset), Memory()
        return Models(
            SharedModel("mean", chosen.mean, memory),
            SharedQuantiles("quantile", chosen.quantile, memory),
            chosen.spread,
            chosen.law,
            memory,
        )
