"""The bimodal simulation of Izbicki et al. in full: twenty features, of which one matters."""

from __future__ import annotations

import numpy as np
import pytest

from localconformal import (
    CHRRegressor,
    ConformalizedQuantileRegressor,
    DistSplitRegressor,
    HPDSplitRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)

INTERVALS = {
    ConformalizedQuantileRegressor: {},
    SLCPRegressor: {"law": "forest"},
    DistSplitRegressor: {"law": "forest"},
    CHRRegressor: {},
    SplitConformalRegressor: {},
}


def bimodal(n, seed, d=20):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, size=(n, d))
    x = X[:, 0]
    branch = rng.choice([-1.0, 1.0], size=n) * 2.0 * np.sqrt(np.maximum(x + 0.5, 0.0))
    noise = rng.normal(size=n) * np.sqrt(0.25 + np.abs(x))
    return X, (x - 1.0) ** 2 * (x + 1.0) + branch + noise


def fit(cls, seed, **params):
    model = cls(calibration_size=None, random_state=0, **params).fit(*bimodal(5_000, seed))
    return model.conformalize(*bimodal(2_500, seed + 50))


@pytest.mark.ci
def test_regions_have_two_pieces_and_are_shorter_than_any_interval_on_average():
    two, lengths = [], []
    for seed in range(2):
        X, _ = bimodal(2_000, seed + 99)
        region = fit(HPDSplitRegressor, seed).predict_region(X)
        two.append(np.mean(region.n_pieces[X[:, 0] > 0.5] == 2))
        others = [fit(cls, seed, **params) for cls, params in INTERVALS.items()]
        widths = [np.diff(model.predict_interval(X), axis=1).mean() for model in others]
        lengths.append([region.length.mean(), *widths])
    ours, *theirs = np.mean(lengths, axis=0)
    assert np.mean(two) > 0.8
    assert ours < min(theirs)
