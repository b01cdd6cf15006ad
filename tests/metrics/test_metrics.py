"""Metrics against loops: coverage, lengths, scores, correlations, curves, CRPS."""

import numpy as np
import pytest

from localconformal import metrics
from localconformal.metrics.intervals import crps, lengths, tied_lengths
from localconformal.quantiles import conformal_quantile

INF = np.inf
LEVELS = np.array([0.5, 0.8, 0.95])


def winkler(y, lower, upper, level):
    miss = lower - y if y < lower else y - upper if y > upper else 0.0
    return upper - lower + 2.0 / (1.0 - level) * miss


def test_metrics_equal_loops_for_one_and_for_several_levels():
    rng = np.random.default_rng(0)
    # Integers, so that many y lie exactly on a bound.
    bounds = np.sort(rng.integers(-3, 4, (80, 2, 3)), axis=1).astype(float)
    y = rng.integers(-4, 5, 80).astype(float)
    for l, level in enumerate(LEVELS):
        rows = [(one, *pair) for one, pair in zip(y, bounds[:, :, l], strict=True)]
        for metric, options, expected in (
            (metrics.coverage, [[]] * 2, np.mean([low <= one <= high for one, low, high in rows])),
            (metrics.mean_length, [[]] * 2, np.mean([high - low for _, low, high in rows])),
            (
                metrics.interval_score,
                [[LEVELS], [level]],
                np.mean([winkler(*row, level) for row in rows]),
            ),
        ):
            assert metric(y, bounds, *options[0])[l] == pytest.approx(expected)
            alone = metric(y, bounds[:, :, l], *options[1])
            assert isinstance(alone, float)
            assert alone == pytest.approx(expected)


def test_the_interval_score_is_least_at_the_true_quantiles_and_crossed_bounds_cost():
    y = np.random.default_rng(0).exponential(size=20_000)
    truth = np.quantile(y, [0.05, 0.95])

    def score(pair):
        return metrics.interval_score(y, np.tile(pair, (len(y), 1)), 0.9)

    for shift in ([0.1, 0.0], [-0.04, 0.0], [0.0, 0.3], [0.0, -0.3], [0.1, 0.3]):
        assert score(truth) < score(truth + shift)
    assert score([1.5, 0.5]) > score([1.0, 1.0])


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_the_coverage_band_holds_its_probability_in_simulation(level):
    rng = np.random.default_rng(1)
    thresholds = conformal_quantile(rng.random((60, 3_000)), level)
    shares = (rng.random((80, 3_000)) <= thresholds).mean(axis=0)
    low, high = metrics.coverage_band(60, 80, level, probability=0.9)
    # The law is discrete: the band holds at least 0.9, and not much more.
    assert 0.9 - 0.02 <= np.mean((low <= shares) & (shares <= high)) <= 0.96
    assert low < level < high
    assert metrics.coverage_band(8, 100, 0.9) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("y", "intervals", "told"),
    [
        (np.zeros(3), np.zeros((3, 3)), r"intervals: got shape .*\(n, 2\)"),
        (np.zeros(3), np.zeros((3, 2, 1, 1)), r"intervals: got shape .*\(n, 2\)"),
        (np.zeros(4), np.zeros((3, 2)), r"\(4,\).*\(3, 2\).*one value per interval"),
        ([np.inf], [[0.0, 1.0]], "y_true: got NaN or infinity"),
    ],
)
def test_rows_that_do_not_match_are_refused_with_their_shapes(y, intervals, told):
    for metric in (metrics.coverage, metrics.interval_score):
        with pytest.raises(ValueError, match=told):
            metric(y, intervals)


CASES = [
    ((0.0, 1.0), 1.0, False),
    ((1.0, 1.0), 0.0, False),
    ((2.0, 1.0), 0.0, True),
    *((pair, INF, False) for pair in ((-INF, INF), (-INF, 0.0), (0.0, INF))),
    *((pair, 0.0, True) for pair in ((INF, INF), (-INF, -INF), (INF, -INF))),
]
GROUPED = {"group_coverage", "coverage_gap"}
LEVELLED = {"interval_score", "size_stratified_coverage", "excess_risk", *GROUPED}
UNITS = {"mean_length", "median_length", "interval_score"}
METRICS = sorted(
    {"coverage", "share_infinite", "share_empty", "length_coverage_corr", "length_error_corr"}
    | {"size_stratified_coverage_score", "hsic", "worst_slab_coverage", *LEVELLED, *UNITS}
)
EVERY = pytest.mark.parametrize("name", METRICS)


def judge(name, y, intervals, levels=None):
    options = {}
    if name in {"worst_slab_coverage", "excess_risk"}:
        options["X"] = np.arange(float(len(y)))[:, None]
    if name in GROUPED:
        options["groups"] = np.arange(len(y)) % 2
    if levels is not None and name in LEVELLED:
        options["confidence_level"] = levels
    return getattr(metrics, name)(y, intervals, **options)


