"""SLCP as the paper describes it: Algorithm 1 on quantile models."""

from __future__ import annotations

from typing import Any

from localconformal.experiments.models import Models
from localconformal.experiments.presets import Preset
from localconformal.laws import KernelLaw
from localconformal.regressors import SLCPRegressor


def make(models: Models, seed: int, preset: Preset) -> Any:
    """Gaussian kernel, median bandwidth, scores of training rows in sample, a side each."""
    return SLCPRegressor(
        models.quantile,
        score="quantile",
        law=KernelLaw("gaussian", bandwidth="median", n_jobs=1),
        reference="train",
        sides="union",
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )
