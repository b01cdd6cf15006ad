"""SLCP with this library's defaults: what ``law="auto"`` changes."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import SLCPRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """Residuals of the mean model, out of fold, and a law chosen on training rows."""
    return SLCPRegressor(
        models.mean,
        selection_budget=preset.selection_budget,
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )
