"""Coverage given something: groups, lengths, slabs, and what a classifier can see."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, binomtest, norm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from localconformal.columns import read_columns
from localconformal.datasets import load_simulation
from localconformal.metrics import (
    binomial_band,
    coverage,
    coverage_gap,
    excess_risk,
    group_coverage,
    hsic,
    mean_absolute_conditional_gap,
    size_stratified_coverage,
    size_stratified_coverage_score,
    worst_slab_coverage,
)
from localconformal.metrics.conditional import _find_slab, _standardised, _worst_segment


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    half = rng.uniform(0.5, 2.5, size=200)
    return rng.normal(size=200), np.stack([-half, half], axis=1), rng.integers(0, 5, size=200)


def test_the_binomial_band_is_scipy_s_exact_one_and_holds_whatever_the_truth():
    k = np.arange(31)
    for probability in (0.8, 0.95):
        lower, upper = binomial_band(k, 30, probability)
        for hits in (0, 1, 17, 29, 30):
            exact = binomtest(hits, 30).proportion_ci(probability, method="exact")
            assert (lower[hits], upper[hits]) == pytest.approx((exact.low, exact.high))
        for p in (0.5, 0.9, 0.99):
            assert binom.pmf(k, 30, p)[(lower <= p) & (p <= upper)].sum() >= probability
    for counts in [(3, 2), (-1, 2), (0.5, 2), ([1, 5], [2, 4])]:
        with pytest.raises(ValueError, match="n_covered"):
            binomial_band(*counts)


def test_group_coverage_is_the_coverage_of_each_group(problem):
    y, intervals, groups = problem
    result = group_coverage(y, intervals, groups, 0.8)
    np.testing.assert_array_equal(result.group, np.unique(groups))
    for g, name in enumerate(result.group):
        rows = groups == name
        share, n = coverage(y[rows], intervals[rows]), int(rows.sum())
        found = [result.n[g], result.coverage[g], result.gap[g], result.lower[g], result.upper[g]]
        assert found == pytest.approx([n, share, share - 0.8, *binomial_band(round(share * n), n)])
    assert list(result.frame()["n"]) == list(result.n)
    gaps = np.abs(result.gap)
    assert coverage_gap(y, intervals, groups, 0.8) == pytest.approx(gaps.mean())
    whole = abs(coverage(y, intervals) - 0.8)
    for one in (["all"] * 200, None):
        assert coverage_gap(y, intervals, one, 0.8) == pytest.approx(whole)
    both = coverage_gap(y, np.stack([intervals, 2 * intervals], axis=2), None, [0.8, 0.9])
    assert both[0] == pytest.approx(whole)
    with pytest.raises(ValueError, match=r"got groups of shape \(3,\); expected \(200,\)"):
        group_coverage(y, intervals, [1, 2, 3])


def test_labels_of_any_kind_missing_ones_a_group():
    missing = ["nan", 1, None] * 5 + ["nan", 1.0, float("nan")] * 4 + ["nan", np.int8(1), pd.NA]
    days = np.array(["2024-01-01", "2024-01-02", "NaT"] * 10, dtype="datetime64[D]")
    for labels in ([1.0, 2.0, np.nan] * 10, pl.Series(["a", "b", None] * 10), days, missing):
        result = group_coverage(np.zeros(30), np.tile([-1.0, 1.0], (30, 1)), labels)
        np.testing.assert_array_equal(result.n, [10, 10, 10])


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


def test_equal_lengths_are_one_bin_and_infinite_ones_another(problem):
    half = np.repeat([1.0, 2.0, 3.0, np.inf], [10, 50, 30, 10])
    centre = np.random.default_rng(1).normal(scale=50.0, size=100)
    # Up to the rounding of their bounds, which is larger far from zero.
    bounds = np.stack([centre - half, centre + half], axis=1)
    result = size_stratified_coverage(centre, bounds, n_bins=10)
    np.testing.assert_array_equal(result.n, [10, 50, 30, 10])
    for ends in (result.shortest, result.longest):
        np.testing.assert_allclose(ends, [2.0, 4.0, 6.0, np.inf])
    y, intervals, _ = problem
    assert len(size_stratified_coverage(y[:4], intervals[:4], n_bins=9).n) == 4
    with pytest.raises(ValueError, match="n_bins: got 0"):
        size_stratified_coverage_score(y, intervals, n_bins=0)


def by_matrices(length, covered):
    """trace(K H L H) / (n - 1)^2 as written; infinite lengths far from finite ones."""
    n, u = len(length), np.minimum(length / np.std(length[np.isfinite(length)]), 1e6)
    K = np.exp(-((u[:, None] - u[None]) ** 2))
    L, H = np.exp(-((covered[:, None] - covered[None]) ** 2)), np.eye(n) - 1.0 / n
    return np.trace(K @ H @ L @ H) / (n - 1) ** 2


def covering(length, covered):
    return np.where(covered, 0.0, -1.0), np.stack([np.zeros_like(length), length], axis=1)


def test_value_and_p_value_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    for tail, infinite in ((0.0, 0), (5.0, 0), (0.0, 7), (5.0, 7)):
        length = np.exp(tail * rng.normal(size=150)) + rng.random(150)
        length[:infinite] = np.inf
        covered = rng.random(150) < 0.8
        value = hsic(*covering(length, covered), n_permutations=0).value
        assert value == pytest.approx(by_matrices(length, covered.astype(float)), rel=1e-10)
    # p is the share of all ways to miss.
    length = np.array([1.0, 1.5, 1.7, 4.0, 4.5, 4.0, 9.0])
    ways = [np.isin(np.arange(7), missed, invert=True) for missed in combinations(range(7), 2)]
    values = np.array([by_matrices(length, covered.astype(float)) for covered in ways])
    observed, share = ways[15], np.mean(values >= values[15] - 1e-12)
    result = hsic(*covering(length, observed), n_permutations=4_000)
    assert result.p_value == pytest.approx(share, abs=4.0 * np.sqrt(share / 4_000))


def test_p_values_are_uniform_under_independence():
    rng = np.random.default_rng(1)
    p = [
        hsic(*covering(rng.exponential(size=40), rng.random(40) < 0.8), n_permutations=99).p_value
        for _ in range(100)
    ]
    for level in (0.1, 0.3, 0.5, 0.7):
        low, high = binom.ppf([1e-3, 1 - 1e-3], 100, level)
        assert low <= np.sum(np.array(p) <= level) <= high


@pytest.mark.ci
def test_many_rows_are_drawn_from_and_their_order_does_not_matter():
    rng = np.random.default_rng(3)
    length = rng.exponential(size=12_000) ** 2
    covered = rng.random(12_000) < np.where(length > 2.0, 0.8, 0.95)
    length[:20] = np.inf
    y, bounds = covering(length, covered)
    first, again, other = (hsic(y, bounds, n_permutations=9, random_state=i) for i in (0, 0, 1))
    assert first == again
    assert (first.n, other.n) == (5_000, 5_000)
    assert first.value == pytest.approx(other.value, rel=0.5)
    order = rng.permutation(3_000)
    given, moved = (hsic(y[i], bounds[i], n_permutations=99) for i in (slice(3_000), order))
    assert moved.value == pytest.approx(given.value, rel=1e-9)
    assert moved.p_value == given.p_value
    # Of so many lengths the rounded ones are used.
    exact = by_matrices(length[:3_000], covered[:3_000].astype(float))
    assert given.value == pytest.approx(exact, rel=0.01)


def misses(covered):
    return np.where(covered, 0.0, 2.0), np.tile([-1.0, 1.0], (len(covered), 1))


@pytest.mark.parametrize("share", [0.3, 0.8, 1.0])
def test_the_worst_segment_is_that_of_all_long_enough_ones(share):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        covered, breaks = rng.random((3, 40)) < share, rng.random((3, 41)) < 0.7
        breaks[:, [0, -1]] = True
        brute = min(
            c[i:j].mean()
            for c, may in zip(covered, breaks, strict=True)
            for i in range(40)
            for j in range(i + 6, 41)
            if may[i] and may[j]
        )
        mean, start, end, row = _worst_segment(covered, 6, breaks)
        assert mean == pytest.approx(brute)
        assert covered[row, start:end].mean() == pytest.approx(brute)
        assert end - start >= 6
        assert breaks[row, [start, end]].all()
        # Nothing below the minimum is there to be found.
        assert _worst_segment(covered, 6, breaks, known=mean)[0] == mean


def test_rows_of_equal_value_are_in_the_slab_together_or_not_at_all():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, size=400).astype(float)
    covered = rng.random(400) < np.array([0.9, 0.9, 0.6, 0.9])[x.astype(int)]
    _, low, high = _find_slab(x[:, None], covered, np.ones((1, 1)), 0.1)
    assert (low, high) == (2.0, 2.0)


def test_oracle_intervals_have_their_level_in_the_worst_slab():
    simulation, held, found, outside = load_simulation("sim2"), [], [], 0
    for repeat in range(60):
        X, y = simulation.sample(600, random_state=repeat)
        ideal = simulation.quantile(X, [0.05, 0.95])
        X = np.hstack([X, np.random.default_rng(repeat).normal(size=(600, 3))])
        slab = worst_slab_coverage(y, ideal, X, n_directions=50, random_state=repeat)
        outside += not slab.lower <= 0.9 <= slab.upper
        held.append(slab.coverage - 0.9)
        found.append(slab.found_coverage - 0.9)
    assert outside <= binom.ppf(0.999, 60, 0.05)
    assert abs(np.mean(held)) < 3.5 * np.std(held) / np.sqrt(60)
    # Without hold-out it is biased.
    assert np.mean(found) < -0.08


def test_a_failure_along_an_axis_or_across_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 6))
    for where in (X[:, 3] > 1.0, X[:, 0] + X[:, 1] > 1.5):
        covered = rng.random(4_000) < np.where(where, 0.5, 0.95)
        slab = worst_slab_coverage(*misses(covered), X)
        assert slab.upper < 0.8
        assert float(slab) == slab.coverage
        assert slab.n + slab.found_n <= 4_000


def test_slabs_see_labels_missing_values_and_columns_that_say_nothing():
    rng = np.random.default_rng(0)
    weather, hour = rng.choice(["rain", "snow", "sun"], size=2_000), rng.normal(size=2_000)
    frame = pd.DataFrame(
        {
            "weather": np.where(hour > 2, None, weather),
            "hour": np.where(hour > 1.5, np.nan, hour),
            "none": [None] * 2_000,
            "same": [1e300] * 2_000,
        }
    )
    covered = rng.random(2_000) < np.where(weather == "snow", 0.5, 0.97)
    # Without random directions a slab is along one column.
    slab = worst_slab_coverage(*misses(covered), frame, n_directions=0)
    assert slab.upper < 0.7
    assert slab.frame()["column"][0] == "weather=snow"
    assert {"hour", "same", "weather=sun"} < set(slab.columns)


def test_standardised_columns_have_one_scale_whatever_their_unit():
    x = np.random.default_rng(0).normal(size=50)
    known = np.where(np.arange(50) % 7, x, np.nan)
    X = np.stack([known, 1e200 * known, 1e-200 * known, *np.tile([[7.3], [np.nan]], 50)], axis=1)
    points, (names, source, center, scale) = _standardised(read_columns(X, 50))
    np.testing.assert_allclose(points[:, :3], np.tile(points[:, :1], 3))
    np.testing.assert_array_equal(points[:, 3:], 0.0)
    assert (points[::7, 0] == 0.0).all()
    seen = np.isfinite(known)
    np.testing.assert_allclose([points[seen, 0].mean(), points[seen, 0].std()], [0, 1], atol=1e-9)
    np.testing.assert_allclose(center[0] + scale[0] * points[seen, 0], known[seen])
    assert (names, source.tolist()) == (("x0", "x1", "x2", "x3", "x4"), [0, 1, 2, 3, 4])


def test_slabs_of_few_rows():
    y, intervals = misses(np.array([True, False, True]))
    assert np.isnan(worst_slab_coverage(y[:1], intervals[:1], [[0.0]]).coverage)
    # All rows are one place, so that the slab holds everything.
    result = worst_slab_coverage(y, intervals, [[0.0], [0.0], [0.0]])
    assert (result.n, result.found_n) == (2, 1)


def test_bad_input_of_slabs_is_refused():
    given = np.zeros(4), np.zeros((4, 2)), np.zeros((4, 1))
    for name, value in {"delta": 0.0, "n_directions": -1}.items():
        with pytest.raises(ValueError, match=f"{name}={value}"):
            worst_slab_coverage(*given, **{name: value})


@pytest.fixture(scope="module")
def loud():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    return np.exp(X[:, 0]) * rng.normal(size=500), np.tile([-2.5, 2.5], (500, 1)), X


def test_the_risk_is_that_of_its_definition(loud):
    y, intervals, X = loud
    c, p, judge = (np.abs(y) <= 2.5).astype(float), np.empty(500), LogisticRegression()
    for train, test in KFold(5, shuffle=True, random_state=3).split(X):
        p[test] = clone(judge).fit(X[train], c[train]).predict_proba(X[test])[:, 1]
    result = excess_risk(y, intervals, X, 0.8, classifier=judge, random_state=3)
    np.testing.assert_allclose(result.predicted, p)
    each = np.sign(0.8 - p) * (0.8 - c)
    assert float(result) == result.l1 == pytest.approx(np.mean(each))
    assert result.l1_error == pytest.approx(np.std(each, ddof=1) / np.sqrt(500))


def test_oracle_intervals_have_no_excess_risk_and_constant_ones_have():
    simulation, scores = load_simulation("sim2"), []
    for repeat in range(3):
        X, y = simulation.sample(2_000, random_state=repeat)
        result = excess_risk(y, simulation.quantile(X, [0.05, 0.95]), X, random_state=repeat)
        scores.append(result.l1 / result.l1_error)
    assert np.max(np.abs(scores)) < 4.0
    assert abs(np.mean(scores)) < 2.0

    half = 1.645 * 0.15 * 2.5
    intervals = simulation.mean(X)[:, None] + [-half, half]
    pi = 1.0 - 2.0 * norm.sf(half / (0.15 * X[:, 0]))
    truth, result = mean_absolute_conditional_gap(pi), excess_risk(y, intervals, X)
    # A lower bound, and boosting comes near it.
    assert 0.7 * truth < result.l1 < truth + 3.0 * result.l1_error


def test_full_coverage_few_rows_and_few_misses(loud):
    y, intervals, X = loud
    result = excess_risk(y, np.tile([-np.inf, np.inf], (500, 1)), X, 0.9)
    assert result.l1 == pytest.approx(0.1)
    assert np.isnan(excess_risk(y[:1], intervals[:1], X[:1]).l1)
    for n in (2, 3, 30):
        assert np.isfinite(excess_risk(y[:n], intervals[:n], X[:n]).l1)
    rare = np.where(np.arange(500) < 3, 9.0, 0.0)
    assert len(np.unique(excess_risk(rare, intervals, X).predicted)) <= 5
    with pytest.raises(ValueError, match="n_splits: got 1"):
        excess_risk(y, intervals, X, n_splits=1)


def test_risks_see_labels_and_missing_values():
    rng = np.random.default_rng(0)
    weather = rng.choice(["rain", "snow", "sun"], size=1_500).astype(object)
    y = rng.normal(size=1_500) * np.where(weather == "snow", 3.0, 1.0)
    weather[rng.random(1_500) < 0.05] = None
    x = np.where(np.arange(1_500) % 7, rng.normal(size=1_500), np.nan)
    frame = pd.DataFrame({"weather": pd.Series(weather, dtype=object), "x": x})
    intervals = np.tile([-1.8, 1.8], (1_500, 1))
    result = excess_risk(y, intervals, frame)
    assert result.l1 > 5.0 * result.l1_error
    # A classifier of the user's own sees the frame itself.
    seen = make_pipeline(ColumnTransformer([("own", "passthrough", ["x"])]), LogisticRegression())
    assert np.isfinite(excess_risk(y, intervals, frame.fillna(0.0), classifier=seen).l1)
