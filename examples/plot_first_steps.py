"""
First steps
===========

Intervals around a model that you already have, in three steps: make, fit, ask. The data are
simulated, with noise that grows with x, so the ideal interval at each x is known.
"""

# %%
# Fit
# ---
# `SLCPRegressor` takes any regression model. ``fit`` splits its rows: three quarters train the
# model and the local law of its residuals, the last quarter calibrates. ``law="auto"``, the
# default, learns from other models too; here we name the paper's kernel law, which looks at this
# model alone, with its bandwidth chosen by cross-validation.

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import KernelLaw, SLCPRegressor, SplitConformalRegressor
from localconformal.datasets import load_simulation
from localconformal.metrics import coverage, coverage_band, interval_score, mean_length
from localconformal.plots import plot_bands

simulation = load_simulation("sim2")
X, y = simulation.sample(2_000, random_state=0)
X_new, y_new = simulation.sample(1_000, random_state=1)

base = HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=50)
model = SLCPRegressor(
    base, law=KernelLaw(bandwidth="cv"), confidence_level=0.9, random_state=0
).fit(X, y)

# %%
# Ask
# ---
# One level gives an array of shape (n, 2), several give (n, 2, L), without a refit. Frames come
# back as frames.

model.predict_interval(X_new[:3])

# %%

model.predict_interval(X_new[:3], confidence_level=[0.5, 0.8, 0.95], output="frame").round(2)

# %%
# Look
# ----
# The dashed lines are the true quantiles of y given x.

_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ideal = simulation.quantile(X_new, [0.05, 0.95])
_ = plot_bands(X_new, y_new, {"SLCP": model.predict_interval(X_new)}, oracle=ideal, ax=ax)

# %%
# Judge
# -----
# Plain split conformal prediction covers as often, with one width for all rows. The interval score
# is length plus a penalty for misses; lower is better. Coverage varies with the 1,000 new rows
# and with the 500 calibration rows; the band says how much.

split = SplitConformalRegressor(base, random_state=0).fit(X, y)
for name, made in {"SLCP": model, "split conformal": split}.items():
    intervals = made.predict_interval(X_new)
    print(
        f"{name:16} coverage {coverage(y_new, intervals):.3f}   "
        f"length {mean_length(y_new, intervals):.2f}   "
        f"score {interval_score(y_new, intervals, 0.9):.2f}"
    )
low, high = coverage_band(n_calibration=500, n_test=1_000, confidence_level=0.9)
print(f"coverage to expect: {low:.3f} to {high:.3f}")

# %%
# What is promised
# ----------------
# Every estimator says what it guarantees, and under which assumptions.

print(model.guarantee_)
