"""
Intervals that follow a stream
==============================

Rows that change over time lose the coverage of a calibration set from the past.
`AdaptiveIntervals` moves the correction of any fitted model with every label, and keeps the shape
that the local law gives the intervals.
"""

# %%
# Noise that depends on x, and grows threefold while the model is in use.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import AdaptiveIntervals, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import coverage, interval_score

rng = np.random.default_rng(0)
n, n_fit = 4_000, 1_500
X = rng.uniform(size=(n, 2))
spread = (0.2 + 2 * X[:, 0] ** 2) * np.append(np.ones(n_fit), np.linspace(1, 3, n - n_fit))
y = np.sin(4 * X[:, 1]) + spread * rng.standard_normal(n)

base = HistGradientBoostingRegressor(max_iter=60, random_state=0)
local = SLCPRegressor(base, law="kernel", random_state=0).fit(X[:n_fit], y[:n_fit])
same = SplitConformalRegressor(base, random_state=0).fit(X[:n_fit], y[:n_fit])

# %%
# Ten rows are predicted, then their labels become known. Labels may also come late, in any order,
# or never (NaN).


def follow(adaptive):
    """Intervals of all rows in use, each made before its label was known."""
    found = []
    for start in range(n_fit, n, 10):
        rows = slice(start, start + 10)
        found.append(adaptive.predict_interval(X[rows]))
        adaptive.update(X[rows], y[rows])
    return np.concatenate(found)


X_late, y_late = X[n_fit:], y[n_fit:]
tracking = AdaptiveIntervals(local)
intervals = {
    "local, as fitted": local.predict_interval(X_late),
    "one width, ACI": follow(AdaptiveIntervals(same, "aci", window=500)),
    "local, tracking": follow(tracking),
}
for name, bounds in intervals.items():
    score = interval_score(y_late, bounds, 0.9)
    print(f"{name:17} coverage {coverage(y_late, bounds):.3f}  interval score {score:.2f}")

# %%
# The promise is about the whole stream and needs no assumption.

print(tracking.guarantee_)

# %%
# Coverage over the last 300 rows, and the widths at the end. Adaptive intervals of one width cover
# too, but they are too wide where there is little noise and too narrow where there is much.

_, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
window = np.ones(300) / 300
for name, bounds in intervals.items():
    hit = (y_late >= bounds[:, 0]) & (y_late <= bounds[:, 1])
    left.plot(np.arange(299, len(hit)), np.convolve(hit, window, "valid"), label=name)
    right.plot(X_late[-400:, 0], np.diff(bounds[-400:], axis=1), ".", markersize=3)
left.axhline(0.9, color="black", linewidth=0.8)
left.set(xlabel="row", ylabel="coverage of the last 300", ylim=(0.5, 1))
left.legend()
_ = right.set(xlabel="first feature", ylabel="width, last 400 rows")
