"""Interval scorers inside scikit-learn's model selection."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold, cross_validate

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
    folds = ((clone(model).fit(X[train], y[train]), test) for train, test in FOLDS.split(X))
    return np.array(
        [metric(y[test], own.predict_interval(X[test]), **options) for own, test in folds]
    )


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


#: Metrics that are a number, and whether more is better; signed ones by their distance from 0.
NUMBERS = {
    **dict.fromkeys(("coverage", "length_error_corr", "worst_slab_coverage"), True),
    **dict.fromkeys(("mean_length", "median_length", "share_infinite", "share_empty"), False),
    **dict.fromkeys(("interval_score", "hsic", "excess_risk", "coverage_gap"), False),
    "size_stratified_coverage_score": True,
    "length_coverage_corr": False,
}
LEVELLED = {"interval_score", "excess_risk", "coverage_gap"}


def by_half(X):
    return X[:, 0] > 0.5


@pytest.mark.parametrize("name", NUMBERS)
def test_every_metric_that_is_a_number_is_a_scorer_at_the_estimator_s_own_level(model, data, name):
    X, y = data
    metric, fitted = getattr(metrics, name), clone(model).set_params(confidence_level=0.8)
    known = {"worst_slab_coverage": {"X": X}, "excess_risk": {"X": X}}.get(name, {})
    known |= {"groups": by_half(X)} if name == "coverage_gap" else {}
    known |= {"confidence_level": 0.8} if name in LEVELLED else {}
    value = float(metric(y, fitted.fit(X, y).predict_interval(X), **known))
    scorer = make_interval_scorer(metric, **({"groups": by_half} if "groups" in known else {}))
    assert scorer.greater_is_better is NUMBERS[name]
    assert scorer(fitted, X, y) == (value if NUMBERS[name] else -abs(value))


def test_crps_is_asked_of_the_estimator(model, data):
    fitted = clone(model).fit(*data)
    assert make_interval_scorer(metrics.crps)(fitted, *data) == -fitted.crps(*data)


@pytest.mark.parametrize(
    ("metric", "options", "error", "told"),
    [
        (coverage, {"weighted": True}, TypeError, "unexpected keyword argument 'weighted'"),
        (lambda y_true, intervals, cost: 0.0, {}, TypeError, "required argument: 'cost'"),
        ("coverage", {}, ValueError, "metric: got 'coverage'"),
    ],
)
def test_what_is_no_score_is_refused_before_any_fold(metric, options, error, told):
    with pytest.raises(error, match=told):
        make_interval_scorer(metric, **options)
    assert make_interval_scorer(lambda y_true, intervals, **options: 0.0, cost=1.0)
