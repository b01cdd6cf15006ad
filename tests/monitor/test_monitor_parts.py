"""Grid, p-values, bets, band and history: the laws that the monitor's promises rest on."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, kstest

from localconformal.monitor.band import anytime_band, log_mixture
from localconformal.monitor.grid import grid_codes
from localconformal.monitor.history import MOST_POINTS, History
from localconformal.monitor.martingale import N_BETS, SHARES, Martingales, bets
from localconformal.monitor.tally import Tally, p_values

NUMBERS = st.floats(allow_nan=False)


@settings(deadline=None)
@given(st.lists(NUMBERS, min_size=2, max_size=20))
def test_codes_keep_the_order(values):
    ordered = np.sort(np.array(values))
    assert np.all(np.diff(grid_codes(ordered)) >= 0)


@settings(deadline=None)
@given(st.floats(1e-300, 1e300))
def test_the_grid_is_fine_and_has_two_sides(value):
    low, here, high = grid_codes(np.array([0.995 * value, value, 1.005 * value]))
    assert low < here < high
    assert grid_codes(np.array([-value]))[0] == -here


def test_the_last_bit_of_a_round_number_does_not_matter():
    """Whole numbers and halves are common scores; none of them lies between two codes."""
    whole = np.arange(1, 20_000) / 2.0
    assert np.array_equal(grid_codes(whole), grid_codes(np.nextafter(whole, np.inf)))
    assert np.array_equal(grid_codes(whole), grid_codes(whole * (1.0 - 1e-12)))


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3), max_size=8), st.lists(st.integers(-3, 3), min_size=1))
def test_p_values_are_those_of_the_definition(seen, new):
    tally = Tally()
    tally.add(np.array(seen, dtype=np.int64))
    u = np.linspace(0.1, 1.0, len(new))
    found = p_values(tally, np.array(new, dtype=np.int64), u)
    for t, code in enumerate(new):
        before = np.array(seen + new[:t])
        expected = np.sum(before > code) + u[t] * (np.sum(before == code) + 1)
        assert found[t] == pytest.approx(expected / (len(before) + 1))


@settings(deadline=None)
@given(st.lists(st.integers(-3, 3)), st.lists(st.integers(-3, 3)))
def test_a_tally_does_not_mind_the_order(first, second):
    one, other = Tally(), Tally()
    for part in (first, second):
        one.add(np.array(part, dtype=np.int64))
    other.add(np.array(second + first, dtype=np.int64))
    assert np.array_equal(one.codes, other.codes)
    assert np.array_equal(one.counts, other.counts)
    assert one.n == len(first) + len(second)


def quiet_p_values(n_streams, n_cal, n, draw, seed):
    """p-values (n_streams, n) of streams in which nothing changes."""
    rng = np.random.default_rng(seed)
    found = np.empty((n_streams, n))
    for stream in found:
        seen = Tally()
        seen.add(grid_codes(draw(rng, n_cal)))
        stream[:] = p_values(seen, grid_codes(draw(rng, n)), 1.0 - rng.random(n))
    return found


DRAWS = {
    "continuous": lambda rng, n: rng.standard_cauchy(n),
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "atoms and extremes": lambda rng, n: np.where(
        rng.random(n) < 0.8, 0.0, 1e300 * rng.normal(size=n)
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_p_values_are_uniform_and_independent(name):
    p = quiet_p_values(1_000, 15, 12, DRAWS[name], seed=1)
    # 13 tests for each of 3 draws: a threshold that chance passes once in 250 runs of them all.
    for column in p.T:
        assert kstest(column, "uniform").pvalue > 1e-4
    assert kstest(p.ravel(), "uniform").pvalue > 1e-4
    correlations = np.corrcoef(p.T)[np.triu_indices(p.shape[1], 1)]
    assert np.abs(correlations).max() < 4.5 / math.sqrt(len(p))


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 0.9])
def test_every_bet_is_fair(alpha):
    at, grid = np.array([alpha]), np.linspace(1e-9, 1.0, 50)
    for bet in range(N_BETS):
        area, _ = quad(
            lambda p, bet=bet: bets(np.array([[p]]), at)[0, 0, bet], 0.0, 1.0, points=[alpha]
        )
        assert area == pytest.approx(1.0, abs=1e-6)
    assert bets(grid[:, None], at).min() >= 0.0
    assert SHARES.sum() == pytest.approx(1.0)


def test_the_martingale_is_the_mean_over_ways_to_jump():
    """Wealth after two rows, by writing out all sequences of bets."""
    p, alpha = np.array([[0.02], [0.7]]), np.array([0.1])
    factors, expected = bets(p, alpha)[:, 0], 0.0
    for jump in (1e-3, 1e-4, 1e-5):
        stays = np.sum(SHARES * factors[0] * factors[1])
        moves = np.sum(SHARES * factors[0]) * np.sum(SHARES * factors[1])
        expected += ((1 - jump) * stays + jump * moves) / 3
    assert Martingales.start(1).bet(p, alpha)[-1] == pytest.approx(math.log(expected))


def test_martingales_side_by_side_are_those_alone():
    p, alpha = np.random.default_rng(0).random((50, 3)), np.array([0.05, 0.1, 0.3])
    together = Martingales.start(3).bet(p, alpha)
    for column in range(3):
        here = slice(column, column + 1)
        alone = Martingales.start(1).bet(p[:, here], alpha[here])
        assert alone[:, 0] == pytest.approx(together[:, column])


def test_quiet_streams_seldom_raise_an_alarm():
    """At a stated rate of 10 %, streams of synthetic scores with a small calibration set."""
    p = quiet_p_values(500, 30, 400, DRAWS["continuous"], seed=2)
    logs = Martingales.start(len(p)).bet(p.T, np.full(len(p), 0.1))
    alarms = np.sum(logs.max(axis=0) >= math.log(10))
    assert alarms <= binom.ppf(0.999, len(p), 0.1)


def test_the_band_holds_at_all_rows_although_the_chance_drifts():
    rng = np.random.default_rng(3)
    n_streams, n = 400, 600
    chance = np.where(np.arange(n) < 300, 0.95, 0.6)
    k = np.cumsum(rng.random((n_streams, n)) < chance, axis=1).astype(float)
    rows, mean = np.arange(1.0, n + 1), np.cumsum(chance) / np.arange(1.0, n + 1)
    limit, left = math.log(2.0 / 0.1), 0
    for covered in k:
        above = log_mixture(covered, rows, mean) >= limit
        below = log_mixture(rows - covered, rows, 1.0 - mean) >= limit
        left += bool(np.any(above | below))
    assert left <= binom.ppf(0.999, n_streams, 0.1)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 500), st.integers(0, 500))
def test_the_band_is_where_the_mixture_is_below_its_limit(covered, missed):
    k, n = np.array([float(covered)]), np.array([float(covered + missed)])
    lower, upper = anytime_band(k, n, 0.95)
    assert 0.0 <= lower[0] <= upper[0] <= 1.0
    assert lower[0] <= covered / max(1, covered + missed) <= upper[0] or covered + missed == 0
    mirrored = anytime_band(n - k, n, 0.95)
    assert mirrored[0] == pytest.approx(1.0 - upper)
    if lower[0] > 1e-9:
        at = log_mixture(k, n, lower)
        assert at == pytest.approx(math.log(2.0 / 0.05), abs=1e-3)


def test_the_band_shrinks_to_the_coverage():
    n = 10 ** np.arange(2, 9)
    lower, upper = anytime_band(9 * n // 10, n, 0.95)
    assert np.all(np.diff(upper - lower) < 0)
    assert upper[-1] - lower[-1] < 5e-4


def test_a_history_stays_small_and_even():
    history = History()
    for row in range(1, 20_001):
        history.add(row, row, 0.0)
        assert len(history.points) <= MOST_POINTS
    assert len(history.points) > MOST_POINTS / 2 - 1
    assert set(np.diff([row for row, _, _ in history.points])) == {history.stride}
