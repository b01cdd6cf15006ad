"""Models whose predictive distributions are tested, by name: their laws, and their calibration."""

from __future__ import annotations

import numpy as np
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from localconformal.laws import LAWS
from registry import smooth_data

LAW = lc.KernelLaw(bandwidth=0.4)


def make(conformity_score="residual", law=LAW, **params):
    base = QuantileRegressor(alpha=0) if conformity_score == "quantile" else LinearRegression()
    params.setdefault("calibration_size", None)
    return lc.LocalizedConformalRegressor(
        base, conformity_score=conformity_score, law=law, random_state=0, **params
    )


#: Laws whose default models take long, with others.
LIGHT = {
    "forest": lc.ForestLaw(RandomForestRegressor(10, min_samples_leaf=5)),
    "learned": lc.LearnedLaw(QuantileRegressor(alpha=0)),
}
VARIANTS = {
    **{f"law-{name}": {"law": LIGHT.get(name, name)} for name in LAWS},
    "neighbors-3": {"law": lc.NeighborsLaw(3)},
    "kernel-narrow": {"law": lc.KernelLaw("boxcar", bandwidth=1e-3)},
    "response": {"conformity_score": "response"},
    "normalised": {"conformity_score": lc.NormalisedScore(LinearRegression())},
    "quantile": {"conformity_score": "quantile"},
    "union": {"sides": "union"},
    "theta": {"adjustment": "theta"},
    "no-law": {"adjustment": "plain"},
    "no-law-quantile": {"adjustment": "plain", "conformity_score": "quantile"},
}


def discrete_data(n, seed, d=2):
    X, y = smooth_data(n, seed, d)
    return X, np.round(2.0 * y) / 2.0


def bimodal(n, seed, d=2):
    """The bimodal simulation of Izbicki et al.: two modes from x1 = -0.5 on."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, d))
    x = X[:, 0]
    middle, apart = (x - 1) ** 2 * (x + 1), 2 * np.sqrt(np.maximum(x + 0.5, 0))
    noise = np.sqrt(0.25 + np.abs(x)) * rng.normal(size=n)
    return X, middle + apart * rng.choice([-1, 1], n) + noise


def outward_ranks(n, levels):
    """Ranks of levels among n calibration rows: rounded down below 1/2 and up from there."""
    exact = (n + 1) * np.asarray(levels)
    return np.where(exact < (n + 1) / 2, np.floor(exact + 1e-9), np.ceil(exact - 1e-9)).astype(int)
