"""The monitor with fitted models: every estimator, cuts, shifts, files, errors."""

import json
import math
from functools import cache

import numpy as np
import pytest
from monitor_data import TO_80_PERCENT, linear_rows, split_model, whole_state
from scipy.stats import binom
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from localconformal import (
    CoverageMonitor,
    LocalizedConformalRegressor,
    MondrianConformalRegressor,
    SplitConformalRegressor,
    WeightedConformalRegressor,
)
from localconformal.io.models import load_model, save_model
from localconformal.metrics import coverage
from localconformal.monitor.scoring import calibration_codes, score_rows
from registry import light, smooth_data

INFINITE_IS_FINE = pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")


@cache
def watched(estimator_class):
    """A fitted model, its calibration rows, and new rows."""
    X, y = smooth_data(440, 0)
    model = light(estimator_class, calibration_size=None).fit(X[:300], y[:300])
    return model.conformalize(X[300:400], y[300:400]), X[300:400], y[300:400], X[400:], y[400:]


@INFINITE_IS_FINE
def test_every_estimator_can_be_watched(estimator_class):
    model, _, _, X, y = watched(estimator_class)
    monitor = CoverageMonitor(model, random_state=0).update(X, y)
    assert monitor.coverage_.coverage == coverage(y, model.predict_interval(X))
    assert monitor.coverage_.lower < monitor.coverage_.coverage <= monitor.coverage_.upper
    assert monitor.alarm_ is None
    assert math.isfinite(monitor.log_martingale_)


@INFINITE_IS_FINE
def test_the_state_is_the_same_however_the_stream_is_cut(estimator_class, tmp_path):
    model, _, _, X, y = watched(estimator_class)
    states = set()
    for cuts in ([], [1, 3], range(1, 10)):
        monitor = CoverageMonitor(model, random_state=3)
        for rows in np.split(np.arange(10), list(cuts)):
            monitor.update(X[rows], y[rows])
        states.add(whole_state(monitor, tmp_path / "state.json"))
    assert len(states) == 1


@INFINITE_IS_FINE
def test_the_score_of_a_row_is_that_of_calibration(estimator_class):
    """The calibration rows, given as new ones, get the scores that they were calibrated with."""
    model, X, y, _, _ = watched(estimator_class)
    codes, cells = calibration_codes(model.calibration_, 0.9)
    again = score_rows(model, X, y, None, 0.9)
    assert np.array_equal(codes, again.codes)
    assert np.array_equal(cells, again.cells)


def test_more_rows_than_are_scored_at_a_time(tmp_path):
    X, y = linear_rows(2_500, 5)
    whole = CoverageMonitor(split_model(), random_state=0).update(X, y)
    cut = CoverageMonitor(split_model(), random_state=0)
    for rows in np.array_split(np.arange(2_500), 7):
        cut.update(X[rows], y[rows])
    path = tmp_path / "state.json"
    assert whole_state(cut, path) == whole_state(whole, path)


def test_sides_that_are_calibrated_apart_are_watched_apart(tmp_path):
    model = LocalizedConformalRegressor(
        LinearRegression(), adjustment="plain", sides="union", random_state=0
    ).fit(*linear_rows(2_000, 0))
    monitor = CoverageMonitor(model, random_state=0).update(*linear_rows(300, 1))
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
    monitor = CoverageMonitor(model, random_state=0).update(*linear_rows(1_000, 7))
    assert monitor.alarm_ is None
    monitor.update(*linear_rows(800, 8, noise=TO_80_PERCENT))
    assert 1_000 < monitor.alarm_.row < 1_800
    assert "conformalize with recent rows" in str(monitor.alarm_)
    assert str(monitor.alarm_) in monitor.summary()
    model.conformalize(*linear_rows(800, 9, noise=TO_80_PERCENT))
    with pytest.raises(ValueError, match=r"call reset\(\) first"):
        monitor.update(*linear_rows(5, 10))
    monitor.reset().update(*linear_rows(500, 11, noise=TO_80_PERCENT))
    assert monitor.alarm_ is None
    assert monitor.coverage_.n == 500


def test_intervals_that_became_too_wide_are_found_too():
    monitor = CoverageMonitor(split_model(1_000), random_state=0)
    monitor.update(*linear_rows(800, 7, noise=0.5))
    assert monitor.alarm_ is not None
    assert monitor.coverage_.coverage > 0.98


