"""
Auditing another library's intervals
====================================

For whom do intervals fail? `audit` takes bounds from anywhere, together with their rows, and
answers in sentences. Here the intervals are MAPIE's.
"""

# %%
# Simulated bike rides, with evenings that are hard to predict, even more so in rain.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from mapie.regression import SplitConformalRegressor
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import SLCPRegressor
from localconformal.audit import audit, compare
from localconformal.plots import plot_feature_coverage


def rides(n, seed):
    """Hour, temperature and whether it rains; and the rides."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "hour": rng.uniform(0, 24, n),
            "celsius": rng.normal(12, 8, n),
            "rain": rng.integers(0, 2, n),
        }
    )
    spread = 1 + (2 + 3 * X["rain"]) * (X["hour"] - 18).abs().lt(3)
    mean = 20 - 8 * np.cos(X["hour"] / 12 * np.pi) + 0.4 * X["celsius"]
    return X, (mean + spread * rng.standard_normal(n)).to_numpy()


X, y = rides(3_000, seed=0)
X_new, y_new = rides(4_000, seed=1)

base = HistGradientBoostingRegressor(max_iter=60, random_state=0)
mapie = SplitConformalRegressor(base, confidence_level=0.9, prefit=False)
rows = X.to_numpy()
mapie.fit(rows[:2_000], y[:2_000]).conformalize(rows[2_000:], y[2_000:])
intervals = mapie.predict_interval(X_new.to_numpy())[1][:, :, 0]

# %%
# The audit
# ---------
# Rules are found on one half of the rows; coverage, bands and p-values come from the other.

found = audit(X_new, y_new, intervals, groups="rain", confidence_level=0.9)
print(found)

# %%
# Every part is a frame as well, and a rule marks its rows.

found.frame("rules").round(3)

# %%

_, ax = plt.subplots(figsize=(8, 3), layout="constrained")
_ = plot_feature_coverage(X_new["hour"], y_new, intervals, 0.9, ax=ax)

# %%
# Side by side
# ------------
# The same model with a local law, fitted to the same rows.

local = SLCPRegressor(base, law="forest", calibration_size=1_000, random_state=0).fit(X, y)
print(compare({"MAPIE split": intervals, "SLCP": local}, X_new, y_new))
