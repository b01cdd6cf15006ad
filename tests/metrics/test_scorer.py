"""Interval scorers inside scikit-learn's model selection."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate

from localconformal import KernelLaw, SLCPRegressor, metrics
from localconformal.metrics import coverage, interval_score, make_interval_scorer, mean_length

FOLDS = KFold(3)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(240, 1))
    return X, X[:, 0] + X[:, 0] * rng.normal(size=240)


@pytest.fixture(scope="module")
def model():
    law = KernelLaw(bandwidth=0.5)
    return SLCPRegressor(LinearRegression(), law=law, reference="train", random_state=0)


def by_hand(model, X, y, metric, **options):
    values = []
    for train, test in FOLDS.split(X):
        fitted = clone(model).fit(X[train], y[train])
        values.append(metric(y[test], fitted.predict_interval(X[test]), **options))
    return np.array(values)


def test_each_fold_has_its_metric_with_losses_negated_and_options_passed_on(model, data):
    scorers = {
        "coverage": make_interval_scorer(coverage, greater_is_better=True),
        "length": make_interval_scorer(mean_length),
        "winkler": make_interval_scorer(interval_score, confidence_level=0.8),
    }
    got = cross_validate(model, *data, cv=FOLDS, scoring=scorers)
    np.testing.assert_array_equal(got["test_coverage"], by_hand(model, *data, coverage))
    np.testing.assert_array_equal(got["test_length"], -by_hand(model, *data, mean_length))
    # The level goes to the intervals too: a metric must judge what was asked for.
    lower = clone(model).set_params(confidence_level=0.8)
    winkler = by_hand(lower, *data, interval_score, confidence_level=0.8)
    np.testing.assert_array_equal(got["test_winkler"], -winkler)


def test_the_level_is_the_estimator_s_own_unless_given(model, data):
    half = clone(model).set_params(confidence_level=0.5).fit(*data)
    expected = interval_score(data[1], half.predict_interval(data[0]), 0.5)
    assert make_interval_scorer(interval_score)(half, *data) == pytest.approx(-expected)
    with pytest.raises(ValueError, match="metric is 'coverage'"):
        make_interval_scorer("coverage")


def test_grid_search_picks_the_candidate_of_the_best_metric(model, data):
    grid = {"law__bandwidth": [0.1, 0.5, 1e6]}
    search = GridSearchCV(model, grid, cv=FOLDS, scoring=make_interval_scorer(interval_score))
    search.fit(*data)
    means = [
        by_hand(clone(model).set_params(law__bandwidth=h), *data, interval_score).mean()
        for h in grid["law__bandwidth"]
    ]
    assert search.best_params_ == {"law__bandwidth": grid["law__bandwidth"][int(np.argmin(means))]}
    assert search.best_estimator_.predict_interval(data[0][:2]).shape == (2, 2)


NUMBERS = {
    "coverage": True,
    "mean_length": False,
    "median_length": False,
    "share_infinite": False,
    "share_empty": False,
    "interval_score": False,
    "length_error_corr": True,
    "size_stratified_coverage_score": True,
    "hsic": False,
    "worst_slab_coverage": True,
    "excess_risk": False,
    "coverage_gap": False,
}


def by_half(X):
    return X[:, 0] > 0.5


@pytest.mark.parametrize("name", NUMBERS)
def test_every_metric_that_is_a_number_is_a_scorer(model, data, name):
    X, y = data
    metric, fitted = getattr(metrics, name), clone(model).fit(X, y)
    needs = {"worst_slab_coverage": {"X": X}, "excess_risk": {"X": X}}.get(name, {})
    options = {"groups": by_half} if name == "coverage_gap" else {}
    known = {"groups": by_half(X)} if name == "coverage_gap" else needs
    value = float(metric(y, fitted.predict_interval(X), **known))
    scorer = make_interval_scorer(metric, **options)
    assert scorer.greater_is_better is NUMBERS[name]
    assert scorer(fitted, X, y) == (value if NUMBERS[name] else -value)


def test_crps_is_asked_of_the_estimator(model, data):
    fitted = clone(model).fit(*data)
    scorer = make_interval_scorer(metrics.crps)
    assert scorer(fitted, *data) == -fitted.crps(*data)
    with pytest.raises(ValueError, match="crps got weights"):
        make_interval_scorer(metrics.crps, weights=[1.0])


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("group_coverage", "coverage_gap"),
        ("size_stratified_coverage", "size_stratified_coverage_score"),
        ("coverage_length_curve", "interval_score"),
        ("mean_squared_conditional_error", "excess_risk"),
        ("mean_absolute_conditional_gap", "excess_risk"),
        ("coverage_band", "coverage_gap"),
        ("binomial_band", "coverage_gap"),
    ],
)
def test_what_is_no_number_is_refused_before_any_fold(name, instead):
    with pytest.raises(ValueError, match=f"^{name} .*; use {instead}\\.$"):
        make_interval_scorer(getattr(metrics, name))


def test_options_are_checked_before_any_fold():
    with pytest.raises(ValueError, match="coverage takes no weighted"):
        make_interval_scorer(coverage, weighted=True)
    with pytest.raises(ValueError, match="<lambda> needs cost; pass cost= here"):
        make_interval_scorer(lambda y_true, intervals, cost: 0.0)
    assert make_interval_scorer(lambda y_true, intervals, **options: 0.0, cost=1.0)


def test_gaps_and_signed_metrics_are_scored_by_their_distance_from_zero(model, data):
    fitted = clone(model).set_params(confidence_level=0.8).fit(*data)
    gap = abs(coverage(data[1], fitted.predict_interval(data[0])) - 0.8)
    assert make_interval_scorer(metrics.coverage_gap)(fitted, *data) == pytest.approx(-gap)
    by_group = make_interval_scorer(metrics.coverage_gap, groups=by_half)
    assert np.all(cross_val_score(model, *data, cv=FOLDS, scoring=by_group) <= 0.0)
    value = metrics.length_coverage_corr(data[1], fitted.predict_interval(data[0]))
    scorer = make_interval_scorer(metrics.length_coverage_corr)
    assert scorer(fitted, *data) == -abs(value)
