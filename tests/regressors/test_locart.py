"""LOCART: coverage within leaves, leaves that follow the noise; the forest version is valid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from localconformal.laws.leaf_quantiles import LeafQuantilesLaw
from localconformal.regressors.locart import LocartRegressor, pruned_tree
from registry import smooth_data

SCALES = np.array([0.5, 1.0, 3.0])


def steps(n, seed):
    """The noise has three levels along the first of three columns."""
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    scale = SCALES[(3 * X[:, 0]).astype(int)]
    return X, scale, scale * np.random.default_rng(seed + 1).normal(size=n)


def conditional_coverage(model, X, scale):
    lower, upper = model.predict_interval(X).T
    return norm.cdf(upper / scale) - norm.cdf(lower / scale)


def make(partition, seed=0, **params):
    params.setdefault("min_samples_leaf", 60)
    return LocartRegressor(LinearRegression(), partition=partition, random_state=seed, **params)


@pytest.mark.ci
def test_coverage_holds_within_each_step_of_the_noise():
    X_new, scale, _ = steps(3_000, seed=999)
    found = []
    for seed in range(40):
        X, _, y = steps(900, seed)
        model = make("tree", seed, n_jobs=1).fit(X, y)
        cover = conditional_coverage(model, X_new, scale)
        found.append([cover[scale == one].mean() for one in SCALES])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    # A leaf may straddle a step by a few rows: exact within leaves, nearly so within steps.
    assert np.all(mean > 0.9 - 3.0 * error - 0.02)
    assert np.all(mean < 0.96)


def test_the_tree_splits_where_the_noise_does():
    X, _, y = steps(4_000, seed=0)
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


def test_the_forest_is_valid_and_follows_the_noise():
    X_new, scale, _ = steps(2_000, seed=999)
    found = []
    for seed in range(25):
        X, _, y = steps(700, seed)
        model = make("forest", seed, n_estimators=15, n_jobs=1).fit(X, y)
        found.append(conditional_coverage(model, X_new, scale).mean())
    assert np.mean(found) > 0.9 - 3.0 * np.std(found) / np.sqrt(len(found))
    width = np.diff(model.predict_interval(X_new), axis=1)[:, 0]
    assert width[scale == 3.0].mean() > 2.0 * width[scale == 0.5].mean()


@pytest.mark.parametrize("partition", ["tree", "forest"])
def test_one_by_one_equals_batch(partition):
    X, y = smooth_data(400, seed=0)
    model = make(partition, n_estimators=5).fit(X, y)
    each = np.vstack([model.predict_interval(row[None]) for row in X[:20]])
    # The linear model's own products differ in their last bits.
    np.testing.assert_allclose(each, model.predict_interval(X[:20]), rtol=1e-12)


def test_small_leaves_are_infinite_and_named():
    X, y = smooth_data(300, seed=0)
    X_cal, y_cal = smooth_data(12, seed=1)
    model = make("tree", min_samples_leaf=10, calibration_size=None).fit(X, y)
    with pytest.warns(UserWarning, match="leaves that are short"):
        intervals = model.conformalize(X_cal, y_cal).predict_interval(X)
    infinite = np.isinf(intervals).any(axis=1)
    sizes = model.diagnose(X)["effective_sample_size"].to_numpy()
    np.testing.assert_array_equal(infinite, sizes < 9)


def test_the_guarantee_is_of_leaves_or_on_average():
    X, y = smooth_data(300, seed=0)
    assert make("tree").fit(X, y).guarantee_.conditional_on == "cell"
    assert make("forest", n_estimators=3).fit(X, y).guarantee_.conditional_on is None


def test_the_law_averages_the_quantiles_of_leaves():
    X, y = smooth_data(300, seed=0)
    law = LeafQuantilesLaw(4, min_samples_leaf=30, random_state=0).fit(X, y)
    leaves, points = law.model_.apply(law.view_(X)), X[:9]
    mine = law.model_.apply(law.view_(points))
    expected = [
        np.mean(
            [
                np.quantile(y[leaves[:, t] == mine[i, t]], 0.9, method="inverted_cdf")
                for t in range(4)
            ]
        )
        for i in range(9)
    ]
    np.testing.assert_allclose(law.quantile(points, [0.9])[:, 0], expected, rtol=1e-8)
