"""
Few rows: no row set aside
==========================

With 120 rows, a quarter of them set aside for calibration is a quarter less to learn from, and
thirty scores make an unsteady correction. ``cv=10`` uses every row for both: each row is scored by
a model that was fitted without its fold.
"""

# %%
# One table, many ways to set rows aside
# --------------------------------------
# The same 120 rows, twelve seeds. With a split, intervals change with the seed, because different
# rows calibrate; across ten folds they hardly depend on it.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor

rng = np.random.default_rng(0)
X = rng.uniform(0, 10, size=(120, 1))
y = np.sin(X[:, 0]) + (0.1 + 0.06 * X[:, 0]) * rng.normal(size=120)
grid = np.linspace(0, 10, 200)[:, None]
model = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.1), optimizer=None, normalize_y=True)

bounds = {}
for cv in (None, 10):
    fitted = [
        SLCPRegressor(model, law=KernelLaw(bandwidth=1.0), cv=cv, random_state=seed).fit(X, y)
        for seed in range(12)
    ]
    bounds[cv] = np.stack([one.predict_interval(grid) for one in fitted])

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), sharey=True, layout="constrained")
titles = {None: "A quarter set aside", 10: "Ten folds: cv=10"}
for axis, (cv, title) in zip(axes, titles.items(), strict=True):
    axis.plot(X[:, 0], y, ".", color="0.6", markersize=4)
    for one in bounds[cv]:
        axis.plot(grid[:, 0], one, color="C0", linewidth=0.8, alpha=0.6)
    axis.set(title=f"{title}, 12 seeds", xlabel="x")
axes[0].set_ylabel("y")

# %%
# How far the ends move from one seed to the next, in units of the mean length:

for cv, title in titles.items():
    length = np.diff(bounds[cv], axis=2).mean()
    print(f"{title}: {bounds[cv].std(axis=0).mean() / length:.3f}, mean length {length:.2f}")

# %%
# What is promised
# ----------------
# Less than with a split in the worst case, and about the same in practice.

print(fitted[0].guarantee_)

# %%
# Without refitting anything
# --------------------------
# A forest already has a model for each row: the trees that were not grown on it. ``cv="oob"``
# needs only one fit, for methods without a law.

forest = RandomForestRegressor(200, min_samples_leaf=5, random_state=0)
print(SplitConformalRegressor(forest, cv="oob").fit(X, y).predict_interval(grid[:2]).round(2))
