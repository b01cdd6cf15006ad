"""
Any model, as it is
===================

A model needs ``fit`` and ``predict``, or only ``predict``. Here: LightGBM, a scikit-learn
pipeline, a model that is already fitted, and a plain Python object.
"""

# %%
# Another library
# ---------------
# Models with scikit-learn's interface go in as they are.

import matplotlib.pyplot as plt
from lightgbm import LGBMRegressor
from sklearn.datasets import make_friedman1
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from localconformal import SLCPRegressor
from localconformal.metrics import coverage
from localconformal.plots import plot_methods

X, y = make_friedman1(3_000, noise=1.0, random_state=0)
y = y + 2.0 * X[:, 5] * (y - y.mean()) / y.std()
X_train, y_train, X_cal, y_cal = X[:1_000], y[:1_000], X[1_000:2_000], y[1_000:2_000]
X_new, y_new = X[2_000:], y[2_000:]

trees = LGBMRegressor(n_estimators=60, num_leaves=15, n_jobs=1, verbose=-1, random_state=0)
lightgbm = SLCPRegressor(trees, law="forest", random_state=0).fit(X_train, y_train)

# %%
# A pipeline
# ----------
# Preprocessing goes *inside*, so that it learns from training rows only. A pipeline around the
# conformal regressor would learn from calibration rows too, which breaks the guarantee.

steps = make_pipeline(StandardScaler(), PolynomialFeatures(2), RidgeCV())
pipeline = SLCPRegressor(steps, law="forest", random_state=0).fit(X_train, y_train)

# %%
# A model that is already fitted
# ------------------------------
# ``FrozenEstimator`` says that the model is not to be trained again. Then every row given to
# ``fit`` must be new to it: three quarters teach the local law, the last quarter calibrates.

fitted = LGBMRegressor(n_estimators=60, n_jobs=1, verbose=-1, random_state=0).fit(X_train, y_train)
frozen = SLCPRegressor(FrozenEstimator(fitted), law="forest", random_state=0).fit(X_cal, y_cal)
print(frozen.guarantee_)

# %%
# Anything that predicts
# ----------------------
# An object without ``fit``, such as a client of a remote service or a formula, counts as fitted.


class Formula:
    """A model that nobody trained."""

    def predict(self, X):
        """One number per row."""
        return 10.0 * X[:, 0] + 10.0 * X[:, 3]


formula = SLCPRegressor(Formula(), law="forest", random_state=0).fit(X_cal, y_cal)

# %%
# All of them cover
# -----------------
# How good the model is decides how long the intervals are, not how often they cover. With 250
# calibration rows and 1,000 new ones, coverage of 86 to 94 % is within chance.

models = {"LightGBM": lightgbm, "pipeline": pipeline, "frozen": frozen, "formula": formula}
intervals = {name: model.predict_interval(X_new) for name, model in models.items()}
_, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained", sharey=True)
_ = plot_methods(y_new, intervals, 0.9, ax=axes)

# %%

{name: round(coverage(y_new, found), 3) for name, found in intervals.items()}
