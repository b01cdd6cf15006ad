"""A real cluster of worker processes: the same bounds, whatever happens to the workers."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
from dask_rows import (
    SOURCES,
    Deadly,
    FirstColumn,
    check_fit,
    cut,
    distributed,
    frames,
    rows,
    workers,
)

from benchmarks.harness import Preset, run_experiment
from localconformal import KernelLaw, SLCPRegressor
from localconformal.distributed.graph import ClusterError
from localconformal.engine.sketch import Sketch, SketchEngine
from localconformal.metrics import coverage, coverage_band
from paper import load_experiment
from registry import optional

#: Processes take ten seconds to start; what one process shows is in test_dask.py.
pytestmark = pytest.mark.ci
N = 80_000
TINY = Preset("tiny", 1, 60, ("yacht",), 60, 60, 0.0, 1)


@pytest.fixture(scope="module")
def client():
    with workers() as client:
        yield client


@pytest.fixture(scope="module")
def data():
    return rows(N, 0)


@pytest.fixture(scope="module")
def fitted(client, data):
    return slcp(FirstColumn()).fit(*cut(*data, (10_000,) * 8))


def slcp(model):
    return SLCPRegressor(model, law=KernelLaw(), random_state=0)


def test_bounds_are_those_of_the_sketch_in_memory(fitted, data):
    law = fitted.law_.laws[0]
    made = law.engine_.sketch
    calibrates = fitted.calibration_.find.roles.calibrates(0, N)
    X, y = data[0][~calibrates], data[1][~calibrates]
    whole = Sketch(made.landmarks, made.edges, made.bandwidth)
    whole.update(law.embedding_.transform(X), y - X[:, 0])
    assert whole.n == made.n == fitted.fit_report_["rows"]["reference"] == N - N // 4
    in_memory = SketchEngine(whole, law.engine_.fallback_engine, law.min_effective_samples)
    points, levels = law.rows(rows(2_000, 1)[0]), np.array([0.05, 0.5, 0.95])
    lower = np.zeros(3, dtype=bool)
    ours, theirs = (e.quantiles(points, levels, lower) for e in (law.engine_, in_memory))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_correction_is_the_conformal_quantile_of_all_rows(fitted, data):
    calibrates = fitted.calibration_.find.roles.calibrates(0, N)
    again = slcp(FirstColumn())
    again.__dict__.update(fitted.__dict__)
    again.conformalize(data[0][calibrates], data[1][calibrates])
    levels, cell = np.array([0.5, 0.9, 0.99]), np.zeros(1)
    ours = fitted.calibration_.correction(levels, cell)
    np.testing.assert_array_equal(ours, again.calibration_.correction(levels, cell.astype(int)))


def test_partitions_do_not_matter(client, fitted, data):
    new = rows(2_000, 1)[0]
    uneven = slcp(FirstColumn()).fit(*cut(*data, (1, 0, 33_333, 7, N - 33_341)))
    np.testing.assert_allclose(
        uneven.predict_interval(new), fitted.predict_interval(new), atol=1e-6
    )


def test_a_worker_killed_during_fit_changes_nothing(client, fitted, data, tmp_path):
    model = Deadly(tmp_path / "armed").arm()
    again = slcp(model).fit(*cut(*data, (10_000,) * 8))
    assert not model.mark.exists()
    new = rows(1_000, 1)[0]
    np.testing.assert_allclose(again.predict_interval(new), fitted.predict_interval(new), atol=1e-6)


def test_a_worker_killed_during_predict_changes_nothing(client, fitted, data, tmp_path):
    model = Deadly(tmp_path / "armed")
    mortal = slcp(FirstColumn())
    mortal.__dict__.update(fitted.__dict__)
    mortal.score_ = type(fitted.score_)().fit(model, None, None)
    X, y = rows(4_000, 1)
    lazy = mortal.predict_interval(cut(X, y, (1_000,) * 4)[0])
    model.arm()
    bounds = lazy.compute()
    assert not model.mark.exists()
    np.testing.assert_array_equal(bounds, fitted.predict_interval(X))


def test_a_frame_keeps_its_divisions(client, fitted, data):
    X, y = frames(*rows(3_000, 2), npartitions=4)
    model = SLCPRegressor(FirstColumn(), law="uniform", random_state=0).fit(X, y)
    bounds = model.predict_interval(X)
    assert bounds.divisions == X.divisions
    assert list(bounds.columns) == ["lower", "upper"]
    in_memory = model.predict_interval(X.compute(), output="frame")
    np.testing.assert_array_equal(bounds.compute(), in_memory)
    np.testing.assert_array_equal(model.predict(X).compute().index, X.compute().index)


@pytest.fixture
def fragile(tmp_path):
    """A scheduler and a worker of their own: its address and process."""
    dask = shutil.which("dask", path=Path(sys.executable).parent)
    file = tmp_path / "scheduler.json"
    shared = ["--scheduler-file", str(file)]
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), str(folder.parent), os.environ.get("PYTHONPATH", "")])
    started = [
        subprocess.Popen(
            [dask, *command, *shared],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        for command in (
            ["scheduler", "--port", "0", "--no-dashboard"],
            ["worker", "--nthreads", "1", "--no-dashboard", "--no-nanny"],
        )
    ]
    while not file.exists():
        time.sleep(0.1)
    yield json.loads(file.read_text())["address"], started[0]
    for process in started:
        process.kill()
        process.wait()


def test_a_lost_scheduler_is_one_sentence_and_leaves_no_model(fragile, tmp_path):
    address, scheduler = fragile
    model = slcp(Deadly(tmp_path / "armed", scheduler.pid).arm())
    with (
        pytest.raises(ClusterError, match="scheduler was lost before the work was done"),
        distributed.Client(address),
    ):
        model.fit(*cut(*rows(20_000, 0), (5_000,) * 4))
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_model_on_a_cluster(name, client, tmp_path):
    check_fit(*SOURCES[name](tmp_path))


# ---- models that train on the cluster, and other work that runs there ----


def boosters():
    xgboost = optional("xgboost.dask")
    lightgbm = optional("lightgbm")
    return {
        # They fit their own rows closely, so that scores in sample would be told from others.
        "xgboost": xgboost.DaskXGBRegressor(n_estimators=60, max_depth=8),
        "lightgbm": lightgbm.DaskLGBMRegressor(
            n_estimators=60, num_leaves=127, min_child_samples=2, verbose=-1
        ),
    }


@pytest.mark.parametrize("kind", ["arrays", "frames"])
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_booster_trains_on_the_cluster_and_predicts_here(client, name, kind):
    X, y = rows(8_000, 0)
    lazy = cut(X, y, (2_000,) * 4) if kind == "arrays" else frames(X, y, npartitions=4)
    model = SLCPRegressor(boosters()[name], law=KernelLaw(), random_state=0).fit(*lazy)
    assert model.fit_report_["rows"] == {"train": 6_000, "reference": 6_000, "calibration": 2_000}
    new, response = rows(4_000, 1)
    asked = new if kind == "arrays" else frames(new, response, npartitions=1)[0].compute()
    low, high = coverage_band(2_000, 4_000, 0.9, probability=0.9999)
    assert low <= coverage(response, model.predict_interval(asked)) <= high
    # Out of fold: residuals of the law are not those of rows that the model has seen.
    in_sample = np.abs(y - model.predict(lazy[0]).compute())
    law = model.law_.laws[0]
    assert law.mean(new[:500], absolute=True).mean() > 1.2 * in_sample.mean()


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_a_score_of_several_models_is_refused(client, name):
    model = SLCPRegressor(boosters()[name], score="normalised", law="uniform")
    with pytest.raises(ValueError, match="trains several models"):
        model.fit(*cut(*rows(400, 0), (200, 200)))


def test_experiments_on_a_cluster_give_the_same_results(client, tmp_path):
    kernels = load_experiment("kernels")
    run_experiment("kernels", kernels, TINY, tmp_path / "local")
    with joblib.parallel_config("dask"):
        run_experiment("kernels", kernels, TINY, tmp_path / "there", n_jobs=2)
    local, there = (results(tmp_path / name / "kernels.jsonl") for name in ("local", "there"))
    assert there == local


def results(store):
    """Rows of a store by their tasks, without the seconds that they took."""
    found = {}
    for line in store.read_text(encoding="utf-8").splitlines()[1:]:
        task = json.loads(line.partition(" ")[2])
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in task["rows"]]
        found[json.dumps(task["case"])] = rows
    return found
