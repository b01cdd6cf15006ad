"""Methods side by side: their metrics, and paired differences."""

from dataclasses import astuple

import numpy as np
import pytest
from audit_data import oracle
from scipy.stats import binom
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor
from localconformal.audit import compare
from localconformal.audit.compare import paired_mean, row_scores
from localconformal.metrics import coverage, coverage_gap, interval_score, mean_length


def lookup(comparison, reference=None):
    return {(row.method, row.metric): row for row in comparison.paired(reference)}


def test_differences_are_those_of_the_metrics():
    X, y, intervals = oracle(500, 0)
    found = compare({"a": intervals, "b": 1.2 * intervals}, X, y)
    rows = lookup(found, "a")
    for name, metric in (
        ("interval_score", interval_score),
        ("length", mean_length),
        ("coverage", coverage),
    ):
        expected = metric(y, 1.2 * intervals) - metric(y, intervals)
        row = rows["b", name]
        assert row.difference == pytest.approx(expected, abs=1e-12)
        assert row.lower < row.difference < row.upper
        assert row.n == 500


def test_another_reference_turns_the_sign():
    X, y, intervals = oracle(500, 1)
    found = compare({"a": intervals, "b": 1.2 * intervals}, X, y)
    there, back = lookup(found, "a"), lookup(found, "b")
    for name in ("interval_score", "length", "coverage"):
        assert there["b", name].difference == -back["a", name].difference
        assert there["b", name].error == pytest.approx(back["a", name].error)


def test_the_best_has_the_lowest_score_and_is_the_reference():
    X, y, intervals = oracle(2_000, 2)
    found = compare({"short": 0.3 * intervals, "right": intervals, "long": 3 * intervals}, X, y)
    assert found.best == "right"
    assert set(found.differences()["reference"]) == {"right"}
    scores = found.differences().query("metric == 'interval_score'")
    assert (scores["lower"] > 0).all()


def test_confidence_intervals_hold_the_true_difference():
    """Two methods that are equally good: one is the other's mirror image."""
    missed = 0
    bounds = np.tile([-1.6, 1.6], (200, 1))
    for seed in range(200):
        y = np.random.default_rng(seed).normal(size=200)
        up, down = (row_scores(y, bounds + shift, 0.9) for shift in (0.3, -0.3))
        _, _, lower, upper, _ = paired_mean(up, down)
        missed += not lower <= 0 <= upper
    assert missed <= binom.ppf(0.99, 200, 0.05)


def test_estimators_are_asked():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    y = X[:, 0] + rng.normal(size=400)
    model = SplitConformalRegressor(LinearRegression(), confidence_level=0.8, random_state=0)
    model.fit(X[:200], y[:200])
    held = X[200:], y[200:]
    given = model.predict_interval(held[0])
    found = compare({"asked": model, "given": given}, *held)
    first, second = (astuple(method.summary) for method in found.methods)
    assert np.array_equal(first, second, equal_nan=True)
    assert found.methods[0].summary.confidence_level == 0.8
    wider = compare({"asked": model}, *held, confidence_level=0.95).methods[0].summary
    assert wider.mean_length > found.methods[0].summary.mean_length
    assert wider.confidence_level == 0.95


class Mapie:
    """Returns predictions beside the intervals, and takes no level."""

    def predict_interval(self, X):
        return np.zeros(len(X)), np.tile([[-2.0], [2.0]], (len(X), 1, 1))


def test_predictions_beside_the_intervals_are_put_aside():
    X, y, _ = oracle(200, 3)
    found = compare({"mapie": Mapie()}, X, y, confidence_level=0.8)
    assert found.methods[0].summary.mean_length == 4.0


def test_different_levels_are_refused():
    models = {str(level): SplitConformalRegressor(confidence_level=level) for level in (0.8, 0.9)}
    with pytest.raises(ValueError, match="one was expected"):
        compare(models, [[0.0]], [0.0])


def test_groups():
    X, y, intervals = oracle(500, 4)
    (method,) = compare({"a": intervals}, X, y, groups="weather").methods
    assert method.mean_group_gap == pytest.approx(coverage_gap(y, intervals, X["weather"]))
    assert method.worst_group_coverage <= method.summary.coverage
    (method,) = compare({"a": intervals}, X, y).methods
    assert np.isnan(method.worst_group_coverage)


def test_infinite_intervals_leave_the_finite_rows():
    X, y, intervals = oracle(300, 5)
    infinite = intervals.copy()
    infinite[:20] = [-np.inf, np.inf]
    found = compare({"a": intervals, "b": infinite}, X, y)
    assert found.best == "a"
    row = lookup(found)["b", "interval_score"]
    assert (row.n, row.difference) == (280, 0.0)
    assert "both methods are finite" in str(found)


def test_frames_and_texts():
    X, y, intervals = oracle(300, 6)
    found = compare({"one": intervals, "two": 2 * intervals}, X, y)
    assert found.frame()["method"].tolist() == ["one", "two"]
    assert found.frame()["coverage"].tolist() == [m.summary.coverage for m in found.methods]
    assert "Differences from one" in str(found)
    assert "<table>" in found._repr_html_()
    alone = compare({"one": intervals}, X, y)
    assert "Differences" not in str(alone)
    assert "Differences" not in alone._repr_html_()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, X, y: compare({}, X, y), "at least one method"),
        (lambda a, X, y: compare({"a": a}, X, y).paired("b"), "one of a was expected"),
        (lambda a, X, y: compare({"a": a[:5]}, X, y), "as many rows as intervals"),
    ],
)
def test_what_is_refused(call, message):
    X, y, intervals = oracle(100, 7)
    with pytest.raises(ValueError, match=message):
        call(intervals, X, y)
