"""
New rows from elsewhere
=======================

Calibration rows from one population, new rows from another: coverage is no longer promised.
If only the distribution of x has changed, and not that of y given x,
`WeightedConformalRegressor` restores it.
"""

# %%
# The model is a straight line, the data are curved, and the noise grows with x. Old rows are
# uniform; new ones lie mostly on the right.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from localconformal import SplitConformalRegressor, WeightedConformalRegressor
from localconformal.metrics import coverage
from localconformal.plots import plot_bands


def response(x, rng):
    """Curved, with noise that grows."""
    return x**2 + (0.1 + x) * rng.standard_normal(len(x))


rng = np.random.default_rng(0)
x_old, x_new = rng.uniform(0, 2, 4_000), 2 * rng.beta(4, 1, 4_000)
X, y = x_old[:, None], response(x_old, rng)
X_new, y_new = x_new[:, None], response(x_new, rng)

split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)

# %%
# Weights w(x) are the density of new rows over that of old rows, up to a factor. Here they are
# known: the Beta density over a constant.

known = WeightedConformalRegressor(
    LinearRegression(), weights=lambda X: X[:, 0] ** 3, random_state=0
).fit(X, y)

# %%
# In practice they are learned: a classifier separates new rows, whose responses are not needed,
# from old ones.

seen, unseen = X_new[:2_000], X_new[2_000:]
learned = WeightedConformalRegressor(
    LinearRegression(), weights=LogisticRegression(), random_state=0
).fit(X, y, target=seen)
print(learned.guarantee_)

# %%

models = {"split": split, "weights known": known, "weights learned": learned}
intervals = {name: model.predict_interval(unseen) for name, model in models.items()}
{name: round(coverage(y_new[2_000:], found), 3) for name, found in intervals.items()}

# %%
# Rows with similar weights get the same correction, so these intervals still have nearly one
# width. Add a local law to change that: ``WeightedConformalRegressor(model, law="forest",
# adjustment="additive", weights=...)``.

local = WeightedConformalRegressor(
    LinearRegression(),
    law="kernel",
    adjustment="additive",
    weights=lambda X: X[:, 0] ** 3,
    random_state=0,
).fit(X, y)
shown = {"split": intervals["split"], "weighted, local": local.predict_interval(unseen)}
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
_ = plot_bands(unseen, y_new[2_000:], shown, max_points=500, ax=ax)
