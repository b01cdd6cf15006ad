"""
Two branches: regions instead of intervals
==========================================

If the response is either high or low, even the best interval spans a gap in which hardly any
response lies. `HPDSplitRegressor` returns regions, unions of intervals, around the modes.
"""

# %%

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import HPDSplitRegressor, SLCPRegressor


def branches(n, seed):
    """One branch up to x = 1, two beyond it."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 3, n)
    side = rng.choice([-1.0, 1.0], n)
    return x[:, None], side * 3 * np.maximum(x - 1, 0) + 0.6 * rng.standard_normal(n)


X, y = branches(3_000, seed=0)
X_new, y_new = branches(2_000, seed=1)
base = HistGradientBoostingRegressor(max_leaf_nodes=8, min_samples_leaf=50)

model = HPDSplitRegressor(base, random_state=0).fit(X, y)
region = model.predict_region(X_new)
interval = SLCPRegressor(base, law="forest", random_state=0).fit(X, y).predict_interval(X_new)

# %%
# Both cover at the level; the regions leave the gap out.

print(f"regions    cover {region.contains(y_new).mean():.3f}, length {region.length.mean():.2f}")
inside = (interval[:, 0] <= y_new) & (y_new <= interval[:, 1])
print(f"intervals  cover {inside.mean():.3f}, length {np.diff(interval).mean():.2f}")

# %%
# A `Region` has a list of pieces for each row. ``predict_interval`` returns their hull.

grid = np.linspace(0, 3, 200)[:, None]
pieces = model.predict_region(grid)
_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.scatter(X_new[:800, 0], y_new[:800], s=5, color="0.6")
for x, row in zip(grid[:, 0], range(len(grid)), strict=True):
    for lower, upper in pieces[row]:
        ax.plot([x, x], [lower, upper], color="C0", alpha=0.4, linewidth=2.5)
_ = ax.set(xlabel="x", ylabel="y", title="Regions of highest density, 90 %")

# %%

{x: pieces[row] for x, row in [(0.5, 33), (2.5, 166)]}
