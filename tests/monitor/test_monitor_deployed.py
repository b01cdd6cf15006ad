"""A monitor where models are deployed: threads, copies, levels that change, other models."""

import copy
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from monitor_data import linear_rows, split_model, whole_state
from sklearn.linear_model import LinearRegression

from localconformal import CoverageMonitor, MondrianConformalRegressor, SplitConformalRegressor
from localconformal.monitor.state import digest

X, Y = linear_rows(2_000, seed=5)


def test_threads_lose_no_row(tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: monitor.update(X[i : i + 20], Y[i : i + 20]), range(0, 2_000, 20)))
    tallies = monitor._stream.tallies.values()
    assert monitor.coverage_.n == sum(tally.n for tally in tallies) == 2_000
    again = CoverageMonitor.load(monitor.save(tmp_path / "s.json"), monitor.model)
    assert again.coverage_ == monitor.coverage_


def test_what_is_read_while_rows_are_taken_in_is_of_one_moment(tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0)
    with ThreadPoolExecutor(1) as pool:
        taking_in = pool.submit(
            lambda: [monitor.update(X[i : i + 100], Y[i : i + 100]) for i in range(0, 2_000, 100)]
        )
        while not taking_in.done():
            again = CoverageMonitor.load(monitor.save(tmp_path / "s.json"), monitor.model)
            assert again.coverage_.n % 100 == 0
            assert monitor.coverage_.n % 100 == 0
            # Empty before the first row.
            assert (monitor.history_["coverage"] <= 1.0).all()
            assert pickle.loads(pickle.dumps(monitor)).save(tmp_path / "p.json").exists()
            CoverageMonitor.load(tmp_path / "p.json", monitor.model)
    assert len(taking_in.result()) == 20


class InTheMiddle:
    """Cells of rows, and something that happens when they are first asked for after `then`."""

    def __init__(self):
        self.then = None

    def __call__(self, rows):
        happens, self.then = self.then, None
        if happens is not None:
            happens()
        return np.asarray(rows)[:, 0] < 0.5


def test_a_reset_while_rows_are_scored_mixes_no_streams(tmp_path):
    cells = InTheMiddle()
    model = MondrianConformalRegressor(LinearRegression(), groups=cells, random_state=0)
    model.fit(*linear_rows(400, 0))
    monitor = CoverageMonitor(model, random_state=0).update(X[:50], Y[:50])

    def calibrate():
        model.conformalize(*linear_rows(200, 1, noise=3.0))

    cells.then = calibrate
    with pytest.raises(ValueError, match="calibrated anew"):
        monitor.update(X[50:90], Y[50:90])
    assert monitor.coverage_.n == 50
    monitor.reset()

    def calibrate_and_reset():
        calibrate()
        monitor.reset()

    cells.then = calibrate_and_reset
    monitor.update(X[50:90], Y[50:90])
    fresh = CoverageMonitor(model, random_state=0).update(X[50:90], Y[50:90])
    path = tmp_path / "state.json"
    assert whole_state(monitor, path) == whole_state(fresh, path)


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda monitor: pickle.loads(pickle.dumps(monitor))]
)
def test_a_copy_goes_its_own_way(twin, tmp_path):
    monitor = CoverageMonitor(split_model(), random_state=0).update(X[:300], Y[:300])
    other, path = twin(monitor), tmp_path / "state.json"
    before = whole_state(monitor, path)
    other.update(X[300:600], Y[300:600])
    assert whole_state(monitor, path) == before
    assert whole_state(monitor.update(X[300:600], Y[300:600]), path) == whole_state(other, path)


def test_another_level_is_refused_until_it_is_set_back():
    model = split_model()
    monitor = CoverageMonitor(model, random_state=0)
    model.set_params(confidence_level=0.5)
    with pytest.raises(ValueError, match=r"the model's level is 0.5 and was 0.9 .* reset\(\)"):
        monitor.update(X, Y)
    assert monitor.coverage_.n == 0
    model.set_params(confidence_level=0.9)
    assert monitor.update(X, Y).coverage_.n == 2_000


def test_content_that_is_missing_is_told(tmp_path):
    model = split_model()
    path = CoverageMonitor(model, random_state=0).save(tmp_path / "state.json")
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    for name in content:
        less = {key: value for key, value in content.items() if key != name}
        path.write_text(json.dumps({"content": less, "sha256": digest(less)}), encoding="utf-8")
        with pytest.raises(ValueError, match="monitor"):
            CoverageMonitor.load(path, model)


@pytest.mark.parametrize("level", [1.5, 0.0, "x", None, float("nan"), True, [0.5, 0.9]], ids=repr)
def test_a_level_that_is_none_is_told_by_its_name(level):
    model = split_model()
    monitor = CoverageMonitor(model, random_state=0)
    model.set_params(confidence_level=level)
    for call in (lambda: CoverageMonitor(model), lambda: monitor.update(X, Y)):
        with pytest.raises(ValueError, match=r"confidence_level is .*number.* was expected"):
            call()
    assert monitor.coverage_.n == 0


def test_another_model_with_equal_scores_is_refused(tmp_path):
    """Whole numbers far from rounding: the scores of both are the same to the last bit."""
    rows, target = np.arange(64.0)[:, None], np.arange(64.0) % 4

    def fitted(y):
        model = SplitConformalRegressor(Constant(), calibration_size=None)
        return model.fit(rows[:32], y[:32]).conformalize(rows[32:], y[32:])

    first, second = fitted(target), fitted(target + 1_000.0)
    assert np.array_equal(first.calibration_.V, second.calibration_.V)
    path = CoverageMonitor(first, random_state=0).save(tmp_path / "state.json")
    assert CoverageMonitor.load(path, fitted(target)).coverage_.n == 0
    with pytest.raises(ValueError, match="belongs to another model"):
        CoverageMonitor.load(path, second)


class Constant(LinearRegression):
    """Predicts the first response."""

    def fit(self, rows, y):
        self.first_ = y[0]
        return self

    def predict(self, rows):
        return np.full(len(rows), self.first_)


def test_a_model_that_keeps_no_scores_is_refused_until_it_has_some():
    lazy = pytest.importorskip("dask.array")
    model = SplitConformalRegressor(LinearRegression(), random_state=0)
    model.fit(lazy.from_array(X, chunks=(500, 2)), lazy.from_array(Y, chunks=500))
    with pytest.raises(ValueError, match="call conformalize with rows in memory first"):
        CoverageMonitor(model)
    model.conformalize(*linear_rows(200, 6))
    assert CoverageMonitor(model, random_state=0).update(X, Y).coverage_.n == 2_000


def test_groups_are_refused_where_nobody_asks_for_them():
    labels = np.full(20, "a")
    monitor = CoverageMonitor(split_model(), random_state=0)
    with pytest.raises(ValueError, match="SplitConformalRegressor has no use for labels; leave"):
        monitor.update(X[:20], Y[:20], groups=labels)
    binned = MondrianConformalRegressor(LinearRegression(), random_state=0).fit(X[:900], Y[:900])
    other = CoverageMonitor(binned, random_state=0)
    with pytest.raises(ValueError, match="groups came here but not to fit"):
        other.update(X[:20], Y[:20], groups=labels)
    assert monitor.coverage_.n == other.coverage_.n == 0
