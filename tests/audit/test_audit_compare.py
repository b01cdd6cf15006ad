"""Methods side by side: their metrics, and paired differences."""

from dataclasses import astuple

import numpy as np
import pytest
from audit_data import oracle
from scipy.stats import binom
from sklearn.linear_model import LinearRegression

from localconformal import SplitConformalRegressor
from localconformal.audit import compare
from localconformal.audit.compare import Comparison, paired_mean, resampled_mean, row_values
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
        up, down = (row_values(y, bounds + shift, 0.9)["interval_score"] for shift in (0.3, -0.3))
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


def test_the_band_of_repeated_splits_knows_that_they_share_rows():
    """Means of overlapping test sets: the corrected band covers, the naive one does not."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(300):
        errors = rng.normal(size=40)
        means = np.array([rng.permutation(errors)[:10].mean() for _ in range(10)])
        for k, ratio in enumerate((10 / 30, 0.0)):
            _, _, low, high = resampled_mean(means, ratio)
            hits[k] += low <= 0.0 <= high
    assert hits[0] / 300 > 0.9 > hits[1] / 300


def several_splits(factor=1.5):
    splits = []
    for seed in range(3):
        X, y, intervals = oracle(200, seed)
        splits.append(compare({"one": intervals, "other": factor * intervals}, X, y))
    return splits


def test_several_splits_are_averaged():
    splits = several_splits()
    found = Comparison.over(splits, test_over_fit=0.25)
    for k, method in enumerate(found.methods):
        for name in ("interval_score", "coverage", "mean_length", "worst_slab_coverage"):
            of_splits = [getattr(split.methods[k].summary, name) for split in splits]
            assert getattr(method.summary, name) == pytest.approx(np.mean(of_splits))
        assert method.summary.lower < method.summary.coverage < method.summary.upper <= 1.0
        assert np.isnan(method.summary.p_value)
        assert method.summary.n == 200
    by_split = [lookup(split, "one") for split in splits]
    for key, row in lookup(found, "one").items():
        apart = [rows[key].difference for rows in by_split]
        mean, error, lower, upper = resampled_mean(np.array(apart), 0.25)
        assert (row.difference, row.error, row.lower, row.upper) == (mean, error, lower, upper)
        assert row.n == 600
    assert found.best == found.ranked[0].name == "one"
    assert "means of 3 random splits" in str(found)
    assert "of 3 splits (n = 200 each)" in found.heading()


def test_one_split_stays_as_it_is_and_splits_have_the_same_methods():
    split, *_ = several_splits()
    assert Comparison.over([split], test_over_fit=0.25) is split
    X, y, intervals = oracle(200, 0)
    for splits in ([], [split, compare({"third": intervals}, X, y)]):
        with pytest.raises(ValueError, match="the same methods in each"):
            Comparison.over(splits, test_over_fit=0.25)


def test_infinite_splits_have_finite_differences():
    splits = several_splits()
    X, y, intervals = oracle(200, 9)
    infinite = intervals.copy()
    infinite[:5] = [-np.inf, np.inf]
    found = Comparison.over(
        [*splits, compare({"one": intervals, "other": infinite}, X, y)], test_over_fit=0.25
    )
    assert found.best == "one"
    assert found.methods[1].summary.interval_score == np.inf
    assert np.isfinite(lookup(found)["other", "interval_score"].upper)
