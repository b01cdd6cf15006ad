"""Localized conformal prediction: what the estimator promises, and its bandwidth rule."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    LearnedLaw,
    NeighborsLaw,
    NormalisedScore,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.engine import local_ranks
from localconformal.laws.bandwidth import BandwidthProblem
from localconformal.laws.finite_bandwidth import FiniteThresholds, make_trial
from localconformal.metrics import coverage, coverage_band
from localconformal.quantiles import conformal_rank
from localconformal.regressors.lcp import LCPRegressor
from registry import awkward_data, light, smooth_data

X_NEW = awkward_data(40, seed=9)[0]
LAWS = [
    KernelLaw(bandwidth=0.7),
    KernelLaw("boxcar", bandwidth=1.0),
    KernelLaw("epanechnikov", bandwidth=1.5),
    NeighborsLaw(n_neighbors=40),
    ForestLaw(RandomForestRegressor(10, min_samples_leaf=5), n_jobs=1),
    UniformLaw(),
]
by_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)


@pytest.fixture(autouse=True)
def quiet():
    """Infinite intervals are part of the method, and rounded rows repeat by chance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def local(law, **params):
    return LCPRegressor(LinearRegression(), law=law, random_state=0, **params)


@pytest.mark.parametrize("law", [KernelLaw(bandwidth=np.inf), UniformLaw()])
@pytest.mark.parametrize("data", [awkward_data, smooth_data])
def test_no_localization_is_split_conformal(law, data):
    X, y = data(300, seed=0)
    levels = [0.05, 0.5, 0.9, 0.95, 0.995]
    mine = local(law).fit(X, y).predict_interval(X_NEW, confidence_level=levels)
    split = light(SplitConformalRegressor).fit(X, y)
    np.testing.assert_array_equal(mine, split.predict_interval(X_NEW, confidence_level=levels))


@by_law
def test_intervals_follow_the_definition(law):
    """Ranks of all rows with the new one among them, tried at scores between neighbours."""
    X, y = awkward_data(120, seed=0)
    X_cal, y_cal = awkward_data(30, seed=1)
    model = local(law, calibration_size=None).fit(X, y).conformalize(X_cal, y_cal)
    scores = np.abs(y_cal - model.predict(X_cal))
    level, allowed = 0.8, conformal_rank(30, 0.8) - 1
    threshold = model.diagnose(X_NEW[:8], confidence_level=level)["correction"]
    ends = np.append(np.unique(scores), np.inf)
    starts = np.append(ends[0] - 1.0, ends[:-1])
    for x, answer in zip(X_NEW[:8], threshold, strict=True):
        everyone = model.localizer_.view(np.vstack([X_cal, x]))
        H = model.localizer_(everyone, everyone)
        accepted = []
        for start, end in zip(starts, ends, strict=True):
            V = np.append(scores, start + 1.0 if np.isinf(end) else (start + end) / 2.0)
            rank = (H * (V[None, :] < V[:, None])).sum(axis=1) / H.sum(axis=1)
            if np.sum(rank[:-1] < rank[-1] * (1.0 - 1e-12)) <= allowed:
                accepted.append(end)
        np.testing.assert_allclose(answer, max(accepted), rtol=1e-12)


@by_law
def test_one_by_one_equals_batch(law):
    model = local(law).fit(*awkward_data(300, seed=0))
    levels = np.array([0.5, 0.9])
    batch = model._correction(X_NEW, levels, None)
    single = [model._correction(row[None], levels, None) for row in X_NEW]
    np.testing.assert_array_equal(batch, np.concatenate(single))


@by_law
def test_the_order_of_calibration_rows_does_not_matter(law):
    X_cal, y_cal = awkward_data(80, seed=4)
    model = local(law, calibration_size=None).fit(*awkward_data(200, seed=3))
    before = model.conformalize(X_cal, y_cal)._correction(X_NEW, np.array([0.6, 0.9]), None)
    order = np.random.default_rng(0).permutation(80)
    model.conformalize(X_cal[order], y_cal[order])
    after = model._correction(X_NEW, np.array([0.6, 0.9]), None)
    np.testing.assert_allclose(before, after, rtol=1e-12)


@by_law
def test_compiled_and_plain_give_the_same_intervals(law, monkeypatch):
    X, y = awkward_data(200, seed=5)
    levels = [0.3, 0.8, 0.95]
    plain = local(law).fit(X, y).predict_interval(X_NEW, confidence_level=levels)
    monkeypatch.setattr(local_ranks, "FEW_PAIRS", 0)
    compiled = local(law).fit(X, y).predict_interval(X_NEW, confidence_level=levels)
    np.testing.assert_array_equal(plain, compiled)


@by_law
def test_permuting_a_calibration_row_with_the_new_one_keeps_the_promise(law):
    """Leave one out of n + 1 rows: at least k of them lie in their own interval, always."""
    X, y = awkward_data(31, seed=6)
    model = local(law, calibration_size=None).fit(*awkward_data(150, seed=7))
    covered = 0
    for i in range(31):
        rest = np.arange(31) != i
        model.conformalize(X[rest], y[rest])
        covered += coverage(y[i : i + 1], model.predict_interval(X[i : i + 1]))
    assert covered >= conformal_rank(30, 0.9)


def mean_coverage(model, data, seeds, n_cal=100, n_test=100):
    shares = []
    for seed in range(seeds):
        X, y = data(n_cal + n_test, seed=10_000 + seed)
        model.conformalize(X[:n_cal], y[:n_cal])
        shares.append(coverage(y[n_cal:], model.predict_interval(X[n_cal:])))
    k = conformal_rank(n_cal, 0.9)
    mean = k / (n_cal + 1)
    spread = np.sqrt((mean * (1 - mean) / (n_cal + 2) + 0.09 / n_test) / seeds)
    return float(np.mean(shares)), mean, spread * norm.isf(0.0001)