def test_lengths_and_shares_of_every_kind_of_interval():
    for pair, length, empty in CASES:
        intervals = np.array([pair])
        assert (
            metrics.mean_length(None, intervals) == metrics.median_length(None, intervals) == length
        )
        # Beside an interval of two sides: alone, one infinite end is there on purpose.
        beside = np.array([pair, [0.0, 3.0]])
        assert metrics.share_infinite(None, beside) == float(length == INF) / 2
        assert metrics.share_empty(None, intervals) == float(empty)
        assert metrics.coverage([0.0], intervals) == float(pair[0] <= 0.0 <= pair[1])
        score = metrics.interval_score([0.0, 0.0], beside, 0.5)
        assert score == INF if INF in np.abs(pair) else np.isfinite(score)
    pairs = np.array([pair for pair, _, _ in CASES])
    both = np.stack([pairs, np.tile([0.0, 3.0], (len(pairs), 1))], axis=2)
    np.testing.assert_allclose(metrics.share_infinite(None, both), [3 / 9, 0.0])
    np.testing.assert_allclose(metrics.share_empty(None, both), [4 / 9, 0.0])
    np.testing.assert_allclose(metrics.median_length(None, both), [0.0, 3.0])


def test_lengths_that_differ_by_rounding_are_tied_and_no_others():
    rng = np.random.default_rng(0)
    mu, half = rng.normal(scale=100.0, size=500), rng.choice([0.1, 0.7, 5.0], size=500)
    bounds = np.stack([mu - half, mu + half], axis=1)
    assert len(np.unique(lengths(bounds))) > 3
    assert len(np.unique(tied_lengths(bounds))) == 3
    np.testing.assert_allclose(tied_lengths(bounds), 2.0 * half)
    # Lengths of rows near zero stay apart beside a row of huge bounds.
    apart = np.array([[0.0, 1.0], [0.0, 1.0 + 1e-12], [1e12, 1e12 + 3.0]])
    assert len(np.unique(tied_lengths(apart))) == 3


@EVERY
def test_awkward_bounds_are_answered_and_nan_and_bad_levels_refused(name):
    rng = np.random.default_rng(0)
    y, ones = rng.normal(size=60), np.tile([-1.0, 1.0], (60, 1))
    for half in (np.where(rng.random((60, 1)) < 0.3, INF, 1.0), 1.0, 9.0, INF):
        judge(name, y, half * ones)
    judge(name, y[:1], INF * ones[:1])
    with pytest.raises(ValueError, match="intervals: got NaN"):
        judge(name, y, np.nan * ones)
    for level in (0.0, 1.0, np.nan, [0.5, 0.9]) if name in LEVELLED else ():
        with pytest.raises(ValueError, match="confidence_level"):
            judge(name, y, ones, level)


@EVERY
def test_several_levels_are_each_level_by_itself_and_units_are_those_of_lengths(name):
    rng = np.random.default_rng(1)
    y, half = rng.normal(size=90), rng.uniform(0.5, 2.0, size=90)
    bounds = np.stack([np.stack([-half * c, half * c], axis=1) for c in (0.6, 1.1)], axis=2)
    together = judge(name, y, bounds, [0.5, 0.8])
    assert len(together) == 2
    for l, level in enumerate([0.5, 0.8]):
        alone = judge(name, y, bounds[:, :, l], level)
        scaled = judge(name, 8.0 * y, 8.0 * bounds[:, :, l], level)
        if isinstance(alone, float):
            assert together[l] == pytest.approx(alone)
            assert scaled == pytest.approx(8.0 * alone if name in UNITS else alone)
            continue
        assert repr(together[l]) == repr(alone)
        if name == "size_stratified_coverage":
            np.testing.assert_array_equal(scaled.coverage, alone.coverage)
            np.testing.assert_allclose(scaled.longest, 8.0 * alone.longest)
        else:
            assert repr(scaled) == repr(alone)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    mu, half = rng.normal(size=300), rng.uniform(0.5, 2.5, size=300)
    y = mu + half * rng.normal(size=300) / 1.5
    return y, np.stack([mu - half, mu + half], axis=1), mu


def test_correlations_are_numpy_s(problem):
    y, intervals, mu = problem
    length = intervals[:, 1] - intervals[:, 0]
    covered = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    for found, other in (
        (metrics.length_coverage_corr(y, intervals), covered),
        (metrics.length_error_corr(y, intervals), np.abs(y - mu)),
        (metrics.length_error_corr(y, intervals, mu), np.abs(y - mu)),
        (metrics.length_error_corr(y, intervals, np.full(300, 3.0)), np.abs(y - 3.0)),
    ):
        assert found == pytest.approx(np.corrcoef(length, other)[0, 1])
    with pytest.raises(ValueError, match=r"y_pred: got shape \(299,\)"):
        metrics.length_error_corr(y, intervals, mu[1:])
    # Infinite rows are left out, and units do not matter.
    some = intervals.copy()
    some[:50, 0], some[50:80] = -INF, [-INF, INF]
    for metric in (metrics.length_coverage_corr, metrics.length_error_corr):
        assert metric(y, some) == pytest.approx(metric(y[80:], intervals[80:]))
        for unit in (1e-200, 1e200):
            assert metric(unit * y, unit * intervals) == pytest.approx(metric(y, intervals))


