"""Split conformal prediction: one width for all rows."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import SplitConformalRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """On the mean model."""
    return SplitConformalRegressor(models.mean, calibration_size=None, random_state=seed)
