"""
A whole predictive distribution
===============================

Quantiles, probabilities and samples come from the same fit and the same calibration rows as the
intervals.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import KernelLaw, SLCPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0, 4, 3_000)
y = np.sin(2 * x) + x * rng.gamma(2.0, 0.3, 3_000)
base = HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=50)
model = SLCPRegressor(base, law=KernelLaw(bandwidth="cv"), random_state=0).fit(
    x[:2_000, None], y[:2_000]
)
X_new, y_new = x[2_000:, None], y[2_000:]

# %%
# Quantiles never cross. On average over new rows they are calibrated: the share of rows below
# each is close to its level.

levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
quantiles = model.predict_quantiles(X_new, levels)
{float(t): float(np.mean(y_new <= q)) for t, q in zip(levels, quantiles.T, strict=True)}

# %%

grid = np.linspace(0, 4, 200)[:, None]
lines = model.predict_quantiles(grid, levels)
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.scatter(X_new[:, 0], y_new, s=4, color="0.7")
for t, line in zip(levels, lines.T, strict=True):
    ax.plot(grid[:, 0], line, label=f"{t:g}")
ax.set(xlabel="x", ylabel="y")
_ = ax.legend(title="quantile")

# %%
# Probabilities: how likely a response above 2 is, along x.

above = 1.0 - model.predict_cdf(grid, np.full(len(grid), 2.0))
_, ax = plt.subplots(figsize=(8, 2.5), layout="constrained")
ax.plot(grid[:, 0], above)
_ = ax.set(xlabel="x", ylabel="P(Y > 2)")

# %%
# Samples, and the mean continuous ranked probability score; smaller is better.

model.sample(X_new[:2], 4, random_state=0).round(2), round(float(model.crps(X_new, y_new)), 4)

# %%
# The promise is calibration on average, not at each x.

print(model.guarantee_.predictive)
