"""CRPS against the double sum, the Gaussian's closed form and the laws of a proper score."""

import numpy as np
import pytest
from scipy.stats import norm

from localconformal.metrics.crps import crps


def double_sum(y, x, w):
    w = w / w.sum()
    return w @ np.abs(x - y) - 0.5 * w @ np.abs(x[:, None] - x[None]) @ w


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    # Halves, so that values tie with each other and with y; and weights of zero.
    values = rng.integers(-8, 9, (60, 7)) / 2.0
    return rng.integers(-8, 9, 60) / 2.0, values, rng.integers(0, 4, (60, 7)) + (values == 0.0)


def test_equals_the_double_sum_with_and_without_weights(problem):
    y, values, weights = problem
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


def test_twice_the_mean_pinball_loss_of_the_quantiles(problem):
    """At midpoint levels the energy form is the average pinball loss, exactly."""
    y, values, _ = problem
    values = np.sort(values, axis=1)
    levels = (np.arange(7) + 0.5) / 7
    miss = y[:, None] - values
    pinball = np.where(miss >= 0, levels * miss, (levels - 1.0) * miss)
    assert crps(y, values) == pytest.approx(2.0 * pinball.mean(), abs=1e-12)


def test_one_point_gives_the_absolute_error(problem):
    y, values, _ = problem
    assert crps(y, values[:, :1]) == pytest.approx(np.abs(y - values[:, 0]).mean())


def test_order_shift_and_scale(problem):
    y, values, _ = problem
    score = crps(y, values)
    assert crps(y, values[:, ::-1]) == pytest.approx(score, abs=1e-12)
    assert crps(5.0 * y + 3.0, 5.0 * values + 3.0) == pytest.approx(5.0 * score)


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
