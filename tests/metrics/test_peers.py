"""The same numbers as MAPIE, covmetrics and scoringrules, where they define the same thing."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from localconformal import metrics
from registry import optional

# Importing the peers takes longer than what is compared.
pytestmark = pytest.mark.ci
LEVELS = np.array([0.5, 0.8, 0.9])


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    mu, half = X[:, 1], rng.uniform(0.5, 2.5, size=300)
    y = mu + half * rng.normal(size=300) / 1.3
    return X, y, np.stack([mu - half, mu + half], axis=1)


@pytest.fixture(scope="module")
def levels(problem):
    """(n, 2, 3) around the same centres."""
    intervals = problem[2]
    centre = intervals.mean(axis=1, keepdims=True)
    return np.stack([centre + c * (intervals - centre) for c in (0.5, 0.9, 1.2)], axis=2)


@pytest.fixture(scope="module")
def mapie():
    return optional("mapie.metrics.regression")


@pytest.fixture(scope="module")
def covmetrics():
    # Its import adds a warnings filter for the whole process.
    with warnings.catch_warnings():
        return optional("covmetrics")


def covered(problem):
    _, y, intervals = problem
    return ((intervals[:, 0] <= y) & (y <= intervals[:, 1])).astype(float)


def test_mapie(mapie, problem, levels):
    y, same = problem[1], np.testing.assert_allclose
    same(metrics.coverage(y, levels), mapie.regression_coverage_score(y, levels))
    same(metrics.mean_length(y, levels), mapie.regression_mean_width_score(levels))
    for n_bins in (1, 3, 8):
        ours = metrics.size_stratified_coverage(y, levels, LEVELS, n_bins=n_bins)
        theirs = mapie.regression_ssc(y, levels, num_bins=n_bins)
        same([each.coverage for each in ours], theirs)
        same(
            metrics.size_stratified_coverage_score(y, levels, n_bins=n_bins),
            mapie.regression_ssc_score(y, levels, num_bins=n_bins),
        )
    for l, level in enumerate(LEVELS):
        score = mapie.regression_mwi_score(y, levels[:, :, l : l + 1], level)
        assert metrics.interval_score(y, levels, LEVELS)[l] == pytest.approx(score)
        # Theirs is the square root for standardised lengths.
        unit = np.std(levels[:, 1, l] - levels[:, 0, l])
        theirs = mapie.hsic(y / unit, levels[:, :, l] / unit)
        ours = metrics.hsic(y, levels[:, :, l], n_permutations=0).value
        assert np.sqrt(ours) == pytest.approx(float(theirs[0]))


def test_scoringrules_interval_score_and_crps(problem, levels):
    scoringrules = optional("scoringrules")
    y = problem[1]
    for l, level in enumerate(LEVELS):
        lower, upper = levels[:, :, l].T
        theirs = scoringrules.interval_score(y, lower, upper, 1.0 - level, backend="numpy").mean()
        assert metrics.interval_score(y, levels[:, :, l], level) == pytest.approx(theirs)
    draws, weights = np.random.default_rng(1).random((2, 300, 25))
    shares = weights / weights.sum(axis=1, keepdims=True)
    for ours, theirs in ((None, {}), (weights, {"ens_w": shares})):
        score = scoringrules.crps_ensemble(y, draws, estimator="nrg", backend="numpy", **theirs)
        assert metrics.crps(y, draws, ours) == pytest.approx(score.mean())


def test_covmetrics_excess_risk_with_the_same_classifier_and_folds(covmetrics, problem):
    X, y, intervals = problem
    judge = covmetrics.ERT(LogisticRegression, C=1e3)
    theirs = judge.evaluate_multiple_losses(X, covered(problem), alpha=0.2, random_state=7)
    ours = metrics.excess_risk(
        y, intervals, X, 0.8, classifier=LogisticRegression(C=1e3), random_state=7
    )
    for name, loss in (("l1", "L1_miscoverage"), ("l2", "brier_score"), ("kl", "logloss")):
        for suffix in ("", "_over", "_under"):
            expected = theirs[f"ERT_{loss}{suffix}"]
            assert getattr(ours, name + suffix) == pytest.approx(expected, abs=1e-12)


def test_covmetrics_gap_correlation_and_hsic(covmetrics, problem):
    X, y, intervals = problem
    c, length = covered(problem), intervals[:, 1] - intervals[:, 0]
    groups = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    for weighted in (False, True):
        theirs = covmetrics.CovGap(0.2).evaluate(groups, c, weighted=weighted)
        ours = metrics.coverage_gap(y, intervals, groups, 0.8, weighted=weighted)
        assert ours == pytest.approx(theirs)
    theirs = covmetrics.PearsonCorrelation().evaluate(length, c)
    assert metrics.length_coverage_corr(y, intervals) == pytest.approx(theirs)
    theirs = covmetrics.HSIC().evaluate(length / length.std(), c)
    assert metrics.hsic(y, intervals, n_permutations=0).value == pytest.approx(theirs)


def test_covmetrics_worst_slab_is_that_of_the_rows_that_find_it(covmetrics, problem):
    """covmetrics, and MAPIE with it, does not hold rows out: biased low."""
    from covmetrics.slab_metrics import wsc_all_numpy

    from localconformal.metrics.slab import worst_segment

    X, c = problem[0], covered(problem)
    directions = np.random.default_rng(0).normal(size=(20, 3))
    theirs = wsc_all_numpy(X, c, 0.1, directions)[0].min()
    order = np.argsort(directions @ X.T, axis=1)
    ours = worst_segment(c[order] == 1.0, 30, np.ones((20, 301), dtype=bool))[0]
    assert ours == pytest.approx(theirs)
