"""
Groups that overlap
===================

A person has an age and a region, and both are groups that must be covered. Cells of age and region
would be many and small; `ConditionalConformalRegressor` covers within each age and each region at
once, from all calibration rows together.
"""

# %%
# The noise is larger for the old and in one region, and largest for both.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression

from localconformal import (
    ConditionalConformalRegressor,
    MondrianConformalRegressor,
    SplitConformalRegressor,
)
from localconformal.plots import plot_group_coverage


def people(n, seed):
    """Age, region and income as numbers, and a response."""
    rng = np.random.default_rng(seed)
    age, region = rng.uniform(20, 90, n), rng.integers(0, 4, n)
    spread = np.exp((age > 70) + 0.8 * (region == 3))
    X = pd.DataFrame({"age": age, "region": region, "income": rng.gamma(2.0, 2.0, n)})
    return X, X["income"] + age / 20 + spread * rng.standard_normal(n)


X, y = people(6_000, seed=0)
X_new, y_new = people(20_000, seed=1)


def decade(X):
    """Twenties, thirties, ..."""
    return (X["age"] // 10).astype(int)


base = LinearRegression()
models = {
    "split": SplitConformalRegressor(base, random_state=0),
    "Mondrian by region": MondrianConformalRegressor(base, groups="region", random_state=0),
    "conditional on both": ConditionalConformalRegressor(
        base, groups=["region", decade], random_state=0
    ),
}

# %%
# Split conformal is too low for the old and in region 3. Mondrian by region covers each region and
# leaves the old far too low. With both variables as groups, all eleven are close to the level.

labels = {"region": X_new["region"], "age": decade(X_new) * 10}
_, axes = plt.subplots(2, 3, figsize=(12, 6), layout="constrained", sharey="row")
for column, (name, model) in enumerate(models.items()):
    intervals = model.fit(X, y).predict_interval(X_new)
    for row, (variable, groups) in enumerate(labels.items()):
        plot_group_coverage(y_new, intervals, groups, 0.9, ax=axes[row, column])
        axes[row, column].set_title(f"{name}: {variable}")

# %%

print(models["conditional on both"].guarantee_)

# %%
# Instead of groups, or in addition, ``features`` may be any function of X, such as a spline of the
# age: then coverage holds on average over every population whose ages are weighted by a
# non-negative combination of these functions.


def ramps(X):
    """Piecewise linear functions of the age."""
    return np.maximum(X[["age"]].to_numpy() - [20, 40, 60, 75], 0.0)


smooth = ConditionalConformalRegressor(base, features=ramps, random_state=0).fit(X, y)
ages = pd.DataFrame({"age": np.linspace(20, 89, 200), "region": 0, "income": 4.0})
_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for name, model in {"conditional on both": models["conditional on both"], "ramps": smooth}.items():
    ax.plot(ages["age"], np.diff(model.predict_interval(ages))[:, 0], label=name)
ax.set(xlabel="age", ylabel="length of the interval")
ax.legend()