def test_the_first_alarm_stays():
    monitor = CoverageMonitor(split_model(1_000), random_state=0)
    first = monitor.update(*linear_rows(300, 7, noise=3.0)).alarm_
    assert monitor.update(*linear_rows(2_000, 8)).alarm_ == first
    assert first.log_martingale >= math.log(100)


def test_the_shares_of_cells_may_change():
    """Within cells nothing does, and that is what the model promises; pooled scores would."""
    rng = np.random.default_rng(0)

    def rows(n, share):
        group = rng.random(n) < share
        X = np.column_stack([group, rng.normal(size=n)])
        return X, (1.0 + 4.0 * group) * rng.normal(size=n)

    model = MondrianConformalRegressor(LinearRegression(), groups=0, random_state=0)
    model.fit(*rows(4_000, 0.2))
    shifted = rows(2_000, 0.8)
    assert CoverageMonitor(model, random_state=0).update(*shifted).alarm_ is None
    pooled = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*rows(4_000, 0.2))
    assert CoverageMonitor(pooled, random_state=0).update(*shifted).alarm_ is not None


def test_groups_are_passed_on():
    X, y = linear_rows(800, 0)
    labels = np.where(X[:, 1] < 0.5, "a", "b")
    model = MondrianConformalRegressor(LinearRegression(), random_state=0)
    model.fit(X, y, groups=labels)
    monitor = CoverageMonitor(model, random_state=0).update(X[:50], y[:50], groups=labels[:50])
    assert monitor.coverage_.n == 50
    with pytest.raises(ValueError, match="pass groups="):
        monitor.update(X[:5], y[:5])
    # A cell that calibration never saw has a law of its own.
    with pytest.warns(UserWarning, match="infinite"):
        monitor.update(X[:30], y[:30], groups=np.full(30, "new"))
    assert monitor.alarm_ is None


# ---- files -----------------------------------------------------------------------------------


def test_a_loaded_monitor_goes_on_as_if_nothing_had_happened(tmp_path):
    model, (X, y) = split_model(), linear_rows(700, 7)
    monitor = CoverageMonitor(model, false_alarm=0.02, probability=0.9, random_state=4)
    path = monitor.update(X[:400], y[:400]).save(tmp_path / "monitor.json")
    again = CoverageMonitor.load(path, model)
    assert (again.false_alarm, again.probability) == (0.02, 0.9)
    assert again.summary() == monitor.summary()
    assert again.history_.equals(monitor.history_)
    for each in (monitor, again):
        each.update(X[400:], y[400:])
    assert whole_state(again, path) == whole_state(monitor, path)
    assert whole_state(again.reset(), path) == whole_state(monitor.reset(), path)


def test_an_alarm_is_saved(tmp_path):
    model = split_model()
    monitor = CoverageMonitor(model, random_state=0).update(*linear_rows(300, 7, noise=4.0))
    assert monitor.alarm_ is not None
    again = CoverageMonitor.load(monitor.save(tmp_path / "monitor.json"), model)
    assert again.alarm_ == monitor.alarm_


def test_a_model_from_a_file_is_the_same_model(tmp_path):
    model, _, _, X, y = watched(LocalizedConformalRegressor)
    saved = CoverageMonitor(model, random_state=0).update(X, y).save(tmp_path / "monitor.json")
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    again = CoverageMonitor.load(saved, loaded).update(X, y)
    both = CoverageMonitor(model, random_state=0).update(X, y).update(X, y)
    assert again.log_martingale_ == both.log_martingale_


def test_the_state_of_another_model_is_refused(tmp_path):
    model = split_model()
    path = CoverageMonitor(model, random_state=0).save(tmp_path / "monitor.json")
    with pytest.raises(ValueError, match="another calibration or level; pass the model"):
        CoverageMonitor.load(path, split_model(seed=5))
    with pytest.raises(ValueError, match="another calibration or level"):
        CoverageMonitor.load(path, split_model().set_params(confidence_level=0.8))
    assert CoverageMonitor.load(path, split_model()).coverage_.n == 0


def is_refused(path, model):
    try:
        CoverageMonitor.load(path, model)
    except ValueError as error:
        return "was altered; start a new monitor" in str(error)
    return False


def test_an_altered_file_is_refused(tmp_path):
    model, rng = split_model(), np.random.default_rng(0)
    monitor = CoverageMonitor(model, random_state=0).update(*linear_rows(100, 7))
    path = monitor.save(tmp_path / "monitor.json")
    whole = path.read_bytes()
    for _ in range(200):
        place, bad = rng.integers(len(whole)), bytearray(whole)
        bad[place] ^= 1 << rng.integers(7)
        path.write_bytes(bad if rng.random() < 0.8 else whole[:place])
        # The last digit of a number may change without changing the number.
        assert is_refused(path, model) or json.loads(path.read_bytes()) == json.loads(whole)
    for text in ("", "[]", "[" * 100_000, '{"content": 3, "sha256": 3}', "null"):
        path.write_text(text)
        assert is_refused(path, model)
    with pytest.raises(ValueError, match="does not exist"):
        CoverageMonitor.load(tmp_path / "none.json", model)


