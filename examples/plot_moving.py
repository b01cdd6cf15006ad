"""
Moving from MAPIE or crepes
===========================

How calls translate from one library to another. With the same rows, model and level, split
conformal prediction gives the same bounds in all three libraries, and CQR in the two that have it.
"""

# %%
# Train and calibrate
# -------------------
# MAPIE and crepes take training and calibration rows in two calls. So does this library when
# ``calibration_size=None``; by default ``fit`` splits the rows itself.

import matplotlib.pyplot as plt
import numpy as np
from crepes import WrapRegressor
from mapie.regression import ConformalizedQuantileRegressor as MapieCQR
from mapie.regression import SplitConformalRegressor as MapieSplit
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import QuantileRegressor

from localconformal import (
    ConformalizedQuantileRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.audit import compare
from localconformal.plots import plot_methods

X, y = make_friedman1(2_000, noise=1.0, random_state=0)
X_train, y_train, X_cal, y_cal = X[:800], y[:800], X[800:1_200], y[800:1_200]
X_new, y_new = X[1_200:], y[1_200:]
base = HistGradientBoostingRegressor(max_iter=50, random_state=0)

mapie = MapieSplit(base, confidence_level=0.9, prefit=False)
mapie.fit(X_train, y_train).conformalize(X_cal, y_cal)
mapie_points, mapie_bounds = mapie.predict_interval(X_new)  # (n,) and (n, 2, 1)

crepes = WrapRegressor(base)
crepes.fit(X_train, y_train)
crepes.calibrate(X_cal, y_cal)
crepes_bounds = crepes.predict_int(X_new, confidence=0.9)  # (n, 2)

ours = SplitConformalRegressor(base, confidence_level=0.9, calibration_size=None)
ours.fit(X_train, y_train).conformalize(X_cal, y_cal)
bounds = ours.predict_interval(X_new)  # (n, 2)

# %%
# The bounds agree to the last few bits.

print("MAPIE :", np.abs(bounds - mapie_bounds[:, :, 0]).max())
print("crepes:", np.abs(bounds - crepes_bounds).max())

# %%
# Conformalized quantile regression
# ---------------------------------
# By default MAPIE corrects each side separately, and this library corrects both by the same amount,
# as published; ``method="asymmetric"`` corrects each side separately here too.

quantiles = QuantileRegressor(alpha=0.0)
mapie_cqr = MapieCQR(quantiles, confidence_level=0.9).fit(X_train, y_train)
mapie_cqr.conformalize(X_cal, y_cal)
_, mapie_cqr_bounds = mapie_cqr.predict_interval(X_new, symmetric_correction=True)

cqr = ConformalizedQuantileRegressor(quantiles, confidence_level=0.9, calibration_size=None)
cqr.fit(X_train, y_train).conformalize(X_cal, y_cal)
print("CQR   :", np.abs(cqr.predict_interval(X_new) - mapie_cqr_bounds[:, :, 0]).max())

# %%
# With a local law
# ----------------
# The same rows and model with a local law. `compare` takes models of this library and bounds of any
# origin; differences are paired, row by row.

local = SLCPRegressor(base, law="forest", calibration_size=None, random_state=0)
local.fit(X_train, y_train).conformalize(X_cal, y_cal)
methods = {"MAPIE split": mapie_bounds[:, :, 0], "SLCP": local.predict_interval(X_new)}
print(compare(methods, X_new, y_new))

_, axes = plt.subplots(1, 3, figsize=(10, 2.4), layout="constrained", sharey=True)
_ = plot_methods(y_new, methods, 0.9, baseline="MAPIE split", ax=axes)

# %%
# Names
# -----
# Checked against MAPIE 1.6 and crepes 0.9.
#
# .. list-table::
#    :header-rows: 1
#    :widths: 30 30 40
#
#    * - MAPIE
#      - crepes
#      - localconformal
#    * - ``SplitConformalRegressor``
#      - ``WrapRegressor``
#      - ``SplitConformalRegressor``
#    * - ``ConformalizedQuantileRegressor``
#      -
#      - ``ConformalizedQuantileRegressor``
#    * - ``ResidualNormalisedScore``
#      - ``DifficultyEstimator``
#      - ``MADSplitRegressor``, or ``conformity_score="normalised"``
#    * -
#      - ``MondrianCategorizer``
#      - ``MondrianConformalRegressor(groups=...)``
#    * - ``CrossConformalRegressor``, ``JackknifeAfterBootstrapRegressor``
#      -
#      - ``SplitConformalRegressor`` and others with ``cv=10``, ``cv="oob"``
#    * - ``TimeSeriesRegressor``, ``adapt_conformal_inference``
#      -
#      - ``AdaptiveIntervals(model, "aci")``, ``update``; EnbPI has no counterpart
#    * - ``fit(...)``, then ``conformalize(...)``
#      - ``fit(...)``, then ``calibrate(...)``
#      - ``fit(...)`` alone, or ``calibration_size=None`` and ``conformalize(...)``
#    * - ``prefit=True``
#      - a fitted learner
#      - ``FrozenEstimator(model)``
#    * - ``predict_interval(X)[1][:, :, 0]``
#      - ``predict_int(X)``
#      - ``predict_interval(X)``
#    * - ``confidence_level=[...]`` of the constructor
#      - ``confidence=`` of ``predict_int``, 0.95 by default
#      - ``confidence_level=`` of ``predict_interval``, one or a list; 0.9 by default
#    * -
#      - ``calibrate(cps=True)``, ``predict_cps``
#      - ``predict_quantiles``, ``predict_cdf``, ``sample``, ``crps``
#    * - ``regression_coverage_score``
#      - ``evaluate``
#      - ``metrics.coverage``
#    * - ``regression_mean_width_score``
#      - ``evaluate``
#      - ``metrics.mean_length``
#    * - ``regression_mwi_score``
#      -
#      - ``metrics.interval_score``
#    * - ``regression_ssc_score``
#      -
#      - ``metrics.size_stratified_coverage_score``
#    * - ``hsic``
#      -
#      - ``metrics.hsic``
#
# Two conventions differ. With too few calibration rows for a level, bounds here are infinite, and a
# warning says how many rows are needed. And several levels in one call are nested.
