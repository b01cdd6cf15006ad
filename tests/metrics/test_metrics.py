"""Metrics against loops: coverage, lengths, scores, correlations, curves, CRPS."""

import numpy as np
import pytest
from scipy.stats import norm

from localconformal import metrics
from localconformal.metrics import (
    binomial_band,
    coverage,
    coverage_band,
    coverage_length_curve,
    interval_score,
    length_coverage_corr,
    length_error_corr,
    mean_absolute_conditional_gap,
    mean_length,
    mean_squared_conditional_error,
    median_length,
)
from localconformal.metrics.crps import crps
from localconformal.metrics.size import lengths, tied_lengths
from localconformal.quantiles import conformal_quantile

LEVELS = np.array([0.5, 0.8, 0.95])


@pytest.fixture
def whole():
    rng = np.random.default_rng(0)
    # Integers, so that many y lie exactly on a bound.
    bounds = np.sort(rng.integers(-3, 4, (80, 2, 3)), axis=1).astype(float)
    return rng.integers(-4, 5, 80).astype(float), bounds


def winkler(y, lower, upper, level):
    miss = lower - y if y < lower else y - upper if y > upper else 0.0
    return upper - lower + 2.0 / (1.0 - level) * miss


def test_metrics_equal_loops_for_one_and_for_several_levels(whole):
    y, bounds = whole
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
        assert isinstance(coverage(y, bounds[:, :, l]), float)


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


def test_the_band_shrinks_with_more_rows_and_grows_with_the_probability():
    def width(*args, **kwargs):
        low, high = coverage_band(*args, **kwargs)
        return high - low

    # Infinite intervals cover.
    assert coverage_band(8, 100, 0.9) == (1.0, 1.0)
    assert width(4_000, 4_000, 0.9) < width(400, 4_000, 0.9) < width(400, 400, 0.9)
    assert width(400, 400, 0.9, probability=0.8) < width(400, 400, 0.9, probability=0.99)


@pytest.mark.parametrize(
    ("y", "intervals", "told"),
    [
        *(
            (np.zeros(3), np.zeros(shape), r"intervals have shape .*\(n, 2\)")
            for shape in [(3,), (3, 3), (3, 1), (3, 2, 1, 1)]
        ),
        (np.zeros(4), np.zeros((3, 2)), r"\(4,\).*\(3, 2\).*as many rows"),
        ([np.inf], [[0.0, 1.0]], "y_true has NaN or infinity"),
    ],
)
def test_rows_that_do_not_match_are_refused_with_their_shapes(y, intervals, told):
    for metric in (coverage, interval_score):
        with pytest.raises(ValueError, match=told):
            metric(y, intervals)


# ---- every metric on every kind of interval ------------------------------------------------------

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
    assert median_length(None, intervals) == length
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


# ---- correlations and curves ---------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=r"y_pred has shape \(299,\)"):
        length_error_corr(y, intervals, mu[1:])


def test_correlations_leave_out_infinite_rows_and_units(problem):
    y, intervals, _ = problem
    some = intervals.copy()
    some[:50, 0] = -np.inf
    some[50:80] = [-np.inf, np.inf]
    for metric in (length_coverage_corr, length_error_corr):
        assert metric(y, some) == pytest.approx(metric(y[80:], intervals[80:]))
        for unit in (1e-200, 1e200):
            assert metric(unit * y, unit * intervals) == pytest.approx(metric(y, intervals))


def test_undefined_correlations_are_nan(problem):
    y, intervals, mu = problem
    same = np.stack([mu - 1.0, mu + 1.0], axis=1)
    assert np.isnan(length_coverage_corr(y, same))
    assert np.isnan(length_error_corr(y, same))
    assert np.isnan(length_coverage_corr(mu, intervals))
    assert np.isnan(length_coverage_corr(y[:1], intervals[:1]))
    assert np.isnan(length_coverage_corr(y, np.tile([-np.inf, np.inf], (300, 1))))


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


# ---- CRPS ----------------------------------------------------------------------------------------


def double_sum(y, x, w):
    w = w / w.sum()
    return w @ np.abs(x - y) - 0.5 * w @ np.abs(x[:, None] - x[None]) @ w


