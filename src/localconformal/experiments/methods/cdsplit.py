"""CD-Split: thresholds of the conditional density, in cells of alike densities."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import CDSplitRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """The density of the mean model's residual, by the family's law; sets of several pieces."""
    return CDSplitRegressor(
        models.mean, law=models.law, calibration_size=None, random_state=seed, n_jobs=1
    )
