"""The demo's work: simulate, fit three methods, measure them beside the true quantiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from localconformal import (
    ConformalizedQuantileRegressor,
    KernelLaw,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.datasets import load_simulation
from localconformal.metrics import coverage, interval_score, mean_length
from localconformal.plots import regions_frame
from localconformal.quantiles import Array

SIMULATION = "sim2"
N_TRAIN, N_TEST = 2000, 5000
CONFIDENCE_LEVEL = 0.9
EDGES = np.arange(6.0)
SPLIT, CQR, SLCP = "Split conformal", "CQR", "SLCP"
ORACLE = "True quantiles"
#: Of the base model, the same for every method. Small trees, because their bands are smooth in
#: the picture; with the default settings the interval scores rank alike.
SETTINGS: dict[str, Any] = {"max_leaf_nodes": 8, "min_samples_leaf": 50}
#: name -> (method, loss of its base model). One feature is where the paper's kernel is at its best,
#: and it takes a second where law="auto" would compare laws for many.
METHODS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    SPLIT: (SplitConformalRegressor, {}),
    CQR: (ConformalizedQuantileRegressor, {"loss": "quantile", "quantile": 0.5}),
    SLCP: (partial(SLCPRegressor, law=KernelLaw(bandwidth="cv")), {}),
}
N_STEPS = len(METHODS) + 1


@dataclass(frozen=True)
class Summary:
    """One row of the demo's table."""

    coverage: float
    mean_length: float
    interval_score: float
    by_region: Array


@dataclass(frozen=True)
class Comparison:
    """Test rows, the methods, their intervals on these rows, and what they are worth."""

    X: Array
    y: Array
    models: dict[str, Any]
    intervals: dict[str, Array]
    oracle: Array
    summaries: dict[str, Summary]


def compare(seed: int = 0, on_step: Callable[[str], None] = lambda name: None) -> Comparison:
    """Fit every method on the same rows and measure it on the same new ones."""
    simulation = load_simulation(SIMULATION)
    rng = np.random.default_rng(seed)
    X_train, y_train = simulation.sample(N_TRAIN, rng)
    X, y = simulation.sample(N_TEST, rng)
    models = {}
    # On so few rows a second thread costs more than it brings, above all on a busy machine.
    with threadpool_limits(limits=1):
        for name, (method, loss) in METHODS.items():
            on_step(name)
            base = HistGradientBoostingRegressor(**SETTINGS, **loss, random_state=seed)
            model = method(base, confidence_level=CONFIDENCE_LEVEL, random_state=seed)
            models[name] = model.fit(X_train, y_train)
        on_step("measuring")
        intervals = {name: model.predict_interval(X) for name, model in models.items()}
    tail = (1.0 - CONFIDENCE_LEVEL) / 2.0
    oracle = simulation.quantile(X, [tail, 1.0 - tail])
    summaries = _summaries(X, y, {**intervals, ORACLE: oracle})
    return Comparison(X, y, models, intervals, oracle, summaries)


def _summaries(X: Array, y: Array, bands: dict[str, Array]) -> dict[str, Summary]:
    regions = regions_frame(X, y, bands, EDGES)
    return {
        name: Summary(
            coverage=float(coverage(y, band)),
            mean_length=float(mean_length(y, band)),
            interval_score=float(interval_score(y, band, CONFIDENCE_LEVEL)),
            by_region=regions.loc[regions["method"] == name, "coverage"].to_numpy(),
        )
        for name, band in bands.items()
    }