@pytest.fixture
def ties():
    rng = np.random.default_rng(0)
    # Halves, so that values tie with each other and with y; and weights of zero.
    values = rng.integers(-8, 9, (60, 7)) / 2.0
    return rng.integers(-8, 9, 60) / 2.0, values, rng.integers(0, 4, (60, 7)) + (values == 0.0)


def test_equals_the_double_sum_with_and_without_weights(ties):
    y, values, weights = ties
    weights = weights + (weights.sum(axis=1, keepdims=True) == 0)
    rows = range(len(y))
    brute = np.mean([double_sum(y[i], values[i], weights[i].astype(float)) for i in rows])
    assert crps(y, values, weights) == pytest.approx(brute, abs=1e-12)
    equal = np.mean([double_sum(y[i], values[i], np.ones(7)) for i in rows])
    assert crps(y, values) == pytest.approx(equal, abs=1e-12)
    assert crps(y, values, np.full(7, 3.0)) == pytest.approx(equal, abs=1e-12)


def test_quantiles_of_a_gaussian_come_near_its_closed_form():
    y = np.linspace(-3.0, 3.0, 13)
    levels = (np.arange(2_000) + 0.5) / 2_000
    closed = y * (2.0 * norm.cdf(y) - 1.0) + 2.0 * norm.pdf(y) - 1.0 / np.sqrt(np.pi)
    values = np.tile(norm.ppf(levels), (len(y), 1))
    assert crps(y, values) == pytest.approx(closed.mean(), abs=1e-4)


def test_twice_the_mean_pinball_loss_of_the_quantiles(ties):
    """At midpoint levels the energy form is the average pinball loss, exactly."""
    y, values, _ = ties
    values = np.sort(values, axis=1)
    levels = (np.arange(7) + 0.5) / 7
    miss = y[:, None] - values
    pinball = np.where(miss >= 0, levels * miss, (levels - 1.0) * miss)
    assert crps(y, values) == pytest.approx(2.0 * pinball.mean(), abs=1e-12)


def test_order_shift_scale_and_a_single_value(ties):
    y, values, _ = ties
    score = crps(y, values)
    assert crps(y, values[:, ::-1]) == pytest.approx(score, abs=1e-12)
    assert crps(5.0 * y + 3.0, 5.0 * values + 3.0) == pytest.approx(5.0 * score)
    assert crps(y, values[:, :1]) == pytest.approx(np.abs(y - values[:, 0]).mean())


def test_the_true_law_is_best():
    rng = np.random.default_rng(1)
    y, draws = rng.normal(size=3_000), norm.ppf((np.arange(99) + 0.5) / 99)

    def score(shift, scale):
        return crps(y, np.tile(shift + scale * draws, (len(y), 1)))

    for other in [(0.3, 1.0), (-0.3, 1.0), (0.0, 1.5), (0.0, 0.6)]:
        assert score(0.0, 1.0) < score(*other)


def test_mass_at_infinity_costs_infinitely_and_no_mass_nothing():
    values = np.array([[-np.inf, 0.0, 1.0]])
    assert crps([0.5], values) == np.inf
    assert crps([0.5], values, [0.0, 1.0, 1.0]) == crps([0.5], values[:, 1:])


@pytest.mark.parametrize(
    ("y", "values", "weights", "told"),
    [
        ([0.0, 1.0], [[0.0]], None, r"\(2,\).*\(1, 1\).*expected"),
        ([0.0], [0.0], None, r"\(1,\).*\(n, k\)"),
        ([0.0], np.zeros((1, 0)), None, "at least one value"),
        ([np.nan], [[0.0]], None, "NaN"),
        ([0.0], [[np.nan]], None, "NaN"),
        ([0.0], [[0.0, 1.0]], [1.0], r"weights have shape \(1,\)"),
        ([0.0], [[0.0, 1.0]], [[1.0, -1.0]], "negative"),
        ([0.0], [[0.0, 1.0]], [[0.0, 0.0]], "all zero"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(y, values, weights, told):
    with pytest.raises(ValueError, match=told):
        crps(y, values, weights)
