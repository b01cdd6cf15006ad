"""LVD: calibration rows weighed by a learned distance; no guarantee."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.laws import KernelLaw
from localconformal.regressors import LVDRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """On the mean model; distances in a network's last hidden layer, otherwise of features."""
    has_layers = hasattr(models.mean.model, "hidden_layer_sizes")
    embedding = "hidden-metric" if has_layers else "metric"
    return LVDRegressor(
        models.mean,
        law=KernelLaw(bandwidth=1.0, embedding=embedding, engine="reference"),
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )
