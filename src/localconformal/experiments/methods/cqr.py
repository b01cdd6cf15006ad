"""Conformalized quantile regression."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import ConformalizedQuantileRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """On the quantile model, one correction for both sides, as published."""
    return ConformalizedQuantileRegressor(models.quantile, calibration_size=None, random_state=seed)
