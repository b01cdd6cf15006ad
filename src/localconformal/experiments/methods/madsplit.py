"""Residuals in units of a model of their size."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.regressors import MADSplitRegressor

#: The papers' code adds 1 to the predicted size, in units of the mean |y|: a linear model of sizes
#: can be negative. Here it is one median residual, so that no unit of y matters.
BETA = 1.0


def make(models: Models, seed: int, preset: Preset) -> Any:
    """Mean and size by models of the same family."""
    return MADSplitRegressor(
        models.mean,
        spread_estimator=models.spread,
        beta=BETA,
        calibration_size=None,
        random_state=seed,
    )
