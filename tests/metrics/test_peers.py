"""The same numbers as MAPIE, covmetrics and scoringrules, where they define the same thing."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from localconformal import metrics
from localconformal.metrics.conditional import _worst_segment
from registry import optional

# Importing the peers takes longer than what is compared.
pytestmark = pytest.mark.ci
LEVELS = np.array([0.5, 0.8, 0.9])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
MU, HALF = X[:, 1], RNG.uniform(0.5, 2.5, size=300)
Y = MU + HALF * RNG.normal(size=300) / 1.3
#: (n, 2, 3): of these the last but one is judged where one level is asked for.
BOUNDS = MU[:, None, None] + HALF[:, None, None] * np.outer([-1.0, 1.0], [0.5, 0.9, 1.2])
ONE = BOUNDS[:, :, 1]
LENGTH = ONE[:, 1] - ONE[:, 0]
COVERED = ((ONE[:, 0] <= Y) & (ONE[:, 1] >= Y)).astype(float)


def test_mapie():
    mapie, same = optional("mapie.metrics.regression"), np.testing.assert_allclose
    same(metrics.coverage(Y, BOUNDS), mapie.regression_coverage_score(Y, BOUNDS))
    same(metrics.mean_length(Y, BOUNDS), mapie.regression_mean_width_score(BOUNDS))
    for n_bins in (1, 3, 8):
        ours = metrics.size_stratified_coverage(Y, BOUNDS, LEVELS, n_bins=n_bins)
        theirs = mapie.regression_ssc(Y, BOUNDS, num_bins=n_bins)
        same([each.coverage for each in ours], theirs)
        ours = metrics.size_stratified_coverage_score(Y, BOUNDS, n_bins=n_bins)
        same(ours, mapie.regression_ssc_score(Y, BOUNDS, num_bins=n_bins))
    for l, level in enumerate(LEVELS):
        score = mapie.regression_mwi_score(Y, BOUNDS[:, :, l : l + 1], level)
        assert metrics.interval_score(Y, BOUNDS, LEVELS)[l] == pytest.approx(score)
    # Theirs is the square root for standardised lengths.
    theirs = mapie.hsic(Y / np.std(LENGTH), ONE / np.std(LENGTH))
    ours = metrics.hsic(Y, ONE, n_permutations=0).value
    assert np.sqrt(ours) == pytest.approx(float(theirs[0]))


def test_scoringrules():
    scoringrules = optional("scoringrules")
    theirs = scoringrules.interval_score(Y, *ONE.T, 0.2, backend="numpy").mean()
    assert metrics.interval_score(Y, ONE, 0.8) == pytest.approx(theirs)
    draws = RNG.random((300, 25))
    score = scoringrules.crps_ensemble(Y, draws, estimator="nrg", backend="numpy")
    assert metrics.crps(Y, draws) == pytest.approx(score.mean())


@pytest.fixture(scope="module")
def covmetrics():
    # Its import adds a warnings filter for the whole process.
    with warnings.catch_warnings():
        return optional("covmetrics")


def test_covmetrics_excess_risk_with_the_same_classifier_and_folds(covmetrics):
    judge = covmetrics.ERT(LogisticRegression, C=1e3)
    theirs = judge.evaluate_multiple_losses(X, COVERED, alpha=0.2, random_state=7)
    judge = LogisticRegression(C=1e3)
    ours = metrics.excess_risk(Y, ONE, X, 0.8, classifier=judge, random_state=7)
    assert ours.l1 == pytest.approx(theirs["ERT_L1_miscoverage"], abs=1e-12)


def test_covmetrics_gap_correlation_hsic_and_slab(covmetrics):
    from covmetrics.slab_metrics import wsc_all_numpy

    groups = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    theirs = covmetrics.CovGap(0.2).evaluate(groups, COVERED, weighted=False)
    assert metrics.coverage_gap(Y, ONE, groups, 0.8) == pytest.approx(theirs)
    theirs = covmetrics.PearsonCorrelation().evaluate(LENGTH, COVERED)
    assert metrics.length_coverage_corr(Y, ONE) == pytest.approx(theirs)
    theirs = covmetrics.HSIC().evaluate(LENGTH / LENGTH.std(), COVERED)
    assert metrics.hsic(Y, ONE, n_permutations=0).value == pytest.approx(theirs)
    # The slab of the rows that find it: covmetrics, and MAPIE with it, holds none out.
    directions = RNG.normal(size=(20, 3))
    order = np.argsort(directions @ X.T, axis=1)
    ours = _worst_segment(COVERED[order] == 1.0, 30, np.ones((20, 301), dtype=bool))[0]
    assert ours == pytest.approx(wsc_all_numpy(X, COVERED, 0.1, directions)[0].min())
