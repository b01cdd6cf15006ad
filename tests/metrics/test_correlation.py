"""Correlations of the length, known conditional coverage, and the curve over levels."""

import numpy as np
import pytest

from localconformal.metrics import (
    binomial_band,
    coverage,
    coverage_length_curve,
    length_coverage_corr,
    length_error_corr,
    mean_absolute_conditional_gap,
    mean_length,
    mean_squared_conditional_error,
    median_length,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    half = rng.uniform(0.5, 2.5, size=300)
    mu = rng.normal(size=300)
    y = mu + half * rng.normal(size=300) / 1.5
    return y, np.stack([mu - half, mu + half], axis=1), mu


def test_correlations_are_numpy_s(problem):
    y, intervals, mu = problem
    length = intervals[:, 1] - intervals[:, 0]
    covered = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    expected = np.corrcoef(length, covered)[0, 1]
    assert length_coverage_corr(y, intervals) == pytest.approx(expected)
    expected = np.corrcoef(length, np.abs(y - mu))[0, 1]
    assert length_error_corr(y, intervals) == pytest.approx(expected)
    assert length_error_corr(y, intervals, mu) == pytest.approx(expected)
    expected = np.corrcoef(length, np.abs(y - 3.0))[0, 1]
    assert length_error_corr(y, intervals, np.full(300, 3.0)) == pytest.approx(expected)


def test_infinite_rows_are_left_out(problem):
    y, intervals, mu = problem
    some = intervals.copy()
    some[:50, 0] = -np.inf
    some[50:80] = [-np.inf, np.inf]
    rest = (y[80:], intervals[80:])
    assert length_coverage_corr(y, some) == pytest.approx(length_coverage_corr(*rest))
    assert length_error_corr(y, some) == pytest.approx(length_error_corr(*rest))
    assert length_error_corr(y, some, mu) == pytest.approx(length_error_corr(*rest))


def test_undefined_correlations_are_nan(problem):
    y, intervals, mu = problem
    same = np.stack([mu - 1.0, mu + 1.0], axis=1)
    assert np.isnan(length_coverage_corr(y, same))
    assert np.isnan(length_error_corr(y, same))
    assert np.isnan(length_coverage_corr(mu, intervals))
    assert np.isnan(length_coverage_corr(y[:1], intervals[:1]))
    assert np.isnan(length_coverage_corr(y, np.tile([-np.inf, np.inf], (300, 1))))


def test_tiny_and_huge_units_do_not_matter(problem):
    y, intervals, _ = problem
    for unit in (1e-200, 1e200):
        for metric in (length_coverage_corr, length_error_corr):
            assert metric(unit * y, unit * intervals) == pytest.approx(metric(y, intervals))


def test_predictions_are_checked(problem):
    y, intervals, mu = problem
    with pytest.raises(ValueError, match=r"y_pred has shape \(299,\)"):
        length_error_corr(y, intervals, mu[1:])


def test_distances_of_a_known_conditional_coverage():
    pi, levels = np.random.default_rng(0).random((50, 3)), np.array([0.5, 0.8, 0.9])
    for l, level in enumerate(levels):
        squares = np.mean([(p - level) ** 2 for p in pi[:, l]])
        gaps = np.mean([abs(p - level) for p in pi[:, l]])
        assert mean_squared_conditional_error(pi[:, l], level) == pytest.approx(squares)
        assert mean_squared_conditional_error(pi, levels)[l] == pytest.approx(squares)
        assert mean_absolute_conditional_gap(pi[:, l], level) == pytest.approx(gaps)
        assert mean_absolute_conditional_gap(pi, levels)[l] == pytest.approx(gaps)
    assert mean_absolute_conditional_gap(np.full(9, 0.9), 0.9) == 0.0


@pytest.mark.parametrize(
    ("pi", "level", "told"),
    [
        ([1.2], 0.9, "outside"),
        ([np.nan], 0.9, "outside"),
        ([], 0.9, r"shape \(0,\)"),
        ([0.5], [0.5, 0.9], "one number"),
        ([0.5], 1.0, r"\(0, 1\)"),
    ],
)
def test_conditional_coverage_is_checked(pi, level, told):
    with pytest.raises(ValueError, match=told):
        mean_squared_conditional_error(pi, level)


def test_the_curve_is_each_level_by_itself_in_ascending_order(problem):
    y, intervals, mu = problem
    factors = [1.2, 0.4, 2.0]
    centre = mu[:, None]
    bounds = np.stack([centre + c * (intervals - centre) for c in factors], axis=2)
    bounds[0, 1, 2] = np.inf
    curve = coverage_length_curve(y, bounds, [0.8, 0.3, 0.95])
    np.testing.assert_array_equal(curve.confidence_level, [0.3, 0.8, 0.95])
    for place, l in enumerate([1, 0, 2]):
        share = coverage(y, bounds[:, :, l])
        band = binomial_band(round(share * 300), 300)
        assert curve.coverage[place] == pytest.approx(share)
        assert curve.gap[place] == pytest.approx(share - curve.confidence_level[place])
        assert (curve.lower[place], curve.upper[place]) == pytest.approx(band)
        assert curve.mean_length[place] == pytest.approx(mean_length(y, bounds[:, :, l]))
        assert curve.median_length[place] == pytest.approx(median_length(y, bounds[:, :, l]))
    assert list(curve.frame()["coverage"]) == list(curve.coverage)
    assert len(coverage_length_curve(y, intervals, 0.8).coverage) == 1
    with pytest.raises(ValueError, match="as many levels"):
        coverage_length_curve(y, bounds, 0.8)
