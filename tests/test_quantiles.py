"""Order statistics against exact arithmetic and the definitions written as loops."""

import math
from fractions import Fraction

import numpy as np
import pytest

from localconformal.quantiles import (
    MASS_GUARD,
    cdf_targets,
    clear_of_rounding,
    conformal_quantile,
    conformal_rank,
    quantile_of_cdf,
    required_calibration_size,
    typical_size,
    upper_weighted_quantile,
    weighted_conformal_quantile,
    weighted_quantile,
)

LEVELS = ["0.5", "0.8", "0.9", "0.95", "0.975", "0.99", "0.995", "0.333", "0.7", "0.05", "0.1"]


def exact_cdf(values, weights, v, strict=False):
    """F(v), or F(v-) where ``strict``, for integer weights: a Fraction."""
    below = (w for a, w in zip(values, weights, strict=True) if a < v or (a == v and not strict))
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
    """Small laws with ties and zero weights."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(1, 12))
        weights = rng.integers(0, 4, n)
        weights[rng.integers(n)] = 1
        yield rng.integers(-3, 4, n).astype(float).tolist(), weights.tolist()


@pytest.mark.parametrize(("level", "needed"), [(0.9, 9), (0.95, 19), (0.5, 1), (0.99, 99)])
def test_the_conformal_quantile_is_finite_from_the_boundary_on(level, needed):
    assert required_calibration_size(level) == needed
    assert conformal_quantile(np.arange(needed), level) == needed - 1
    assert conformal_quantile(np.arange(needed - 1.0), level) == np.inf


@pytest.mark.parametrize("text", LEVELS)
def test_ranks_and_required_sizes_are_those_of_exact_arithmetic(text):
    exact, level = Fraction(text), float(text)
    for n in [*range(3_000), 9_999, 99_999, 999_999]:
        assert conformal_rank(n, level) == math.ceil((n + 1) * exact)
    assert required_calibration_size(level) == max(1, math.ceil(exact / (1 - exact)))


def test_levels_that_come_from_arithmetic_do_not_flip_a_rank():
    for percent in range(1, 100):
        level, exact = 1.0 - 0.5 * (1.0 - percent / 100), 1 - (1 - Fraction(percent, 100)) / 2
        for n in range(0, 1_000, 7):
            assert conformal_rank(n, level) == math.ceil((n + 1) * exact)


def test_the_conformal_quantile_is_the_kth_of_the_sorted_scores_with_one_more_at_infinity():
    rng = np.random.default_rng(0)
    for n in range(1, 60):
        scores = rng.integers(0, 10, (n, 2, 3)).astype(float)
        got = conformal_quantile(scores, 0.8)
        k = max(1, math.ceil((n + 1) * Fraction(4, 5)))
        for i, j in np.ndindex(2, 3):
            assert got[i, j] == sorted([*scores[:, i, j], math.inf])[k - 1]


def test_the_weighted_conformal_quantile_is_its_definition():
    rng = np.random.default_rng(1)
    for scores, weights in integer_laws(200, seed=2):
        weight_inf = int(rng.integers(0, 3))
        for level in (Fraction(k, 20) for k in range(1, 20)):
            got = weighted_conformal_quantile(scores, weights, weight_inf, float(level))
            assert got == exact_quantile([*scores, math.inf], [*weights, weight_inf], level)


def test_equal_weights_give_the_conformal_quantile():
    scores = np.random.default_rng(0).normal(size=370)
    for level in np.linspace(0.05, 0.99, 40):
        weighted = weighted_conformal_quantile(scores, np.ones(len(scores)), 1.0, level)
        assert weighted == conformal_quantile(scores, level)


@pytest.mark.parametrize(
    ("function", "oracle"),
    [(weighted_quantile, exact_quantile), (upper_weighted_quantile, exact_upper_quantile)],
)
def test_quantiles_are_their_definitions_with_ties_and_zero_weights(function, oracle):
    for values, weights in integer_laws(200, seed=3):
        total = sum(weights)
        # Every level at which F jumps, and levels between.
        levels = [Fraction(k, 2 * total) for k in range(2 * total + 1)]
        got = function(values, weights, [float(level) for level in levels])
        assert got.tolist() == [oracle(values, weights, level) for level in levels]


def test_the_ends_of_the_levels_are_infinite():
    assert weighted_quantile([1.0, 2.0], [1, 1], 0.0) == -np.inf
    assert upper_weighted_quantile([1.0, 2.0], [1, 1], 1.0) == np.inf
    assert weighted_quantile([1.0, 2.0], [1, 1], 1.0) == 2.0
    assert upper_weighted_quantile([1.0, 2.0], [1, 1], 0.0) == 1.0


def test_levels_of_n_equal_weights_do_not_flip_a_rank():
    for n in [*range(1, 200), 1_000, 20_000]:
        values, weights = np.arange(1.0, n + 1), np.full(n, 0.1)
        for text in ["0.95", "0.9", "0.05", "0.7"]:
            exact = Fraction(text)
            assert weighted_quantile(values, weights, float(text)) == math.ceil(n * exact)
            upper = math.floor(n * exact) + 1
            assert upper_weighted_quantile(values, weights, float(text)) == upper


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


def test_laws_a_row_equal_one_law_at_a_time():
    rng = np.random.default_rng(5)
    values, cdf = np.sort(rng.normal(size=9)), np.cumsum(rng.random((6, 9)), axis=1)
    cdf /= cdf[:, -1:]
    upper = np.array([False, True, True])
    shared, by_row = rng.random(3), rng.random((6, 3))
    together = quantile_of_cdf(values, cdf, shared, upper)
    apart = quantile_of_cdf(values, cdf, by_row, upper)
    for i in range(6):
        np.testing.assert_array_equal(together[i], quantile_of_cdf(values, cdf[i], shared, upper))
        np.testing.assert_array_equal(apart[i], quantile_of_cdf(values, cdf[i], by_row[i], upper))


@pytest.mark.parametrize("upper", [False, True])
def test_laws_a_row_whose_sums_are_just_what_is_asked_for(upper):
    values, levels = np.arange(3.0), np.array([0.25, 0.5])
    reached = cdf_targets(levels, upper)
    together = quantile_of_cdf(values, np.array([[*reached, 1.0]]), levels, upper)
    np.testing.assert_array_equal(together, [[0.0, 1.0]])


@pytest.mark.parametrize("mass", [0.0, 3.0])
@pytest.mark.parametrize("level", [1e-17, 1e-13, MASS_GUARD, 1e-9])
def test_a_tiny_level_is_that_of_the_smallest_score_with_weight(level, mass):
    scores, weights = [2.0, 1.0, 3.0], [1.0, 0.0, 1.0]
    assert weighted_conformal_quantile(scores, weights, mass, level) == 2.0
    assert conformal_quantile(scores, level) == 1.0


def test_a_level_within_the_guard_is_no_level():
    one = quantile_of_cdf(np.arange(2.0), np.array([0.5, 1.0]), np.array([MASS_GUARD]), upper=False)
    np.testing.assert_array_equal(one, [-np.inf])


def test_the_typical_size_is_positive_and_scales():
    for v in ([1.0, -3.0, 2.0], [0.0, 0.0, 0.0, 5.0], [0.0, 0.0, 2.0, -1.0, 0.0]):
        assert typical_size(v) > 0
        assert typical_size(np.multiply(v, -8.0)) == 8.0 * typical_size(v)
    assert typical_size([0.0, 0.0]) == 1.0


@pytest.mark.parametrize("level", [1e-10, 1e-7, 0.1, 0.5, 0.75, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("shift", [0.0, 5e-11, 1e-9, 1e-8, 1e-7])
def test_the_required_size_is_the_smallest_whose_rank_exists(level, shift):
    n = required_calibration_size(level + shift)
    assert n >= 1
    assert conformal_rank(n, level + shift) <= n
    assert n == 1 or conformal_rank(n - 1, level + shift) > n - 1


def test_the_conformal_quantile_of_many_scores_is_one_of_them_sorted():
    scores = np.random.default_rng(6).normal(size=5_000)
    ordered = np.sort(scores)
    for level in np.linspace(0.001, 0.999, 300):
        k = conformal_rank(len(scores), level)
        assert conformal_quantile(scores, level) == ordered[k - 1]


def test_a_level_of_almost_nothing_asks_for_the_smallest_score():
    assert conformal_quantile([3.0, 1.0, 2.0], 1e-12) == 1.0


@pytest.mark.parametrize("level", [0.25, 0.5, 0.7, 0.75])
def test_weights_a_row_equal_one_set_at_a_time(level):
    rng = np.random.default_rng(7)
    scores, weights = rng.integers(0, 5, 8).astype(float), rng.integers(0, 3, (30, 8))
    weights[0], masses = 0, rng.integers(0, 4, 30)
    together = weighted_conformal_quantile(scores, weights, masses, level)
    shared = weighted_conformal_quantile(scores, weights, 1, level)
    one_set = weighted_conformal_quantile(scores, weights[1], masses, level)
    for i in range(30):
        assert together[i] == weighted_conformal_quantile(scores, weights[i], masses[i], level)
        assert shared[i] == weighted_conformal_quantile(scores, weights[i], 1, level)
        assert one_set[i] == weighted_conformal_quantile(scores, weights[1], masses[i], level)


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60])
def test_the_unit_of_the_weights_does_not_matter(unit):
    rng = np.random.default_rng(8)
    scores, weights = rng.normal(size=20), rng.random(20)
    for level in (0.2, 0.5, 0.9):
        one = weighted_conformal_quantile(scores, weights, 1.0, level)
        assert weighted_conformal_quantile(scores, unit * weights, unit, level) == one


@pytest.mark.parametrize("mass", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("level", [1e-13, 0.3, 0.9])
def test_without_weight_on_any_score_the_weighted_quantile_is_infinite(mass, level):
    assert weighted_conformal_quantile([1.0, 2.0], [0, 0], mass, level) == np.inf
    rows = weighted_conformal_quantile([1.0, 2.0], [[0, 0], [0, 2]], [mass, 0.0], 0.5)
    assert rows.tolist() == [np.inf, 2.0]


@pytest.mark.parametrize(
    ("weights", "mass"),
    [([1, 1], 1), ([1, 1, 1, 1], 1), ([1, -1, 1], 1), ([1, 1, 1], -1), ([1, np.nan, 1], 1)],
)
def test_weights_that_are_no_masses_are_refused_by_the_conformal_quantile(weights, mass):
    with pytest.raises(ValueError, match=r"3 scores came with weights of shape .*none negative"):
        weighted_conformal_quantile([1.0, 2.0, 3.0], weights, mass, 0.5)


@pytest.mark.parametrize("function", [weighted_quantile, upper_weighted_quantile])
@pytest.mark.parametrize("weights", [[1, 1], [1, 1, 1, 1], [2, -1, 1], [0, 0, 0], [1, np.nan, 1]])
def test_weights_that_are_no_law_are_refused(function, weights):
    with pytest.raises(ValueError, match=r"3 values came with .*as many weights as values"):
        function([1.0, 2.0, 3.0], weights, 0.5)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**-3, 1.0, 2.0**40])
def test_the_typical_size_is_the_median_size_else_the_smallest_above_zero(factor):
    assert typical_size(factor * np.array([-2.0, 4.0, 1.0, 8.0, -16.0])) == 4.0 * factor
    assert typical_size(factor * np.array([0.0, 0.0, 0.0, 5.0, -3.0])) == 3.0 * factor


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


def test_constant_responses_are_their_own_unit():
    v = np.array([0.0, 1e-17, 3e-17])
    assert typical_size(clear_of_rounding(v, np.full(3, 0.3))) == 0.3
    assert typical_size(clear_of_rounding(v, 0.1 * np.array([3.0, 3.0, 1.0 + 2.0]))) > 0.2
    assert typical_size(clear_of_rounding(np.zeros(3), np.zeros(3))) == 1.0


def test_scores_in_another_unit_are_measured_in_it():
    y, v = np.array([0.0, 1.0, 2.0]), [1e-9, 0.0, 0.0]
    np.testing.assert_array_equal(clear_of_rounding(v, y, unit=1e9), v)
    np.testing.assert_array_equal(clear_of_rounding(v, y, unit=2.0), np.full(3, 0.5))
