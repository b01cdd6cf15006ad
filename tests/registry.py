"""Shared by all tests: the registry of estimators, and data made to be awkward.

Not in conftest.py: a process that a test spawns would import the first file of that name.
"""

from __future__ import annotations

import os
from importlib import import_module

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal

ESTIMATORS = [
    getattr(localconformal, name) for name in localconformal.__all__ if name.endswith("Regressor")
]

#: One of each kind of model and calibration, by default where a test on all would take long.
KINDS = [
    localconformal.CHRRegressor,
    localconformal.ConformalizedQuantileRegressor,
    localconformal.LCPRegressor,
    localconformal.MADSplitRegressor,
    localconformal.SLCPRegressor,
]

#: These, and one of each other correction: what contracts are tested on by default.
QUICK = [
    *KINDS,
    localconformal.ConditionalConformalRegressor,
    localconformal.MondrianConformalRegressor,
    localconformal.SplitConformalRegressor,
    localconformal.WeightedConformalRegressor,
]

#: Methods without a guarantee, whose behaviour has tests of its own.
NOT_VALID = {"LVDRegressor"}


def optional(package):
    """The package; without it the file's tests are skipped, and where CI is set they fail."""
    return import_module(package) if os.environ.get("CI") else pytest.importorskip(package)


def quiet_catboost(**params):
    """A few trees of CatBoost in one thread, without files and lines of progress."""
    own = {"iterations": 10, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    return optional("catboost").CatBoostRegressor(**own | params)


def ci_but(quick, values):
    """The values as parameters of a test, all but the quick ones for CI."""
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.ci) for value in values
    ]


def light(cls, **params):
    """An estimator with linear base models: fast, and exact enough for laws about intervals."""
    if "method" in cls().get_params():
        params.setdefault("estimator", QuantileRegressor(alpha=0))
    params.setdefault("estimator", LinearRegression())
    if "spread_estimator" in cls().get_params():
        params.setdefault("spread_estimator", LinearRegression())
    if "law" in cls().get_params():
        # The search of "auto" takes seconds a fit, and has tests of its own.
        params.setdefault("law", localconformal.KernelLaw(bandwidth="cv"))
    params.setdefault("random_state", 0)
    return cls(**params)


def awkward_data(n, seed, d=2):
    """Heteroscedastic rows with ties in y and duplicates in X."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 1)
    y = X[:, 0] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)
    return X, np.where(rng.uniform(size=n) < 0.5, np.round(y, 1), y)


def smooth_data(n, seed, d=2):
    """Heteroscedastic rows, all continuous."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


def heavy_tails(n, seed, d=2):
    """Noise of infinite variance, the same everywhere."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.standard_t(2, size=n)


def homes(n=400, seed=0):
    """A table with numbers, labels, a flag, a date, gaps, and a name for each row."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 200, n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    region = rng.choice(["north", "south", "east"], n)
    return pd.DataFrame(
        {
            "key": [f"={i}" if i % 2 else f"home {i}" for i in range(n)],
            "size": np.where(rng.uniform(size=n) < 0.05, np.nan, size),
            "rooms": rng.integers(1, 6, n),
            "region": region,
            "new": rng.uniform(size=n) < 0.5,
            "sold": days.strftime("%Y-%m-%d"),
            "price": 3 * size + 50 * (region == "north") + 0.5 * size * rng.normal(size=n),
        }
    )