def test_undefined_correlations_are_nan(problem):
    y, intervals, mu = problem
    same = np.stack([mu - 1.0, mu + 1.0], axis=1)
    assert np.isnan(metrics.length_error_corr(y, same))
    for target, bounds in (
        (y, same),
        (mu, intervals),
        (y[:1], intervals[:1]),
        (y, np.tile([-INF, INF], (300, 1))),
    ):
        assert np.isnan(metrics.length_coverage_corr(target, bounds))


def test_distances_of_a_known_conditional_coverage():
    pi = np.random.default_rng(0).random((50, 3))
    for metric, distance in (
        (metrics.mean_squared_conditional_error, np.square),
        (metrics.mean_absolute_conditional_gap, np.abs),
    ):
        expected = distance(pi - LEVELS).mean(axis=0)
        np.testing.assert_allclose(metric(pi, LEVELS), expected)
        assert metric(pi[:, 1], LEVELS[1]) == pytest.approx(expected[1])
    for bad, level, told in (
        ([1.2], 0.9, "outside"),
        ([np.nan], 0.9, "outside"),
        ([], 0.9, r"shape \(0,\)"),
        ([0.5], [0.5, 0.9], "one number"),
        ([0.5], 1.0, r"\(0, 1\)"),
    ):
        with pytest.raises(ValueError, match=told):
            metrics.mean_squared_conditional_error(bad, level)


def test_crps_is_the_double_sum_and_twice_the_pinball_loss():
    rng = np.random.default_rng(0)
    # Halves, so that values tie with each other and with y.
    y, values = rng.integers(-8, 9, 60) / 2.0, rng.integers(-8, 9, (60, 7)) / 2.0
    pairs = np.abs(values[:, :, None] - values[:, None])
    score = np.abs(values - y[:, None]).mean() - 0.5 * pairs.mean()
    for again in (crps(y, values), crps(y, values[:, ::-1])):
        assert again == pytest.approx(score, abs=1e-12)
    # At midpoint levels the energy form is the average pinball loss, exactly.
    levels, miss = (np.arange(7) + 0.5) / 7, y[:, None] - np.sort(values, axis=1)
    pinball = np.where(miss >= 0, levels * miss, (levels - 1.0) * miss)
    assert score == pytest.approx(2.0 * pinball.mean(), abs=1e-12)
    assert crps(5.0 * y + 3.0, 5.0 * values + 3.0) == pytest.approx(5.0 * score)
    assert crps(y, values[:, :1]) == pytest.approx(np.abs(y - values[:, 0]).mean())
    assert crps([0.5], [[-INF, 0.0, 1.0]]) == INF


@pytest.mark.parametrize(
    ("y", "values", "told"),
    [
        ([0.0, 1.0], [[0.0]], r"\(2,\).*\(1, 1\).*expected"),
        ([0.0], np.zeros((1, 0)), "at least one value"),
        ([0.0], [[np.nan]], "NaN"),
    ],
)
def test_bad_input_of_crps_is_refused_in_one_sentence(y, values, told):
    with pytest.raises(ValueError, match=told):
        crps(y, values)


@pytest.mark.parametrize("end", [0, 1])
def test_one_side_is_scored_by_its_bound(end):
    rng = np.random.default_rng(0)
    y, bounds = rng.normal(size=200), rng.normal(1.0, 1.0, size=(200, 2, 3)) * (1 - 2 * end)
    bounds[:, end] = INF if end else -INF
    # 1 / alpha times the pinball loss of the quantile that the bound stands for.
    quantiles = np.abs(end - LEVELS)
    gap = y[:, None] - bounds[:, 1 - end]
    pinball = np.maximum(quantiles * gap, (quantiles - 1.0) * gap).mean(axis=0)
    found = metrics.interval_score(y, bounds, LEVELS)
    np.testing.assert_allclose(found, pinball / (1.0 - LEVELS), rtol=1e-12)
    assert np.all(metrics.share_infinite(y, bounds) == 0.0)
    assert np.all(np.isinf(metrics.mean_length(y, bounds)))
    # A row without any bound is infinite, as in intervals that have two.
    bounds[:10] = np.array([-INF, INF])[:, None]
    np.testing.assert_allclose(metrics.share_infinite(y, bounds), 0.05)
    assert np.all(np.isinf(metrics.interval_score(y, bounds, LEVELS)))
    # Two sides, where one interval has them.
    bounds[0] = np.array([-1.0, 1.0])[:, None]
    np.testing.assert_allclose(metrics.share_infinite(y, bounds), 0.995)
