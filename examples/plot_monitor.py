"""
Watching a model in use
=======================

Data change over time, often unnoticed. `CoverageMonitor` takes rows as their responses become
known, and raises an alarm. At most one in a hundred streams without a change raises a false one,
however long the streams are.
"""

# %%
# A sensor whose noise grows by half after 1,500 rows in use.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import CoverageMonitor, SLCPRegressor


def readings(n, seed, noise=1.0):
    """Two features, and a response whose noise grows with the first."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 2, size=(n, 2))
    spread = noise * (0.2 + X[:, 0])
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + spread * rng.standard_normal(n)


base = HistGradientBoostingRegressor(max_iter=60, random_state=0)
model = SLCPRegressor(base, law="kernel", random_state=0).fit(*readings(4_000, seed=0))
monitor = CoverageMonitor(model, false_alarm=0.01, random_state=0)

course = []


def take_in(X, y):
    """Rows in batches of 100; after each, what the monitor says is kept to be drawn."""
    for rows in np.array_split(np.arange(len(y)), len(y) // 100):
        so_far = monitor.update(X[rows], y[rows]).coverage_
        band = (so_far.coverage, so_far.lower, so_far.upper)
        course.append((so_far.n, *band, monitor.log_martingale_))


take_in(*readings(1_500, seed=1))
print(monitor.summary())

# %%
# Rows can arrive one by one or in batches; the result is the same. Now the noise grows.

X_late, y_late = readings(1_500, seed=2, noise=1.5)
take_in(X_late, y_late)
print(monitor.summary())

# %%
# How it went. The band holds at all rows simultaneously with a probability of 95 %, but raises no
# alarm: with one calibration set, coverage is a little off the level even if nothing has changed.
# The alarm comes from the martingale, the wealth of someone who bets that rows have changed.

row, coverage, lower, upper, evidence = np.array(course).T
_, (above, below) = plt.subplots(2, figsize=(8, 5), sharex=True, layout="constrained")
above.fill_between(row, lower, upper, alpha=0.3)
above.plot(row, coverage)
above.axhline(0.9, color="black", linewidth=0.8)
above.set(ylabel="coverage so far", ylim=(0.6, 1))
below.plot(row, evidence)
below.axhline(-np.log(monitor.false_alarm), color="black", linewidth=0.8)
below.axvline(monitor.alarm_.row, color="red", linestyle="--")
_ = below.set(xlabel="row", ylabel="log-martingale")

# %%
# What to do: calibrate with rows from after the change, and start again.

since = monitor.alarm_.row - 1_500
model.conformalize(X_late[since:], y_late[since:])
monitor.reset().update(*readings(1_500, seed=3, noise=1.5))
print(monitor.summary())
