"""Methods side by side: their metrics, and paired differences."""

import math

import numpy as np
import pytest
from audit_data import oracle
from scipy.stats import binom
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal import SplitConformalRegressor
from localconformal.audit import Comparison, compare
from localconformal.audit.compare import bound_movement, paired_mean, resampled_mean, row_values
from localconformal.metrics import coverage, interval_score, mean_length
from registry import ESTIMATORS, ci_but, light, smooth_data

X, Y, INTERVALS = oracle(300, 0)
ALONE = compare({"one": INTERVALS}, X, Y)
SHARE = 0.25


def lookup(comparison, reference=None):
    return {(row.method, row.metric): row for row in comparison.paired(reference)}


def infinite(intervals, n):
    return np.where(np.arange(len(intervals))[:, None] < n, [-np.inf, np.inf], intervals)


@pytest.fixture(scope="module")
def splits():
    """Three splits, where the other method's intervals are longer."""
    made = [oracle(200, seed) for seed in range(3)]
    return [compare({"one": i, "other": 1.5 * i}, X, y) for X, y, i in made]


def test_the_best_is_the_reference_and_differences_are_those_of_the_metrics():
    factors = {"right": 1.0, "short": 0.3, "long": 3.0}
    found = compare({name: k * INTERVALS for name, k in factors.items()}, X, Y)
    assert (found.best, found.frame()["method"].tolist()) == ("right", list(factors))
    assert found.frame()["coverage"].tolist() == [m.summary.coverage for m in found.methods]
    assert set(found.differences()["reference"]) == {"right"}
    metrics = {"interval_score": interval_score, "length": mean_length, "coverage": coverage}
    for (name, metric), row in lookup(found).items():
        measure = metrics[metric]
        expected = measure(Y, factors[name] * INTERVALS) - measure(Y, INTERVALS)
        assert row.difference == pytest.approx(expected, abs=1e-12)
        assert row.lower < row.difference < row.upper
        assert row.n == 300
        back = lookup(found, name)["right", metric]
        assert (back.difference, back.error) == pytest.approx((-row.difference, row.error))
        if metric == "interval_score":
            assert row.lower > 0


def test_confidence_intervals_hold_the_true_difference():
    """Two methods that are equally good: one is the other's mirror image."""
    missed, bounds = 0, np.tile([-1.6, 1.6], (200, 1))
    for seed in range(200):
        y = np.random.default_rng(seed).normal(size=200)
        up, down = (row_values(y, bounds + shift, 0.9)["interval_score"] for shift in (0.3, -0.3))
        _, _, lower, upper, _ = paired_mean(up, down)
        missed += not lower <= 0 <= upper
    assert missed <= binom.ppf(0.99, 200, 0.05)


def test_infinite_intervals_leave_the_finite_rows_and_splits(splits):
    found = compare({"a": INTERVALS, "b": infinite(INTERVALS, 20)}, X, Y)
    assert found.best == "a"
    row = lookup(found)["b", "interval_score"]
    assert (row.n, row.difference) == (280, 0.0)
    assert "both methods are finite" in str(found)
    last = compare({"one": INTERVALS, "other": infinite(INTERVALS, 5)}, X, Y)
    over = Comparison.over([*splits, last], SHARE)
    assert (over.best, over.methods[1].summary.interval_score) == ("one", np.inf)
    assert np.isfinite(lookup(over)["other", "interval_score"].upper)


MODELS = {level: SplitConformalRegressor(confidence_level=level) for level in (0.8, 0.9)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda split: compare([INTERVALS], X, Y), "got a list; expected a dict of name"),
        (lambda split: compare({}, X, Y), "at least one method"),
        (lambda split: compare({"a": INTERVALS[:5]}, X, Y), "one value per interval"),
        (lambda split: compare(MODELS, X, Y), "expected one"),
        (lambda split: split.paired("b"), "expected one of one, other"),
        (lambda split: Comparison.over([], SHARE), "the same methods in each"),
        (lambda split: Comparison.over([split, ALONE], SHARE), "the same methods in each"),
    ],
)
def test_what_is_refused(splits, call, message):
    with pytest.raises(ValueError, match=message):
        call(splits[0])


def test_the_band_of_repeated_splits_knows_that_they_share_rows():
    """Means of overlapping test sets: the corrected band covers, the naive one does not."""
    rng, hits = np.random.default_rng(0), np.zeros(2)
    for _ in range(300):
        errors = rng.normal(size=40)
        means = np.array([rng.permutation(errors)[:10].mean() for _ in range(10)])
        for k, ratio in enumerate((10 / 30, 0.0)):
            _, _, low, high = resampled_mean(means, ratio)
            hits[k] += low <= 0.0 <= high
    assert hits[0] / 300 > 0.9 > hits[1] / 300


def test_several_splits_are_averaged_and_one_stays_as_it_is(splits):
    assert Comparison.over(splits[:1], SHARE) is splits[0]
    found = Comparison.over(splits, SHARE)
    for k, method in enumerate(found.methods):
        for name in ("interval_score", "coverage", "mean_length", "worst_slab_coverage"):
            of_splits = [getattr(split.methods[k].summary, name) for split in splits]
            assert getattr(method.summary, name) == pytest.approx(np.mean(of_splits))
        assert method.summary.lower < method.summary.coverage < method.summary.upper <= 1.0
        assert np.isnan(method.summary.p_value)
        assert method.summary.n == 200
    for key, row in lookup(found, "one").items():
        apart = np.array([lookup(split, "one")[key].difference for split in splits])
        expected = resampled_mean(apart, SHARE)
        assert (row.difference, row.error, row.lower, row.upper, row.n) == (*expected, 600)
    assert found.best == found.ranked[0].name == "one"
    assert "means over 3 random splits" in str(found)
    assert "of 3 splits (n = 200 each)" in found.heading()


@pytest.mark.ci
def test_bounds_move_as_much_as_redrawn_calibration_sets_say():
    """The bootstrap is near the spread over calibration sets drawn from the truth."""
    rng = np.random.default_rng(0)
    model = lc.SplitConformalRegressor(LinearRegression(), calibration_size=None)
    X, y = rng.normal(size=(400, 1)), rng.normal(size=400)
    model.fit(X, y)
    drawn, widths, said = [], [], []
    for _ in range(25):
        model.conformalize(rng.normal(size=(300, 1)), rng.normal(size=300))
        drawn.append(model.predict_interval(X[:5]))
        widths.append(np.diff(drawn[-1], axis=1).mean())
        said.append(bound_movement(model, X[:5]))
    truth = np.std(drawn, axis=0).mean() / np.mean(widths)
    assert 0.5 * truth < np.median(said) < 2.0 * truth
    found = compare({"split": model, "even": np.tile([-2.0, 2.0], (400, 1))}, X, y)
    assert found.frame()["movement"].isna().tolist() == [False, True]
    assert "bounds move" in str(found)
    assert "bounds move" not in str(compare({"even": np.tile([-2.0, 2.0], (400, 1))}, X, y))
    means = Comparison.over([found, found], 0.5)
    assert means.methods[0].movement == found.methods[0].movement


@pytest.mark.parametrize("cls", ci_but([lc.LocartRegressor], ESTIMATORS))
def test_the_movement_of_every_estimator_is_known_but_where_said(cls):
    X, y = smooth_data(500, 0)
    movement = bound_movement(light(cls).fit(X, y), X[:50])
    assert math.isnan(movement) if cls is lc.LCPRegressor else 0.0 <= movement < 0.5
