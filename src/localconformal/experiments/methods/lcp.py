"""Guan's localized conformal prediction, exact."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import LCPRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """On the mean model; the bandwidth keeps thresholds of training rows small and finite."""
    return LCPRegressor(models.mean, calibration_size=None, random_state=seed, n_jobs=1)
