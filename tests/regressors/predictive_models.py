"""Models whose predictive distributions are tested, by name."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal
from localconformal import ForestLaw, KernelLaw, LearnedLaw, NeighborsLaw
from localconformal.laws import LAWS
from registry import smooth_data

SLCP, General = localconformal.SLCPRegressor, localconformal.LocalizedConformalRegressor
LAW = KernelLaw(bandwidth=0.4)
LEVELS = np.array([0.02, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.98])
X_NEW = smooth_data(25, seed=9)[0]


def make(score="residual", law=LAW, **params):
    base = QuantileRegressor(alpha=0) if score == "quantile" else LinearRegression()
    params.setdefault("calibration_size", None)
    return General(base, score=score, law=law, random_state=0, **params)


#: Laws whose default models take long, with others.
LIGHT = {
    "forest": ForestLaw(RandomForestRegressor(10, min_samples_leaf=5)),
    "learned": LearnedLaw(QuantileRegressor(alpha=0)),
}
VARIANTS = {
    **{f"law-{name}": {"law": LIGHT.get(name, name)} for name in LAWS},
    "neighbors-3": {"law": NeighborsLaw(3)},
    "kernel-narrow": {"law": KernelLaw("boxcar", bandwidth=1e-3)},
    "response": {"score": "response"},
    "normalised": {"score": "normalised"},
    "quantile": {"score": "quantile"},
    "union": {"sides": "union"},
    "theta": {"adjustment": "theta"},
    "no-law": {"adjustment": "plain"},
    "no-law-quantile": {"adjustment": "plain", "score": "quantile"},
}


def calibrated(variant, data=smooth_data, n=99):
    model = make(**VARIANTS[variant]).fit(*data(120, seed=0))
    with warnings.catch_warnings():
        # Rounded data repeat rows by chance.
        warnings.simplefilter("ignore", UserWarning)
        return model.conformalize(*data(n, seed=1))


def discrete_data(n, seed, d=2):
    X, y = smooth_data(n, seed, d)
    return X, np.round(2.0 * y) / 2.0
