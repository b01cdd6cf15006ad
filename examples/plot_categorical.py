"""
Categorical columns and missing values
======================================

Frames go in as they are if the base model takes them. The local law makes its own view of the
rows: standardised numbers, one column per label, and the median for missing numbers.
"""

# %%
# Simulated rides: the hour, a temperature that is sometimes missing, and the weather. The noise is
# larger in rain and snow.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import SLCPRegressor, SplitConformalRegressor
from localconformal.plots import plot_feature_coverage, plot_group_coverage

WEATHER = ["sun", "rain", "snow"]


def rides(n, seed):
    """A frame of features, and how many rides there were."""
    rng = np.random.default_rng(seed)
    hour, celsius, weather = rng.uniform(0, 24, n), rng.normal(12, 8, n), rng.integers(0, 3, n)
    mean = 20 - 8 * np.cos(hour / 12 * np.pi) + 0.4 * celsius - 3 * weather
    y = mean + (1 + 2 * weather) * rng.standard_normal(n)
    celsius[rng.uniform(size=n) < 0.1] = np.nan
    labels = pd.Categorical.from_codes(weather, WEATHER)
    return pd.DataFrame({"hour": hour, "celsius": celsius, "weather": labels}), y


X, y = rides(3_000, seed=0)
X_new, y_new = rides(3_000, seed=1)

# %%
# The base model learns categories natively; the law's forest sees a column for each.

base = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=60)
local = SLCPRegressor(base, law="forest", random_state=0).fit(X, y)
split = SplitConformalRegressor(base, random_state=0).fit(X, y)

local.predict_interval(X_new, output="frame").join(X_new).groupby("weather", observed=True).apply(
    lambda rows: (rows["upper"] - rows["lower"]).mean(), include_groups=False
).rename("mean length").to_frame().round(1)

# %%
# With one width for all rows, sun is covered too often and snow too rarely. With the local law
# coverage is far more even, although it was not told which column matters.

_, axes = plt.subplots(1, 2, figsize=(10, 3), layout="constrained")
for ax, (name, model) in zip(axes, {"split conformal": split, "SLCP": local}.items(), strict=True):
    plot_group_coverage(y_new, model.predict_interval(X_new), X_new["weather"], 0.9, ax=ax)
    ax.set_title(name)

# %%
# Missing temperatures have their own bin in this plot.

_, ax = plt.subplots(figsize=(8, 3), layout="constrained")
_ = plot_feature_coverage(X_new["celsius"], y_new, local.predict_interval(X_new), 0.9, ax=ax)