@pytest.mark.parametrize("data", [awkward_data, smooth_data], ids=["ties", "continuous"])
def test_coverage(data):
    model = local(None, calibration_size=None).fit(*data(150, seed=0))
    share, mean, margin = mean_coverage(model, data, seeds=200)
    assert share >= mean - margin
    # Gaussian weights of continuous rows leave no ties among the ranks.
    assert share <= mean + margin or data is awkward_data


@pytest.mark.ci
@by_law
@pytest.mark.parametrize("data", [awkward_data, smooth_data], ids=["ties", "continuous"])
def test_coverage_of_every_law(law, data):
    for training_set in range(2):
        model = local(law, calibration_size=None).fit(*data(150, seed=training_set))
        share, mean, margin = mean_coverage(model, data, seeds=100)
        assert share >= mean - margin


def test_intervals_adapt_and_are_seldom_infinite_by_default():
    X, y = smooth_data(2_000, seed=0)
    model = local(None).fit(X, y)
    X_new, _ = smooth_data(500, seed=1)
    length = np.diff(model.predict_interval(X_new), axis=1)[:, 0]
    assert np.mean(np.isinf(length)) <= 0.08
    quiet, loud = np.abs(X_new[:, 0]) < 0.3, np.abs(X_new[:, 0]) > 1.0
    assert 1.5 * np.median(length[quiet]) < np.median(length[loud])


def test_far_away_is_infinite_and_told():
    model = local(KernelLaw(bandwidth=0.5)).fit(*smooth_data(400, seed=0))
    far = np.array([[0.0, 0.0], [1e4, 0.0]])
    with pytest.warns(UserWarning, match=r"1 of 2 intervals are infinite.*0\.9"):
        intervals = model.predict_interval(far)
    assert np.isfinite(intervals[0]).all()
    np.testing.assert_array_equal(intervals[1], [-np.inf, np.inf])
    frame = model.diagnose(far)
    assert frame["infinite"].tolist() == [False, True]
    assert frame["effective_sample_size"][0] > 5.0
    assert frame["effective_sample_size"][1] == 0.0


def test_the_promise():
    promise = local(None).fit(*awkward_data(200, seed=0)).guarantee_
    assert promise.marginal
    assert promise.finite_sample
    assert "infinite where few" in str(promise)


def test_laws_without_a_kernel_between_rows_are_refused():
    X, y = smooth_data(100, seed=0)
    with pytest.raises(ValueError, match="no kernel between two rows"):
        local("learned").fit(X, y)
    with pytest.raises(ValueError, match="no kernel between two rows"):
        local(LearnedLaw()).fit(X, y)


@pytest.mark.parametrize(
    ("score", "estimator"),
    [
        ("absolute", LinearRegression()),
        (NormalisedScore(LinearRegression()), LinearRegression()),
        ("quantile", QuantileRegressor(alpha=0)),
    ],
)
def test_other_scores(score, estimator):
    X, y = smooth_data(600, seed=0)
    model = LCPRegressor(estimator, score=score, law=KernelLaw(bandwidth=1.0), random_state=0)
    X_new, y_new = smooth_data(600, seed=1)
    low, _ = coverage_band(150, 600, 0.9, probability=0.9999)
    assert coverage(y_new, model.fit(X, y).predict_interval(X_new)) >= low


# ---- the bandwidth rule ----------------------------------------------------------------------


def problem(n=600, seed=0):
    X, y = smooth_data(n, seed=seed)
    return BandwidthProblem(X, np.abs(y - X[:, 0]), "gaussian", 20.0, 0)


def test_the_chosen_bandwidth_is_seldom_infinite_and_better_than_a_wide_one():
    rule, task = FiniteThresholds(0.9), problem()
    h = rule.choose(task)
    trial = make_trial(task, 0.9, 0)
    share, objective = rule._judge(trial, h)
    assert share <= 0.05
    assert objective < rule._judge(trial, 2.0 * task.distance_quantile(1.0))[1]


def test_fewer_infinite_thresholds_need_a_wider_kernel():
    chosen = [FiniteThresholds(0.9, most_infinite=m).choose(problem()) for m in (0.0, 0.2, 1.0)]
    assert chosen == sorted(chosen, reverse=True)


def test_a_level_out_of_reach_takes_the_widest():
    task = problem(n=30)
    widest = 2.0 * task.distance_quantile(1.0)
    assert FiniteThresholds(0.99).choose(task) == pytest.approx(widest)
    assert FiniteThresholds(0.9, n_candidates=1).choose(problem()) > 0.0


def test_the_penalty_counts_the_spread():
    rule, task = FiniteThresholds(0.9, penalty=2.0), problem(n=300)
    trial = make_trial(task, 0.9, 0)
    plain = FiniteThresholds(0.9)._judge(trial, 1.0)
    assert rule._judge(trial, 1.0)[0] == plain[0]
    assert rule._judge(trial, 1.0)[1] > plain[1]
    assert rule.choose(task) > 0.0


@pytest.mark.parametrize(
    "wrong", [{"level": 1.0}, {"n_candidates": 0}, {"penalty": -1.0}, {"most_infinite": 2.0}]
)
def test_bad_parameters_of_the_rule(wrong):
    with pytest.raises(ValueError, match="expected"):
        FiniteThresholds(**wrong).choose(problem(n=30))


@pytest.mark.parametrize("n", [1, 2, 3, 12])
def test_few_reference_rows(n):
    task = BandwidthProblem(np.zeros((n, 1)), np.ones(n), "gaussian", 20.0, 0)
    assert FiniteThresholds().choose(task) > 0.0
