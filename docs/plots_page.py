"""The images of docs/plots.md: every plot, on simulated rides whose truth is known."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import (
    ConformalizedQuantileRegressor,
    KernelLaw,
    SLCPRegressor,
    SplitConformalRegressor,
    plots,
)
from localconformal.datasets import load_simulation

IMAGES = Path(__file__).parent / "images" / "plots"
LEVELS = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
TAILS = [0.05, 0.95]
BASE = {"max_leaf_nodes": 8, "min_samples_leaf": 50, "random_state": 0}
WEATHER = np.array(["sun", "rain", "snow"])


def rides(n, seed):
    """Hour, temperature (at times unknown) and weather; and the rides."""
    rng = np.random.default_rng(seed)
    hour, celsius = rng.uniform(0, 24, n), rng.normal(12, 8, n)
    weather = rng.choice(len(WEATHER), n, p=[0.6, 0.3, 0.1])
    mean = 20 + 12 * np.sin((hour - 8) / 24 * 2 * np.pi) + 0.4 * celsius - 4 * weather
    deviation = 1 + 3 * np.exp(-((hour - 17) ** 2) / 8) + 1.5 * weather
    y = mean + deviation * rng.standard_normal(n)
    celsius[rng.uniform(size=n) < 0.06] = np.nan
    X = pd.DataFrame({"hour": hour, "celsius": celsius})
    X["weather"] = pd.Categorical(WEATHER[weather], categories=WEATHER)
    return X, y


def bands():
    """The first image: one feature, and the truth beside."""
    simulation = load_simulation("sim2")
    model = SLCPRegressor(HistGradientBoostingRegressor(**BASE), law="kernel", random_state=0)
    model.fit(*simulation.sample(2_000, random_state=0))
    X, y = simulation.sample(500, random_state=1)
    oracle = simulation.quantile(X, TAILS)
    return plots.plot_bands(X, y, {"SLCP": model.predict_interval(X)}, oracle=oracle)


def fitted(X, y):
    """A model that adapts, two that do not or do otherwise."""
    mean = HistGradientBoostingRegressor(**BASE)
    quantile = HistGradientBoostingRegressor(**BASE, loss="quantile", quantile=0.5)
    return {
        "SLCP, forest": SLCPRegressor(mean, law="forest", random_state=0).fit(X, y),
        "SLCP, kernel": SLCPRegressor(mean, law=KernelLaw("epanechnikov"), random_state=0).fit(
            X, y
        ),
        "CQR": ConformalizedQuantileRegressor(quantile, random_state=0).fit(X, y),
        "Split conformal": SplitConformalRegressor(mean, random_state=0).fit(X, y),
    }


def draw(models, X, y):
    """Name of the image -> its figure."""
    found = {name: model.predict_interval(X) for name, model in models.items()}
    best, one_width = found["SLCP, forest"], found["Split conformal"]
    forest = models["SLCP, forest"]
    curve = forest.predict_interval(X, confidence_level=LEVELS)
    x = pd.DataFrame({"hour": [17.0], "celsius": [12.0]})
    x["weather"] = pd.Categorical(["sun"], categories=WEATHER)
    residual = y - forest.predict(X)
    return {
        "bands_medians": plots.plot_bands(X["hour"], y, {"SLCP, forest": best}),
        "bands_labels": plots.plot_bands(X["weather"], y, {"SLCP, forest": best}, max_points=600),
        "sorted": plots.plot_sorted(y, best, y_pred=forest.predict(X)),
        "group_coverage": plots.plot_group_coverage(y, one_width, X["weather"]),
        "feature_coverage": plots.plot_feature_coverage(X["hour"], y, one_width),
        "feature_coverage_missing": plots.plot_feature_coverage(X["celsius"], y, best),
        "length_error": plots.plot_length_error(y, best),
        "calibration": plots.plot_calibration(y, curve, LEVELS),
        "local_weights": plots.plot_local_weights(forest, x, X, residual, feature="hour"),
        "methods": plots.plot_methods(y, found, baseline="Split conformal"),
    }


def main():
    """Fit, draw, and write the images."""
    models = fitted(*rides(4_000, seed=0))
    IMAGES.mkdir(parents=True, exist_ok=True)
    drawn = {"bands": bands(), **draw(models, *rides(3_000, seed=1))}
    for name, (axes, _) in drawn.items():
        figure = np.ravel(np.asarray(axes, dtype=object))[0].figure
        figure.savefig(IMAGES / f"{name}.png", dpi=90, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
