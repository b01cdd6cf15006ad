"""Metrics against loops; the coverage band against simulation."""

import numpy as np
import pytest

from localconformal.metrics import coverage, coverage_band, interval_score, mean_length
from localconformal.quantiles import conformal_quantile

LEVELS = np.array([0.5, 0.8, 0.95])


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    # Integers, so that many y lie exactly on a bound.
    bounds = np.sort(rng.integers(-3, 4, (80, 2, 3)), axis=1).astype(float)
    return rng.integers(-4, 5, 80).astype(float), bounds


def winkler(y, lower, upper, level):
    miss = lower - y if y < lower else y - upper if y > upper else 0.0
    return upper - lower + 2.0 / (1.0 - level) * miss


def test_metrics_equal_loops_for_one_and_for_several_levels(problem):
    y, bounds = problem
    rows = range(len(y))
    for l, level in enumerate(LEVELS):
        inside = np.mean([bounds[i, 0, l] <= y[i] <= bounds[i, 1, l] for i in rows])
        length = np.mean([bounds[i, 1, l] - bounds[i, 0, l] for i in rows])
        score = np.mean([winkler(y[i], *bounds[i, :, l], level) for i in rows])
        assert coverage(y, bounds)[l] == pytest.approx(inside)
        assert coverage(y, bounds[:, :, l]) == pytest.approx(inside)
        assert mean_length(y, bounds)[l] == pytest.approx(length)
        assert mean_length(None, bounds[:, :, l]) == pytest.approx(length)
        assert interval_score(y, bounds, LEVELS)[l] == pytest.approx(score)
        assert interval_score(y, bounds[:, :, l], level) == pytest.approx(score)


def test_one_level_gives_a_plain_number(problem):
    y, bounds = problem
    for metric in (coverage, mean_length, interval_score):
        assert isinstance(metric(y, bounds[:, :, 0]), float)


def test_infinite_intervals_cover_and_have_infinite_length():
    y, whole = np.zeros(2), np.array([[-np.inf, np.inf], [0.0, 1.0]])
    assert coverage(y, whole) == 1.0
    assert mean_length(y, whole) == np.inf
    assert interval_score(y, whole) == np.inf


def test_the_interval_score_is_least_at_the_true_quantiles():
    y = np.random.default_rng(0).exponential(size=20_000)
    truth = np.quantile(y, [0.05, 0.95])

    def score(pair):
        return interval_score(y, np.tile(pair, (len(y), 1)), 0.9)

    for shift in ([0.1, 0.0], [-0.04, 0.0], [0.0, 0.3], [0.0, -0.3], [0.1, 0.3]):
        assert score(truth) < score(truth + shift)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_coverage_band_holds_its_probability_in_simulation(level):
    n_calibration, n_test, repeats = 60, 80, 3_000
    rng = np.random.default_rng(1)
    thresholds = conformal_quantile(rng.random((n_calibration, repeats)), level)
    shares = (rng.random((n_test, repeats)) <= thresholds).mean(axis=0)
    low, high = coverage_band(n_calibration, n_test, level, probability=0.9)
    inside = np.mean((low <= shares) & (shares <= high))
    # The law is discrete: the band holds at least 0.9, and not much more.
    assert 0.9 - 0.02 <= inside <= 0.96
    assert low < level < high


def test_the_band_is_one_when_the_intervals_are_infinite():
    assert coverage_band(8, 100, 0.9) == (1.0, 1.0)


def test_the_band_shrinks_with_more_rows_and_grows_with_the_probability():
    def width(*args, **kwargs):
        low, high = coverage_band(*args, **kwargs)
        return high - low

    assert width(4_000, 4_000, 0.9) < width(400, 4_000, 0.9) < width(400, 400, 0.9)
    assert width(400, 400, 0.9, probability=0.8) < width(400, 400, 0.9, probability=0.99)


@pytest.mark.parametrize("shape", [(3,), (3, 3), (3, 1), (3, 2, 1, 1)])
def test_intervals_of_another_shape_are_refused_with_the_shape(shape):
    for metric in (coverage, mean_length, interval_score):
        with pytest.raises(ValueError, match=r"intervals have shape .*\(n, 2\)"):
            metric(np.zeros(3), np.zeros(shape))


def test_lengths_that_do_not_match_are_refused_with_both_shapes():
    for metric in (coverage, interval_score):
        with pytest.raises(ValueError, match=r"\(4,\).*\(3, 2\).*as many rows"):
            metric(np.zeros(4), np.zeros((3, 2)))
