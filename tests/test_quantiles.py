"""Order statistics against exact arithmetic and the definitions written as loops; bounds."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inner import crossed, finish, round_up
from localconformal.quantiles import (
    MASS_GUARD,
    Support,
    cdf_targets,
    clear_of_rounding,
    conformal_quantile,
    conformal_rank,
    quantile_of_cdf,
    required_calibration_size,
    typical_size,
    weighted_conformal_quantile,
    weighted_quantile,
)

upper_weighted_quantile = partial(weighted_quantile, upper=True)
LEVELS = ["0.5", "0.8", "0.9", "0.95", "0.975", "0.99", "0.995", "0.333", "0.7", "0.05", "0.1"]


def exact_cdf(values, weights, v):
    """F(v) for integer weights: a Fraction."""
    below = (w for a, w in zip(values, weights, strict=True) if a <= v)
    return Fraction(sum(below), sum(weights))


def exact_quantile(values, weights, level):
    """inf{v : F(v) >= level} in exact arithmetic."""
    if level <= 0:
        return -math.inf
    return min(v for v in values if exact_cdf(values, weights, v) >= level)


def exact_upper_quantile(values, weights, level):
    """inf{v : F(v) > level} in exact arithmetic."""
    return min((v for v in values if exact_cdf(values, weights, v) > level), default=math.inf)


def integer_laws(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(1, 12))
        weights = rng.integers(0, 4, n)
        weights[rng.integers(n)] = 1
        yield rng.integers(-3, 4, n).astype(float).tolist(), weights.tolist()


@pytest.mark.parametrize("text", LEVELS)
def test_ranks_and_required_sizes_are_those_of_exact_arithmetic(text):
    exact, level = Fraction(text), float(text)
    for n in [*range(3_000), 9_999, 99_999, 999_999]:
        assert conformal_rank(n, level) == math.ceil((n + 1) * exact)
    needed = required_calibration_size(level)
    assert needed == max(1, math.ceil(exact / (1 - exact)))
    scores = np.arange(float(needed))
    assert conformal_quantile(scores, level) == scores[conformal_rank(needed, level) - 1]
    assert needed == 1 or conformal_quantile(scores[1:], level) == np.inf


def test_levels_that_come_from_arithmetic_do_not_flip_a_rank():
    for percent in range(1, 100):
        level, exact = 1.0 - 0.5 * (1.0 - percent / 100), 1 - (1 - Fraction(percent, 100)) / 2
        for n in range(0, 1_000, 7):
            assert conformal_rank(n, level) == math.ceil((n + 1) * exact)
    for n in [*range(1, 200), 1_000, 20_000]:
        values, weights = np.arange(1.0, n + 1), np.full(n, 0.1)
        for text in ["0.95", "0.9", "0.05", "0.7"]:
            level, exact = float(text), Fraction(text)
            assert weighted_quantile(values, weights, level) == math.ceil(n * exact)
            upper = upper_weighted_quantile(values, weights, level)
            assert upper == math.floor(n * exact) + 1


def test_the_conformal_quantile_is_the_kth_of_the_sorted_scores_with_one_more_at_infinity():
    rng = np.random.default_rng(0)
    for n in [*range(1, 60), 5_000]:
        scores = rng.integers(0, 10, (n, 2, 3)).astype(float)
        got, k = conformal_quantile(scores, 0.8), max(1, math.ceil((n + 1) * Fraction(4, 5)))
        expected = np.sort(np.concatenate([scores, np.full((1, 2, 3), np.inf)]), axis=0)[k - 1]
        np.testing.assert_array_equal(got, expected)
    assert conformal_quantile([3.0, 1.0, 2.0], 1e-12) == 1.0


def test_the_weighted_conformal_quantile_is_its_definition():
    rng = np.random.default_rng(1)
    for scores, weights in integer_laws(60, seed=2):
        mass = int(rng.integers(0, 3))
        for level in (Fraction(k, 20) for k in range(1, 20)):
            expected = exact_quantile([*scores, math.inf], [*weights, mass], level)
            for unit in (1.0, 2.0**-60, 2.0**60):
                masses = unit * np.array(weights), unit * mass
                assert weighted_conformal_quantile(scores, *masses, float(level)) == expected


@pytest.mark.parametrize("level", [0.25, 0.5, 0.7, 0.75])
def test_weights_by_row_equal_one_set_at_a_time(level):
    rng = np.random.default_rng(7)
    scores, weights = rng.integers(0, 5, 8).astype(float), rng.integers(0, 3, (30, 8))
    weights[0], masses = 0, rng.integers(0, 4, 30)
    for w, mass in ((weights, masses), (weights, 1), (weights[1], masses)):
        together = weighted_conformal_quantile(scores, w, mass, level)
        pairs = zip(np.broadcast_to(w, weights.shape), np.broadcast_to(mass, 30), strict=True)
        alone = [weighted_conformal_quantile(scores, *pair, level) for pair in pairs]
        np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("mass", [0.0, 0.5, 3.0])
def test_the_ends_of_weights_and_levels(mass):
    scores, weights = [2.0, 1.0, 3.0], [1.0, 0.0, 1.0]
    for level in (1e-17, 1e-13, MASS_GUARD, 1e-9):
        assert weighted_conformal_quantile(scores, weights, mass, level) == 2.0
        assert conformal_quantile(scores, level) == 1.0
    for level in (1e-13, 0.3, 0.9):
        assert weighted_conformal_quantile([1.0, 2.0], [0, 0], mass, level) == np.inf
    rows = weighted_conformal_quantile([1.0, 2.0], [[0, 0], [0, 2]], [mass, 0.0], 0.5)
    assert rows.tolist() == [np.inf, 2.0]
    one = quantile_of_cdf(np.arange(2.0), np.array([0.5, 1.0]), np.array([MASS_GUARD]), upper=False)
    np.testing.assert_array_equal(one, [-np.inf])


@pytest.mark.parametrize(
    ("function", "oracle"),
    [(weighted_quantile, exact_quantile), (upper_weighted_quantile, exact_upper_quantile)],
)
def test_quantiles_are_their_definitions_with_ties_and_zero_weights(function, oracle):
    for values, weights in integer_laws(200, seed=3):
        total = sum(weights)
        # Every level at which F jumps, levels between, and the ends.
        levels = [Fraction(k, 2 * total) for k in range(2 * total + 1)]
        got = function(values, weights, [float(level) for level in levels])
        assert got.tolist() == [oracle(values, weights, level) for level in levels]


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, 1, 1], [2, -1, 1], [0, 0, 0], [1, np.nan, 1]])
def test_weights_that_are_no_law_are_refused(weights):
    values = [1.0, 2.0, 3.0]
    for function in (weighted_quantile, upper_weighted_quantile):
        with pytest.raises(ValueError, match=r"got 3 values and .*as many weights as values"):
            function(values, weights, 0.5)
    # No weight at all but that of infinity is a law.
    wrong = (weights, 1) if np.any(weights) else ([1, 1, 1], -1)
    with pytest.raises(ValueError, match="none neg"):
        weighted_conformal_quantile(values, *wrong, 0.5)


def test_the_upper_quantile_inverts_the_left_cdf():
    rng = np.random.default_rng(4)
    for _ in range(200):
        n = int(rng.integers(1, 15))
        values = np.sort(rng.integers(0, 6, n).astype(float))
        cdf = np.cumsum(rng.random(n) * rng.integers(0, 2, n) + 1e-9)
        cdf /= cdf[-1]
        asked = np.concatenate([values, values + 0.5, [-1.0]])
        left = np.append(0.0, cdf)[np.searchsorted(values, asked, side="left")]
        for t in [*left, *rng.random(5), 0.0, 1.0]:
            upper = quantile_of_cdf(values, cdf, np.array(t), upper=True)
            assert np.all(asked[left <= t] <= upper)
            assert np.all(left[asked <= upper] <= t + MASS_GUARD * 1.001)


def test_laws_by_row_equal_one_law_at_a_time():
    rng = np.random.default_rng(5)
    values, cdf = np.sort(rng.normal(size=9)), np.cumsum(rng.random((6, 9)), axis=1)
    cdf /= cdf[:, -1:]
    upper = np.array([False, True, True])
    for levels in (rng.random(3), rng.random((6, 3))):
        together = quantile_of_cdf(values, cdf, levels, upper)
        pairs = zip(cdf, np.broadcast_to(levels, (6, 3)), strict=True)
        alone = [quantile_of_cdf(values, F, asked, upper) for F, asked in pairs]
        np.testing.assert_array_equal(together, alone)
    for side in (False, True):
        # Sums that are just what is asked for.
        levels = np.array([0.25, 0.5])
        reached = np.array([[*cdf_targets(levels, side), 1.0]])
        found = quantile_of_cdf(np.arange(3.0), reached, levels, side)
        np.testing.assert_array_equal(found, [[0.0, 1.0]])


VALUE = st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float)
LAW = st.lists(
    st.tuples(VALUE, st.floats(1e-3, 1e3) | st.just(0.0)), min_size=1, max_size=30
).filter(lambda law: sum(weight for _, weight in law) > 0)


@given(LAW, st.floats(0.0, 1.0), VALUE, st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_any_law_and_level(law, level, v, random):
    values, weights = (np.array(column) for column in zip(*law, strict=True))
    q, upper = (f(values, weights, level) for f in (weighted_quantile, upper_weighted_quantile))

    def mass(inside):
        return weights[inside].sum() / weights.sum()

    if np.isfinite(q):
        assert q in values
        assert mass(values <= q) >= level - 2 * MASS_GUARD
        assert mass(values < q) <= level + 2 * MASS_GUARD
    else:
        assert q == -np.inf
        assert level <= MASS_GUARD
    assert q <= upper
    if mass(values < v) <= level - MASS_GUARD:
        assert v <= upper
    # The other sign exchanges the two, and the order of the atoms does not matter.
    assert q == -upper_weighted_quantile(-values, weights, 1.0 - level)
    order = random.sample(range(len(values)), len(values))
    assert q == weighted_quantile(values[order], weights[order], level)


@given(st.lists(VALUE, min_size=1, max_size=60), st.floats(0.01, 0.99), st.floats(0.01, 0.99))
@settings(max_examples=50, deadline=None)
def test_any_scores_have_enough_at_or_below_the_conformal_quantile(scores, one, other):
    low, high = sorted([one, other])
    q = conformal_quantile(scores, low)
    assert np.sum(np.array(scores) <= q) + (q == np.inf) >= (len(scores) + 1) * low - 1e-6
    assert q == weighted_conformal_quantile(scores, np.ones(len(scores)), 1.0, low)
    assert q <= conformal_quantile(scores, high)


def test_the_typical_size_is_the_median_size_else_the_smallest_above_zero():
    for factor in (2.0**-40, -(2.0**-3), 1.0, 2.0**40):
        assert typical_size(factor * np.array([-2.0, 4, 1, 8, -16])) == 4.0 * abs(factor)
        assert typical_size(factor * np.array([0.0, 0, 0, 5, -3])) == 3.0 * abs(factor)
    assert typical_size([0.0, 0.0]) == 1.0


@pytest.mark.parametrize("factor", [2.0**-400, 1.0, 2.0**400])
@pytest.mark.parametrize("offset", [0.0, 2.0**20])
def test_errors_of_rounding_have_no_size_of_their_own(factor, offset):
    """Whatever their last bits are; real errors among them keep theirs."""
    rng = np.random.default_rng(0)
    y = factor * (offset + rng.integers(0, 2, 50))
    for noise in (0.0, 1e-16, 7e-16):
        v = noise * rng.normal(size=(50, 2)) * np.abs(y).max()
        assert typical_size(clear_of_rounding(v, y)) == factor
        v[:20] = 3.0 * factor
        assert typical_size(clear_of_rounding(v, y)) == 3.0 * factor


def test_constant_responses_are_their_own_unit_and_scores_may_have_another():
    v = np.array([0.0, 1e-17, 3e-17])
    assert typical_size(clear_of_rounding(v, np.full(3, 0.3))) == 0.3
    assert typical_size(clear_of_rounding(v, 0.1 * np.array([3.0, 3.0, 1.0 + 2.0]))) > 0.2
    assert typical_size(clear_of_rounding(np.zeros(3), np.zeros(3))) == 1.0
    y, v = np.array([0.0, 1.0, 2.0]), [1e-9, 0.0, 0.0]
    np.testing.assert_array_equal(clear_of_rounding(v, y, unit=1e9), v)
    np.testing.assert_array_equal(clear_of_rounding(v, y, unit=2.0), np.full(3, 0.5))


LEVEL = np.array([0.9])


def test_crossed_bounds_collapse_to_their_midpoint_and_others_stay():
    lower, upper = np.random.default_rng(1).normal(size=(2, 150, 1))
    got, middle = finish(np.stack([lower, upper], axis=1), LEVEL), (lower + upper) / 2
    expected = np.where(lower > upper, middle, [lower, upper])
    np.testing.assert_array_equal(got, expected.swapaxes(0, 1))
    assert not crossed(got).any()
    largest = np.finfo(float).max
    huge = np.array([[[largest], [0.9 * largest]], [[largest], [-largest]]])
    assert np.all(np.isfinite(finish(huge, LEVEL)))


def test_infinite_bounds_and_sums_stay_infinite_without_a_warning():
    inf = np.inf
    intervals = np.array([[[-inf], [inf]], [[0.0], [inf]], [[-inf], [0.0]]])
    np.testing.assert_array_equal(finish(intervals, LEVEL), intervals)
    np.testing.assert_array_equal(round_up(np.array([-inf, 1.0]), -inf), [-inf, -inf])
    np.testing.assert_array_equal(round_up(np.array([-inf, 0.0, inf])), [-inf, 0.0, inf])


def test_nested_intervals_are_hulls_of_the_lower_levels_in_any_order():
    levels = np.array([0.8, 0.5, 0.95, 0.9])
    intervals = np.sort(np.random.default_rng(2).normal(size=(30, 2, 4)), axis=1)
    got = finish(intervals, levels)
    for asked, level in enumerate(levels):
        inside = intervals[:, :, levels <= level]
        np.testing.assert_array_equal(got[:, 0, asked], inside[:, 0].min(axis=1))
        np.testing.assert_array_equal(got[:, 1, asked], inside[:, 1].max(axis=1))


ends = st.sampled_from([-np.inf, -3.0, -0.5, 0.0, 0.2, 1.0, 2.5, 4.0, np.inf])
near = st.integers(-5, 5).flatmap(lambda y: st.sampled_from([y, y - 1e-9, y + 1e-9, y + 0.4]))


@given(
    bounds=st.lists(st.tuples(*[near | ends] * 6), min_size=1, max_size=5),
    low=ends,
    high=ends,
    whole=st.booleans(),
)
def test_what_y_cannot_be_is_cut_off_and_nothing_else(bounds, low, high, whole):
    if not low <= high or (whole and np.ceil(low) > np.floor(high)) or low == np.inf or high < -9:
        return
    support, levels = Support.of((low, high), whole), np.array([0.9, 0.5, 0.7])
    raw = np.sort(np.array(bounds).reshape(-1, 3, 2), axis=2).swapaxes(1, 2)
    # No bound lies at the infinity beyond it.
    raw = np.stack([np.minimum(raw[:, 0], 99.0), np.maximum(raw[:, 1], -99.0)], axis=1)
    plain, cut = finish(raw, levels), finish(raw, levels, support)
    possible = np.arange(-10.0, 11.0) if whole else np.linspace(-10.0, 10.0, 81)
    for y in possible[(possible >= low) & (possible <= high)]:
        kept = (cut[:, 0] <= y) & (y <= cut[:, 1])
        assert np.all(kept >= ((plain[:, 0] <= y) & (y <= plain[:, 1])))
    assert not crossed(cut).any()
    finite = np.isfinite(plain).all(axis=1)
    assert np.all((np.ptp(cut, axis=1) <= np.ptp(plain, axis=1) + 3e-6)[finite])
    for inner, outer in ((1, 2), (2, 0)):
        assert np.all(cut[:, 0, outer] <= cut[:, 0, inner])
        assert np.all(cut[:, 1, outer] >= cut[:, 1, inner])
    inside = (cut >= support.low) & (cut <= support.high)
    assert np.all(inside & (~whole | (cut == np.rint(cut))))
    np.testing.assert_array_equal(finish(cut, levels, support), cut)


def test_a_whole_number_within_rounding_is_kept_and_no_other():
    bounds = np.array([[[5.0 + 1e-9], [8.0 - 1e-9]], [[5.01], [7.99]], [[-0.3], [0.2]]])
    found = finish(bounds, LEVEL, Support(whole=True))[:, :, 0]
    assert found.tolist() == [[5.0, 8.0], [6.0, 7.0], [0.0, 0.0]]
    assert not np.signbit(found).any()
