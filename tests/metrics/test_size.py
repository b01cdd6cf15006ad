"""Lengths of empty, infinite and tied intervals."""

import numpy as np
import pytest

from localconformal import metrics
from localconformal.metrics.size import lengths, tied_lengths

INF = np.inf
#: Each with its length and whether it is empty.
CASES = [
    ((0.0, 1.0), 1.0, False),
    ((1.0, 1.0), 0.0, False),
    ((2.0, 1.0), 0.0, True),
    ((-INF, INF), INF, False),
    ((-INF, 0.0), INF, False),
    ((0.0, INF), INF, False),
    ((INF, INF), 0.0, True),
    ((-INF, -INF), 0.0, True),
    ((INF, -INF), 0.0, True),
]
X_METRICS = {"worst_slab_coverage", "excess_risk"}
GROUP_METRICS = {"group_coverage", "coverage_gap"}
METRICS = [
    "coverage",
    "mean_length",
    "median_length",
    "share_infinite",
    "share_empty",
    "interval_score",
    "length_coverage_corr",
    "length_error_corr",
    "size_stratified_coverage",
    "size_stratified_coverage_score",
    "hsic",
    "group_coverage",
    "coverage_gap",
    "worst_slab_coverage",
    "excess_risk",
]


def judge(name, y, intervals, levels=None):
    """The metric with whatever else it needs."""
    options = {}
    if name in X_METRICS:
        options["X"] = np.arange(float(len(y)))[:, None]
    if name in GROUP_METRICS:
        options["groups"] = np.arange(len(y)) % 2
    if levels is not None and name in LEVELLED:
        options["confidence_level"] = levels
    return getattr(metrics, name)(y, intervals, **options)


LEVELLED = {"interval_score", "size_stratified_coverage", "excess_risk", *GROUP_METRICS}


@pytest.mark.parametrize(("pair", "length", "empty"), CASES)
def test_the_length_of_every_kind_of_interval(pair, length, empty):
    intervals = np.array([pair])
    assert metrics.mean_length(None, intervals) == length
    assert metrics.median_length(None, intervals) == length
    assert metrics.share_infinite(None, intervals) == float(length == INF)
    assert metrics.share_empty(None, intervals) == float(empty)
    assert metrics.coverage([0.0], intervals) == float(pair[0] <= 0.0 <= pair[1])
    score = metrics.interval_score([0.0], intervals, 0.5)
    assert score == INF if INF in np.abs(pair) else np.isfinite(score)


def test_shares_and_median_for_several_levels():
    pairs = np.array([pair for pair, _, _ in CASES])
    both = np.stack([pairs, np.tile([0.0, 3.0], (len(pairs), 1))], axis=2)
    np.testing.assert_allclose(metrics.share_infinite(None, both), [3 / 9, 0.0])
    np.testing.assert_allclose(metrics.share_empty(None, both), [4 / 9, 0.0])
    np.testing.assert_allclose(metrics.median_length(None, both), [0.0, 3.0])


def test_crossed_bounds_score_worse_than_their_midpoint():
    y = np.linspace(-2.0, 2.0, 41)
    crossed, point = np.tile([0.5, -0.5], (41, 1)), np.zeros((41, 2))
    assert metrics.interval_score(y, crossed) > metrics.interval_score(y, point)


def test_lengths_that_differ_by_rounding_are_tied_and_no_others():
    rng = np.random.default_rng(0)
    mu = rng.normal(scale=100.0, size=500)
    half = rng.choice([0.1, 0.7, 5.0], size=500)
    bounds = np.stack([mu - half, mu + half], axis=1)
    assert len(np.unique(lengths(bounds))) > 3
    tied = tied_lengths(bounds)
    assert len(np.unique(tied)) == 3
    np.testing.assert_allclose(tied, 2.0 * half)
    # Lengths of rows near zero stay apart beside a row of huge bounds.
    apart = np.array([[0.0, 1.0], [0.0, 1.0 + 1e-12], [1e12, 1e12 + 3.0]])
    assert len(np.unique(tied_lengths(apart))) == 3


@pytest.mark.parametrize("name", METRICS)
def test_nan_in_bounds_is_refused_by_every_metric(name):
    with pytest.raises(ValueError, match="intervals have NaN"):
        judge(name, np.zeros(4), np.full((4, 2), np.nan))


@pytest.mark.parametrize("name", METRICS)
def test_infinite_bounds_one_row_constant_lengths_and_full_coverage_are_defined(name):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    some = np.where(rng.random((60, 1)) < 0.3, INF, 1.0) * [-1.0, 1.0]
    for intervals in (some, np.tile([-1.0, 1.0], (60, 1)), np.tile([-9.0, 9.0], (60, 1))):
        judge(name, y, intervals)
    judge(name, y, np.tile([-INF, INF], (60, 1)))
    judge(name, y[:1], some[:1])


@pytest.mark.parametrize("name", METRICS)
def test_several_levels_are_each_level_by_itself(name):
    rng = np.random.default_rng(1)
    y, half = rng.normal(size=90), rng.uniform(0.5, 2.0, size=90)
    bounds = np.stack([np.stack([-half * c, half * c], axis=1) for c in (0.6, 1.1)], axis=2)
    levels = [0.5, 0.8]
    together = judge(name, y, bounds, levels)
    assert len(together) == 2
    for l, level in enumerate(levels):
        alone = judge(name, y, bounds[:, :, l], level)
        if isinstance(alone, float):
            assert together[l] == pytest.approx(alone)
        else:
            assert repr(together[l]) == repr(alone)


@pytest.mark.parametrize("name", METRICS)
def test_the_scale_of_y_changes_lengths_and_scores_only(name):
    rng = np.random.default_rng(2)
    y, half = rng.normal(size=80), rng.uniform(0.5, 2.0, size=80)
    intervals = np.stack([-half, half], axis=1)
    before, after = judge(name, y, intervals), judge(name, 8.0 * y, 8.0 * intervals)
    if name in {"mean_length", "median_length", "interval_score"}:
        assert after == pytest.approx(8.0 * before)
    elif name == "size_stratified_coverage":
        np.testing.assert_array_equal(after.coverage, before.coverage)
        np.testing.assert_allclose(after.longest, 8.0 * before.longest)
    else:
        assert repr(after) == repr(before)


@pytest.mark.parametrize("name", sorted(LEVELLED))
@pytest.mark.parametrize("level", [0.0, 1.0, np.nan, [0.5, 0.9]])
def test_levels_are_checked(name, level):
    with pytest.raises(ValueError, match="confidence_level"):
        judge(name, np.zeros(4), np.tile([-1.0, 1.0], (4, 1)), level)


def test_infinite_y_is_refused():
    with pytest.raises(ValueError, match="y_true has NaN or infinity"):
        metrics.coverage([INF], [[0.0, 1.0]])
