"""LOCART: leaves that follow the noise, small leaves, and the law of leaf quantiles."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localconformal.laws.leaf_quantiles import LeafQuantilesLaw
from localconformal.regressors.locart import LocartRegressor, pruned_tree
from registry import smooth_data


def steps(n, seed):
    """The noise has three levels along the first of three columns."""
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    scale = np.array([0.5, 1.0, 3.0])[(3 * X[:, 0]).astype(int)]
    return X, scale * np.random.default_rng(seed + 1).normal(size=n)


def make(partition, seed=0, **params):
    params.setdefault("min_samples_leaf", 60)
    return LocartRegressor(LinearRegression(), partition=partition, random_state=seed, **params)


def test_the_tree_splits_where_the_noise_does():
    X, y = steps(4_000, seed=0)
    tree = make("tree", min_samples_leaf=100).fit(X, y).tree_
    edges = np.sort(tree.tree_.threshold[tree.tree_.feature == 0])
    # Features come standardised.
    raw = edges * X[:, 0].std() + X[:, 0].mean()
    assert min(abs(raw - 1 / 3)) < 0.05
    assert min(abs(raw - 2 / 3)) < 0.05


def test_a_score_without_structure_is_one_leaf():
    rng = np.random.default_rng(0)
    tree = pruned_tree(rng.normal(size=(1_000, 2)), rng.normal(size=1_000), 50, seed=0)
    assert tree.get_n_leaves() <= 3


def test_small_leaves_are_infinite_and_named():
    X, y = smooth_data(300, seed=0)
    X_cal, y_cal = smooth_data(12, seed=1)
    model = make("tree", min_samples_leaf=10, calibration_size=None).fit(X, y)
    with pytest.warns(UserWarning, match="leaves that are short"):
        intervals = model.conformalize(X_cal, y_cal).predict_interval(X)
    infinite = np.isinf(intervals).any(axis=1)
    sizes = model.diagnose(X)["effective_sample_size"].to_numpy()
    np.testing.assert_array_equal(infinite, sizes < 9)
    # A forest has no leaves of its own to promise anything for.
    assert make("forest", n_estimators=3).fit(X, y).guarantee_.conditional_on is None


def test_the_law_averages_the_quantiles_of_leaves():
    X, y = smooth_data(300, seed=0)
    law = LeafQuantilesLaw(4, min_samples_leaf=30, random_state=0).fit(X, y)
    leaves, points = law.model_.apply(law.view_(X)), X[:9]
    mine = law.model_.apply(law.view_(points))
    expected = [
        [np.quantile(y[leaves[:, t] == own[t]], 0.9, method="inverted_cdf") for t in range(4)]
        for own in mine
    ]
    found = law.quantile(points, [0.9])[:, 0]
    np.testing.assert_allclose(found, np.mean(expected, axis=1), rtol=1e-8)
