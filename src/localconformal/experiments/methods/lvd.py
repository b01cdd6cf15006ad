"""LVD: calibration rows weighed by a learned distance; no guarantee."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import LVDRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """On the mean model."""
    return LVDRegressor(models.mean, calibration_size=None, random_state=seed, n_jobs=1)
