"""Dist-Split: calibrated ranks in the conditional law."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import DistSplitRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """The law of the mean model's residual, of the family's kind."""
    law = "forest" if models.law is None else models.law
    return DistSplitRegressor(
        models.mean, law=law, calibration_size=None, random_state=seed, n_jobs=1
    )
