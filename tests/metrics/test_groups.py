"""Coverage of groups and of bins of the length, against loops and scipy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, binomtest

from localconformal.metrics import (
    binomial_band,
    coverage,
    coverage_gap,
    group_coverage,
    size_stratified_coverage,
    size_stratified_coverage_score,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    half = rng.uniform(0.5, 2.5, size=200)
    return rng.normal(size=200), np.stack([-half, half], axis=1), rng.integers(0, 5, size=200)


@pytest.mark.parametrize("probability", [0.8, 0.95])
def test_the_binomial_band_is_scipy_s_exact_one(probability):
    k, n = np.array([0, 1, 17, 49, 50]), 50
    lower, upper = binomial_band(k, n, probability)
    for i, hits in enumerate(k):
        exact = binomtest(int(hits), n).proportion_ci(probability, method="exact")
        assert (lower[i], upper[i]) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_the_binomial_band_holds_its_probability_whatever_the_truth(p):
    k = np.arange(31)
    lower, upper = binomial_band(k, 30, 0.9)
    assert binom.pmf(k, 30, p)[(lower <= p) & (p <= upper)].sum() >= 0.9


@pytest.mark.parametrize(("k", "n"), [(3, 2), (-1, 2), (0.5, 2), ([1, 5], [2, 4])])
def test_counts_that_are_none_are_refused(k, n):
    with pytest.raises(ValueError, match="n_covered"):
        binomial_band(k, n)


def test_group_coverage_is_the_coverage_of_each_group(problem):
    y, intervals, groups = problem
    result = group_coverage(y, intervals, groups, 0.8)
    np.testing.assert_array_equal(result.group, np.unique(groups))
    for g, name in enumerate(result.group):
        rows = groups == name
        share = coverage(y[rows], intervals[rows])
        assert result.n[g] == rows.sum()
        assert result.coverage[g] == pytest.approx(share)
        assert result.gap[g] == pytest.approx(share - 0.8)
        band = binomial_band(round(share * rows.sum()), int(rows.sum()))
        assert (result.lower[g], result.upper[g]) == pytest.approx(band)
    assert coverage_gap(y, intervals, groups, 0.8) == pytest.approx(np.abs(result.gap).mean())
    weighted = np.average(np.abs(result.gap), weights=result.n)
    assert coverage_gap(y, intervals, groups, 0.8, weighted=True) == pytest.approx(weighted)
    frame = result.frame()
    assert list(frame["n"]) == list(result.n)
    assert len(frame) == 5


def test_one_group_is_the_whole_and_the_gap_is_its_own(problem):
    y, intervals, _ = problem
    result = group_coverage(y, intervals, ["all"] * 200)
    assert result.coverage == pytest.approx(coverage(y, intervals))
    gap = abs(coverage(y, intervals) - 0.9)
    assert coverage_gap(y, intervals, ["all"] * 200) == pytest.approx(gap)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", None],
        [1.0, 2.0, np.nan],
        ["a", 3, np.nan],
        pd.Categorical(["a", "b", None]),
        pd.Series(["a", "b", None]),
        pl.Series(["a", "b", None]),
        np.array(["2024-01-01", "2024-01-02", "NaT"], dtype="datetime64[D]"),
        [(1, 2), "b", None],
    ],
    ids=str,
)
def test_labels_of_any_kind_missing_ones_a_group(labels):
    values = list(labels)
    many = np.empty(30, dtype=object)
    many[:] = [values[i % 3] for i in range(30)]
    plain = not isinstance(labels, list)
    kept = type(labels)(list(many)) if plain and not isinstance(labels, np.ndarray) else many
    if isinstance(labels, np.ndarray):
        kept = np.tile(labels, 10)
    result = group_coverage(np.zeros(30), np.tile([-1.0, 1.0], (30, 1)), kept)
    np.testing.assert_array_equal(result.n, [10, 10, 10])


def test_all_that_is_missing_is_one_group_and_the_text_nan_another():
    labels = ["a", None, float("nan"), pd.NA, "nan"] * 6
    for groups in (labels, np.array(labels, dtype=object)):
        result = group_coverage(np.zeros(30), np.tile([-1.0, 1.0], (30, 1)), groups)
        assert list(result.group) == ["a", "nan", None]
        np.testing.assert_array_equal(result.n, [6, 6, 18])


def test_equal_numbers_are_one_group_whatever_holds_them():
    labels = np.array([1, 1.0, np.int8(1), 2, "a"], dtype=object)
    found = group_coverage(np.zeros(5), np.tile([-1.0, 1.0], (5, 1)), labels, confidence_level=0.9)
    assert found.n.tolist() == [3, 1, 1]


def test_without_groups_the_gap_is_that_of_all_rows(problem):
    y, intervals, _ = problem
    gap = abs(coverage(y, intervals) - 0.8)
    assert coverage_gap(y, intervals, confidence_level=0.8) == pytest.approx(gap)
    levels = coverage_gap(y, np.stack([intervals, 2 * intervals], axis=2), None, [0.8, 0.9])
    assert levels.shape == (2,)
    assert levels[0] == pytest.approx(gap)


def test_groups_of_another_length_are_refused():
    with pytest.raises(ValueError, match=r"groups have shape \(3,\); \(4,\) was expected"):
        group_coverage(np.zeros(4), np.zeros((4, 2)), [1, 2, 3])


def test_bins_of_the_length_are_those_of_sorted_rows(problem):
    y, intervals, _ = problem
    result = size_stratified_coverage(y, intervals, n_bins=7)
    order = np.argsort(intervals[:, 1] - intervals[:, 0])
    for b, rows in enumerate(np.array_split(order, 7)):
        length = intervals[rows, 1] - intervals[rows, 0]
        assert result.n[b] == len(rows)
        assert result.coverage[b] == pytest.approx(coverage(y[rows], intervals[rows]))
        assert (result.shortest[b], result.longest[b]) == (length.min(), length.max())
    worst = size_stratified_coverage_score(y, intervals, n_bins=7)
    assert worst == pytest.approx(result.coverage.min())
    assert len(result.frame()) == 7


def test_constant_lengths_are_one_bin_and_the_infinite_ones_another():
    rng = np.random.default_rng(1)
    mu = rng.normal(scale=50.0, size=100)
    bounds = np.stack([mu - 0.3, mu + 0.3], axis=1)
    y = mu + rng.normal(scale=0.3, size=100)
    one = size_stratified_coverage(y, bounds)
    np.testing.assert_array_equal(one.n, [100])
    bounds[:10] = [-np.inf, np.inf]
    two = size_stratified_coverage(y, bounds)
    np.testing.assert_array_equal(two.n, [90, 10])
    assert two.coverage[1] == 1.0
    assert two.longest[1] == two.shortest[1] == np.inf
    assert two.longest[0] < 1.0


def test_equal_lengths_stay_together():
    half = np.repeat([1.0, 2.0, 3.0], [10, 50, 40])
    bounds = np.stack([-half, half], axis=1)
    result = size_stratified_coverage(np.zeros(100), bounds, n_bins=10)
    np.testing.assert_array_equal(result.n, [10, 50, 40])
    np.testing.assert_array_equal(result.longest, [2.0, 4.0, 6.0])


def test_more_bins_than_rows_are_one_row_each_and_none_is_refused(problem):
    y, intervals, _ = problem
    assert len(size_stratified_coverage(y[:4], intervals[:4], n_bins=9).n) == 4
    with pytest.raises(ValueError, match="n_bins is 0"):
        size_stratified_coverage_score(y, intervals, n_bins=0)