def test_a_file_of_another_format_is_refused(tmp_path):
    from localconformal.monitor.state import digest

    model = split_model()
    path = CoverageMonitor(model, random_state=0).save(tmp_path / "monitor.json")
    content = {**json.loads(path.read_text())["content"], "format": 99}
    path.write_text(json.dumps({"content": content, "sha256": digest(content)}))
    with pytest.raises(ValueError, match="has format 99"):
        CoverageMonitor.load(path, model)


def test_the_state_is_small_however_long_the_stream(tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0)
    sizes = []
    for seed in range(3):
        monitor.update(*linear_rows(4_000, 20 + seed))
        sizes.append(len(whole_state(monitor, tmp_path / "state.json")))
    assert sizes[-1] < 60_000
    assert sizes[2] - sizes[1] < 0.3 * sizes[0]
    assert len(monitor.history_) <= 257


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "match"),
    [
        (np.zeros((2, 2)), [0.0, np.nan], "NaN"),
        (np.zeros((2, 2)), [0.0, np.inf], "infinity"),
        (np.zeros((2, 2)), [0.0], "inconsistent"),
        (np.zeros((2, 3)), [0.0, 0.0], "features"),
        (np.full((2, 2), np.nan), [0.0, 0.0], "NaN"),
        (np.zeros((2, 2)), None, "y"),
    ],
)
def test_rows_that_are_refused_leave_no_trace(X, y, match, tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0).update(*linear_rows(50, 7))
    before = whole_state(monitor, tmp_path / "state.json")
    with pytest.raises(ValueError, match=match):
        monitor.update(X, y)
    assert whole_state(monitor, tmp_path / "state.json") == before


def test_models_that_cannot_be_watched_are_refused():
    X, y = linear_rows(200, 0)
    with pytest.raises(ValueError, match="a fitted estimator of localconformal was expected"):
        CoverageMonitor(LinearRegression())
    with pytest.raises(NotFittedError):
        CoverageMonitor(SplitConformalRegressor())
    unfinished = SplitConformalRegressor(LinearRegression(), calibration_size=None).fit(X, y)
    with pytest.raises(NotFittedError, match="conformalize"):
        CoverageMonitor(unfinished)
    weighted = WeightedConformalRegressor(
        LinearRegression(), weights=lambda X: X[:, 0], random_state=0
    ).fit(X, y)
    with pytest.raises(ValueError, match="without weights"):
        CoverageMonitor(weighted)


@pytest.mark.parametrize("value", [0.0, 1.0, -1, 2, np.nan, "0.01", None, True])
@pytest.mark.parametrize("name", ["false_alarm", "probability"])
def test_chances_lie_inside_0_1(name, value):
    with pytest.raises(ValueError, match=f"{name} is "):
        CoverageMonitor(split_model(), **{name: value})


def test_a_monitor_without_rows_has_nothing_to_say():
    monitor = CoverageMonitor(split_model(), random_state=0)
    assert math.isnan(monitor.coverage_.coverage)
    assert (monitor.coverage_.lower, monitor.coverage_.upper) == (0.0, 1.0)
    assert monitor.log_martingale_ == 0.0
    assert len(monitor.history_) == 0
    assert "no rows yet" in repr(monitor)


def test_random_state_decides_all():
    rows = linear_rows(200, 7)
    logs = [
        CoverageMonitor(split_model(), random_state=seed).update(*rows).log_martingale_
        for seed in (1, 1, 2)
    ]
    assert logs[0] == logs[1] != logs[2]


@pytest.mark.ci
def test_a_thousand_quiet_streams_of_a_fitted_model():
    """One fit; calibration set and stream are new each time, for the promise is over both."""
    model, alarms = split_model(), 0
    for seed in range(1_000):
        X, y = linear_rows(200 + 1_500, seed + 100)
        model.conformalize(X[:200], y[:200])
        monitor = CoverageMonitor(model, false_alarm=0.05, random_state=seed)
        alarms += monitor.update(X[200:], y[200:]).alarm_ is not None
    assert alarms <= binom.ppf(0.999, 1_000, 0.05)
