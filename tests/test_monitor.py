"""Grid, p-values, bets and band; then monitors of models: cuts, shifts, threads, files."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, kstest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal.io.models import load_model, save_model
from localconformal.metrics import coverage
from localconformal.monitor.martingale import (
    N_BETS,
    SHARES,
    Martingales,
    Tally,
    anytime_band,
    bets,
    grid_codes,
    log_mixture,
    p_values,
)
from localconformal.monitor.monitor import calibration_codes, score_rows
from registry import ESTIMATORS, ci_but, light, optional, smooth_data

#: Normal noise 1.28 times as large is covered at 80 % by intervals made for 90 %.
TO_80_PERCENT = 1.6448536269514722 / 1.2815515655446004
BY_DEFAULT = lc.SplitConformalRegressor, lc.LocalizedConformalRegressor
BY_DEFAULT += (lc.MondrianConformalRegressor,)


def linear_rows(n, seed, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, X[:, 0] + noise * rng.normal(size=n)


def split_model(n_cal=200, seed=0):
    model = lc.SplitConformalRegressor(LinearRegression(), calibration_size=None, random_state=0)
    return model.fit(*linear_rows(300, seed)).conformalize(*linear_rows(n_cal, seed + 1))


def watching(model=None, **options):
    return lc.CoverageMonitor(model or split_model(), **{"random_state": 0, **options})


def whole_state(monitor, path):
    return monitor.save(path).read_text(encoding="utf-8")


@cache
def watched(estimator_class):
    X, y = smooth_data(440, 0)
    model = light(estimator_class, calibration_size=None).fit(X[:300], y[:300])
    return model.conformalize(X[300:400], y[300:400]), X[300:400], y[300:400], X[400:], y[400:]


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False), min_size=2, max_size=20), st.floats(1e-300, 1e300))
def test_codes_keep_the_order_on_a_fine_grid_with_two_sides(values, value):
    assert np.all(np.diff(grid_codes(np.sort(np.array(values)))) >= 0)
    low, here, high = grid_codes(np.array([0.995 * value, value, 1.005 * value]))
    assert low < here < high
    assert grid_codes(np.array([-value]))[0] == -here


def test_the_last_bit_of_a_round_number_does_not_matter():
    """Whole numbers and halves are common scores; none of them lies between two codes."""
    whole = np.arange(1, 20_000) / 2.0
    assert np.array_equal(grid_codes(whole), grid_codes(np.nextafter(whole, np.inf)))
    assert np.array_equal(grid_codes(whole), grid_codes(whole * (1.0 - 1e-12)))


CODES = st.lists(st.integers(-3, 3), max_size=8)


def tally_of(*parts):
    tally = Tally()
    for part in parts:
        tally.add(np.array(part, dtype=np.int64))
    return tally


@settings(deadline=None)
@given(CODES, CODES, st.lists(st.integers(-3, 3), min_size=1))
def test_p_values_are_those_of_the_definition(first, second, new):
    u, tally = np.linspace(0.1, 1.0, len(new)), tally_of(first, second)
    assert tally.n == len(first) + len(second)
    found = p_values(tally, np.array(new, dtype=np.int64), u)
    for t, code in enumerate(new):
        before = np.array(first + second + new[:t])
        expected = np.sum(before > code) + u[t] * (np.sum(before == code) + 1)
        assert found[t] == pytest.approx(expected / (len(before) + 1))


def quiet_p_values(n_streams, n_cal, n, draw, seed):
    """p-values (n_streams, n) of streams in which nothing changes."""
    rng, found = np.random.default_rng(seed), np.empty((n_streams, n))
    for stream in found:
        seen = tally_of(grid_codes(draw(rng, n_cal)))
        stream[:] = p_values(seen, grid_codes(draw(rng, n)), 1.0 - rng.random(n))
    return found


DRAWS = {
    "continuous": lambda rng, n: rng.standard_cauchy(n),
    "ties": lambda rng, n: rng.integers(0, 4, n).astype(float),
    "atoms and extremes": lambda rng, n: (rng.random(n) > 0.8) * 1e300 * rng.normal(size=n),
}


@pytest.mark.parametrize("name", DRAWS)
def test_p_values_are_uniform_and_independent(name):
    p = quiet_p_values(1_000, 15, 12, DRAWS[name], seed=1)
    # 13 tests for each of 3 draws: a threshold that chance passes once in 250 runs of them all.
    for column in (*p.T, p.ravel()):
        assert kstest(column, "uniform").pvalue > 1e-4
    correlations = np.corrcoef(p.T)[np.triu_indices(p.shape[1], 1)]
    assert np.abs(correlations).max() < 4.5 / math.sqrt(len(p))


@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.9])
def test_every_bet_is_fair(alpha):
    at, grid = np.array([alpha]), np.linspace(1e-9, 1.0, 50)
    for bet in range(N_BETS):
        area, _ = quad(
            lambda p, bet=bet: bets(np.array([[p]]), at)[0, 0, bet], 0.0, 1.0, points=[alpha]
        )
        assert area == pytest.approx(1.0, abs=1e-6)
    assert bets(grid[:, None], at).min() >= 0.0
    assert SHARES.sum() == pytest.approx(1.0)


def test_the_martingale_is_the_mean_over_ways_to_jump_beside_others_too():
    """Wealth after two rows, by writing out all sequences of bets; in a column of three."""
    p, alpha = np.array([[0.02], [0.7]]), np.array([0.1])
    factors, expected = bets(p, alpha)[:, 0], 0.0
    for jump in (1e-3, 1e-4, 1e-5):
        stays = np.sum(SHARES * factors[0] * factors[1])
        moves = np.sum(SHARES * factors[0]) * np.sum(SHARES * factors[1])
        expected += ((1 - jump) * stays + jump * moves) / 3
    others = np.hstack([p, p[::-1], np.full((2, 1), 0.3)])
    together = Martingales.start(3).bet(others, np.array([0.1, 0.05, 0.3]))
    assert together[-1, 0] == pytest.approx(math.log(expected))
    assert Martingales.start(1).bet(p, alpha) == pytest.approx(together[:, :1])


def test_quiet_streams_seldom_raise_an_alarm():
    """At a stated rate of 10 %, streams of synthetic scores with a small calibration set."""
    p = quiet_p_values(500, 30, 400, DRAWS["continuous"], seed=2)
    logs = Martingales.start(len(p)).bet(p.T, np.full(len(p), 0.1))
    assert np.sum(logs.max(axis=0) >= math.log(10)) <= binom.ppf(0.999, len(p), 0.1)


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
    lower, upper = anytime_band(k, n)
    assert 0.0 <= lower[0] <= upper[0] <= 1.0
    assert lower[0] <= covered / max(1, covered + missed) <= upper[0] or covered + missed == 0
    assert anytime_band(n - k, n)[0] == pytest.approx(1.0 - upper)
    if lower[0] > 1e-9:
        assert log_mixture(k, n, lower) == pytest.approx(math.log(2.0 / 0.05), abs=1e-3)
    of_many = anytime_band([90_000_000], [100_000_000])
    assert of_many[1] - of_many[0] < 5e-4


@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
@pytest.mark.parametrize("estimator_class", ci_but(BY_DEFAULT, ESTIMATORS))
def test_every_estimator_can_be_watched(estimator_class, tmp_path):
    model, X_cal, y_cal, X, y = watched(estimator_class)
    monitor = watching(model).update(X, y)
    assert monitor.coverage_.coverage == coverage(y, model.predict_interval(X))
    assert monitor.coverage_.lower < monitor.coverage_.coverage <= monitor.coverage_.upper
    assert monitor.alarm_ is None
    assert math.isfinite(monitor.log_martingale_)
    # The calibration rows, given as new ones, get the scores that they were calibrated with.
    codes, cells = calibration_codes(model.calibration_, 0.9)
    again = score_rows(model, X_cal, y_cal, None, 0.9)
    assert np.array_equal(codes, again.codes)
    assert np.array_equal(cells, again.cells)
    states = set()
    for cuts in ([], [1, 3], range(1, 10)):
        monitor = lc.CoverageMonitor(model, random_state=3)
        for rows in np.split(np.arange(10), list(cuts)):
            monitor.update(X[rows], y[rows])
        states.add(whole_state(monitor, tmp_path / "state.json"))
    assert len(states) == 1


def test_sides_that_are_calibrated_apart_are_watched_apart():
    model = lc.LocalizedConformalRegressor(
        LinearRegression(), law="uniform", adjustment="plain", sides="union", random_state=0
    ).fit(*linear_rows(2_000, 0))
    monitor = watching(model).update(*linear_rows(300, 1))
    assert monitor._stream.alphas == pytest.approx([0.05, 0.05])
    assert monitor.alarm_ is None
    # Only the lower side fails.
    X, y = linear_rows(600, 2)
    monitor.update(X, np.where(y < X[:, 0], y - 0.6, y))
    assert monitor.alarm_ is not None
    logs = monitor._stream.martingales.logs
    assert monitor.log_martingale_ == logs.max() - math.log(2)
    assert logs[0] > logs[1]


def test_a_shift_is_found_and_conformalize_helps():
    model = split_model(1_000)
    monitor = watching(model).update(*linear_rows(1_000, 7))
    assert monitor.alarm_ is None
    first = monitor.update(*linear_rows(800, 8, noise=TO_80_PERCENT)).alarm_
    assert 1_000 < first.row < 1_800
    assert first.log_martingale >= math.log(100)
    assert monitor.update(*linear_rows(500, 12)).alarm_ == first
    assert "conformalize with recent rows" in str(first)
    assert str(first) in monitor.summary()
    model.conformalize(*linear_rows(800, 9, noise=TO_80_PERCENT))
    with pytest.raises(ValueError, match=r"call reset\(\) to begin"):
        monitor.update(*linear_rows(5, 10))
    monitor.reset().update(*linear_rows(500, 11, noise=TO_80_PERCENT))
    assert monitor.alarm_ is None
    assert monitor.coverage_.n == 500
    # Intervals that became too wide are a change too.
    monitor.reset().update(*linear_rows(800, 7, noise=0.5))
    assert monitor.alarm_ is not None
    assert monitor.coverage_.coverage > 0.98


def test_the_shares_of_cells_may_change():
    """Within cells nothing does, and that is what the model promises; pooled scores would."""
    rng = np.random.default_rng(0)

    def rows(n, share):
        group = rng.random(n) < share
        X = np.column_stack([group, rng.normal(size=n)])
        return X, (1.0 + 4.0 * group) * rng.normal(size=n)

    model = lc.MondrianConformalRegressor(LinearRegression(), groups=0, random_state=0)
    model.fit(*rows(4_000, 0.2))
    shifted = rows(2_000, 0.8)
    assert watching(model).update(*shifted).alarm_ is None
    pooled = lc.SplitConformalRegressor(LinearRegression(), random_state=0).fit(*rows(4_000, 0.2))
    assert watching(pooled).update(*shifted).alarm_ is not None


def test_groups_are_passed_on_to_models_that_know_them():
    X, y = linear_rows(800, 0)
    labels = np.where(X[:, 1] < 0.5, "a", "b")
    model = lc.MondrianConformalRegressor(LinearRegression(), random_state=0)
    model.fit(X, y, groups=labels)
    monitor = watching(model).update(X[:50], y[:50], groups=labels[:50])
    assert monitor.coverage_.n == 50
    with pytest.raises(ValueError, match="pass groups="):
        monitor.update(X[:5], y[:5])
    # A cell that calibration never saw has a law of its own.
    monitor.update(X[:30], y[:30], groups=np.full(30, "new"))
    assert monitor.alarm_ is None
    with pytest.raises(ValueError, match="SplitConformalRegressor, which does not use labels; "):
        (other := watching()).update(X[:20], y[:20], groups=labels[:20])
    assert other.coverage_.n == 0


def test_threads_lose_no_row_and_what_is_read_meanwhile_is_of_one_moment(tmp_path):
    X, y = linear_rows(2_000, 5)
    monitor = watching()

    def take_in(start):
        monitor.update(X[start : start + 50], y[start : start + 50])

    with ThreadPoolExecutor(4) as pool:
        taking_in = [pool.submit(take_in, start) for start in range(0, 2_000, 50)]
        while not all(task.done() for task in taking_in):
            again = lc.CoverageMonitor.load(monitor.save(tmp_path / "s.json"), monitor.model)
            twin = pickle.loads(pickle.dumps(monitor))
            for n in (again.coverage_.n, twin.coverage_.n, monitor.coverage_.n):
                assert n % 50 == 0
    assert ([task.result() for task in taking_in], monitor.coverage_.n) == ([None] * 40, 2_000)
    assert sum(tally.n for tally in monitor._stream.seen.values()) == 2_000 + 200


class InTheMiddle:
    """Cells of rows, and something that happens when they are first asked for after `then`."""

    then = None

    def __call__(self, rows):
        happens, self.then = self.then, None
        if happens is not None:
            happens()
        return np.asarray(rows)[:, 0] < 0.5


def test_a_reset_while_rows_are_scored_mixes_no_streams(tmp_path):
    cells, (X, y) = InTheMiddle(), linear_rows(90, 5)
    model = lc.MondrianConformalRegressor(LinearRegression(), groups=cells, random_state=0)
    model.fit(*linear_rows(400, 0))
    monitor = watching(model).update(X[:50], y[:50])

    def calibrate():
        model.conformalize(*linear_rows(200, 1, noise=3.0))

    cells.then = calibrate
    with pytest.raises(ValueError, match="recalibrated"):
        monitor.update(X[50:], y[50:])
    assert monitor.coverage_.n == 50
    monitor.reset()

    def calibrate_and_reset():
        calibrate()
        monitor.reset()

    cells.then = calibrate_and_reset
    monitor.update(X[50:], y[50:])
    fresh, path = watching(model).update(X[50:], y[50:]), tmp_path / "state.json"
    assert whole_state(monitor, path) == whole_state(fresh, path)


@pytest.mark.parametrize("noise", [1.0, 4.0])
def test_a_loaded_monitor_goes_on_as_if_nothing_had_happened(noise, tmp_path):
    model, (X, y) = split_model(), linear_rows(700, 7, noise)
    monitor = lc.CoverageMonitor(model, false_alarm=0.02, random_state=4)
    path = monitor.update(X[:400], y[:400]).save(tmp_path / "monitor.json")
    again = lc.CoverageMonitor.load(path, model)
    assert again.false_alarm == 0.02
    assert (again.alarm_ is None) == (noise == 1.0)
    assert (again.summary(), again.alarm_) == (monitor.summary(), monitor.alarm_)
    for each in (monitor, again):
        each.update(X[400:], y[400:])
    assert whole_state(again, path) == whole_state(monitor, path)
    assert whole_state(again.reset(), path) == whole_state(monitor.reset(), path)


class Constant(LinearRegression):
    def fit(self, rows, y):
        self.first_ = y[0]
        return self

    def predict(self, rows):
        return np.full(len(rows), self.first_)


def test_the_state_of_another_model_is_refused(tmp_path):
    path = watching().save(tmp_path / "monitor.json")
    for other in (split_model(seed=5), split_model().set_params(confidence_level=0.8)):
        with pytest.raises(ValueError, match="another calibration or level of it; pass the model"):
            lc.CoverageMonitor.load(path, other)
    loaded = load_model(save_model(split_model(), tmp_path / "model.skops"))
    for same in (split_model(), loaded):
        assert lc.CoverageMonitor.load(path, same).coverage_.n == 0
    # Whole numbers far from rounding: the scores of both are the same to the last bit.
    rows, target = np.arange(64.0)[:, None], np.arange(64.0) % 4

    def fitted(y):
        model = lc.SplitConformalRegressor(Constant(), calibration_size=None)
        return model.fit(rows[:32], y[:32]).conformalize(rows[32:], y[32:])

    first, second = fitted(target), fitted(target + 1_000.0)
    assert np.array_equal(first.calibration_.V, second.calibration_.V)
    watching(first).save(path)
    assert lc.CoverageMonitor.load(path, fitted(target)).coverage_.n == 0
    with pytest.raises(ValueError, match="belongs to another model"):
        lc.CoverageMonitor.load(path, second)


def test_a_file_that_is_broken_or_of_another_format_is_one_sentence(tmp_path, monkeypatch):
    model, rng = split_model(), np.random.default_rng(0)
    monitor = watching(model).update(*linear_rows(100, 7))
    path = monitor.save(tmp_path / "monitor.json")
    whole = path.read_bytes()
    places = rng.integers(len(whole), size=20)
    for text in (
        *(whole[:place] for place in places),
        *(whole[:place] + b"x" + whole[place:] for place in places),
        whole.replace(b'"rows": 100', b'"rows": 101'),
        *(b"", b"[]", b"[" * 100_000, b'{"content": 3, "sha256": 3}', b"null", b"\xff"),
    ):
        path.write_bytes(text)
        with pytest.raises(ValueError, match="was altered; start a new monitor"):
            lc.CoverageMonitor.load(path, model)
    with pytest.raises(ValueError, match="does not exist"):
        lc.CoverageMonitor.load(tmp_path / "none.json", model)
    with monkeypatch.context() as patched:
        patched.setattr("localconformal.monitor.monitor._FORMAT", 99)
        monitor.save(path)
    with pytest.raises(ValueError, match="has the format 99"):
        lc.CoverageMonitor.load(path, model)


def test_the_state_is_small_however_long_the_stream_and_however_cut(tmp_path):
    """More rows than are scored at a time, and ranked."""
    path, (X, y) = tmp_path / "state.json", linear_rows(9_000, 20)
    monitor = watching()
    for rows in np.array_split(np.arange(9_000), 3):
        monitor.update(X[rows], y[rows])
    assert len(whole_state(monitor, path)) < 60_000
    assert whole_state(watching().update(X, y), path) == whole_state(monitor, path)


def test_rows_that_are_refused_leave_no_trace(tmp_path):
    monitor = watching().update(*linear_rows(50, 7))
    before = whole_state(monitor, tmp_path / "state.json")
    for X, y, match in (
        (np.zeros((2, 2)), [0.0, np.nan], "NaN"),
        (np.zeros((2, 2)), [0.0, np.inf], "infinity"),
        (np.zeros((2, 2)), [0.0], "inconsistent"),
        (np.zeros((2, 3)), [0.0, 0.0], "features"),
        (np.full((2, 2), np.nan), [0.0, 0.0], "NaN"),
        (np.zeros((2, 2)), None, "y"),
    ):
        with pytest.raises(ValueError, match=match):
            monitor.update(X, y)
    assert whole_state(monitor, tmp_path / "state.json") == before


def test_models_that_cannot_be_watched_and_chances_outside_0_1_are_refused():
    X, y = linear_rows(200, 0)
    with pytest.raises(ValueError, match="expected a fitted estimator of localconformal"):
        lc.CoverageMonitor(LinearRegression())
    with pytest.raises(NotFittedError):
        lc.CoverageMonitor(lc.SplitConformalRegressor())
    unfinished = lc.SplitConformalRegressor(LinearRegression(), calibration_size=None).fit(X, y)
    with pytest.raises(NotFittedError, match="conformalize"):
        lc.CoverageMonitor(unfinished)
    weighted = lc.WeightedConformalRegressor(
        LinearRegression(), weights=lambda X: X[:, 0], random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="without weights"):
        lc.CoverageMonitor(weighted)
    for value in (0.0, 1.0, -1, np.nan, "1", None):
        with pytest.raises(ValueError, match="got false_alarm="):
            lc.CoverageMonitor(split_model(), false_alarm=value)


@pytest.mark.ci
def test_a_model_that_keeps_no_scores_is_refused_until_it_has_some():
    lazy, (X, y) = optional("dask.array"), linear_rows(2_000, 5)
    model = lc.SplitConformalRegressor(LinearRegression(), random_state=0)
    model.fit(lazy.from_array(X, chunks=(500, 2)), lazy.from_array(y, chunks=500))
    with pytest.raises(ValueError, match="call conformalize with rows in memory first"):
        lc.CoverageMonitor(model)
    model.conformalize(*linear_rows(200, 6))
    assert watching(model).update(X, y).coverage_.n == 2_000


@pytest.mark.parametrize("level", [0.5, 1.5, "x", None, float("nan"), True, [0.5, 0.9]], ids=repr)
def test_a_model_with_another_level_is_refused_until_it_is_set_back(level):
    model, rows = split_model(), linear_rows(20, 5)
    monitor = watching(model)
    model.set_params(confidence_level=level)
    said = "level is 0.5 and was 0.9" if level == 0.5 else "confidence_level.* expected"
    with pytest.raises(ValueError, match=said):
        monitor.update(*rows)
    if level != 0.5:
        with pytest.raises(ValueError, match=said):
            lc.CoverageMonitor(model)
    model.set_params(confidence_level=0.9)
    assert (monitor.coverage_.n, monitor.update(*rows).coverage_.n) == (0, 20)


def test_without_rows_there_is_nothing_to_say_and_random_state_decides_all():
    monitor = watching()
    assert math.isnan(monitor.coverage_.coverage)
    assert (monitor.coverage_.lower, monitor.coverage_.upper) == (0.0, 1.0)
    assert monitor.log_martingale_ == 0.0
    assert "no rows yet" in repr(monitor)
    model = split_model()
    one, again, other = (
        lc.CoverageMonitor(model, random_state=seed).update(*linear_rows(200, 7)).log_martingale_
        for seed in (1, 1, 2)
    )
    assert one == again != other


@pytest.mark.nightly
def test_a_thousand_quiet_streams_of_a_fitted_model():
    """One fit; calibration set and stream are new each time, for the promise is over both."""
    model, alarms = split_model(), 0
    for seed in range(1_000):
        X, y = linear_rows(200 + 1_500, seed + 100)
        model.conformalize(X[:200], y[:200])
        monitor = lc.CoverageMonitor(model, false_alarm=0.05, random_state=seed)
        alarms += monitor.update(X[200:], y[200:]).alarm_ is not None
    assert alarms <= binom.ppf(0.999, 1_000, 0.05)
