"""A real cluster of worker processes: the same bounds, whatever happens to the workers."""

import copy
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from dask_rows import SOURCES, Deadly, check_fit, cut, distributed, frames, rows, slcp, workers

from inner import Rows, Sketch, SketchEngine, calibrates, law_of

#: Processes take ten seconds to start; what one process shows is in test_dask.py.
pytestmark = pytest.mark.ci
N = 80_000
NEW, RESPONSE = rows(4_000, 1)


@pytest.fixture(scope="module")
def client():
    with workers() as client:
        yield client


@pytest.fixture(scope="module")
def data():
    return rows(N, 0)


@pytest.fixture(scope="module")
def fitted(client, data):
    return slcp().fit(*cut(*data, (10_000,) * 8))


def test_bounds_are_those_of_the_sketch_in_memory(fitted, data):
    law, held = law_of(fitted), calibrates(fitted, N)
    made, X, y = law.engine_.sketch, data[0][~held], data[1][~held]
    whole = Sketch(made.landmarks, made.edges, made.bandwidth)
    whole.update(law.view_(Rows(X)), y - X[:, 0])
    assert whole.n == made.n == fitted.fit_report_["rows"]["reference"] == N - N // 4
    in_memory = SketchEngine(whole, law.engine_.fallback_engine, law.min_effective_samples)
    asked = law.view_(Rows(NEW)), np.array([0.05, 0.5, 0.95]), np.zeros(3, dtype=bool)
    ours, theirs = (engine.quantiles(*asked) for engine in (law.engine_, in_memory))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_correction_is_the_conformal_quantile_of_all_rows(fitted, data):
    held = calibrates(fitted, N)
    again = copy.copy(fitted).conformalize(data[0][held], data[1][held])
    for level in (0.5, 0.9, 0.99):
        ours, theirs = (one.diagnose(NEW[:1], level)["correction"] for one in (fitted, again))
        np.testing.assert_array_equal(ours, theirs)


def test_a_worker_killed_during_fit_or_predict_changes_nothing(client, fitted, data, tmp_path):
    model = Deadly(tmp_path / "armed").arm()
    mortal = slcp(model).fit(*cut(*data, (10_000,) * 8))
    assert not model.mark.exists()
    expected = fitted.predict_interval(NEW)
    lazy = mortal.predict_interval(cut(NEW, RESPONSE, (1_000,) * 4)[0])
    model.arm()
    np.testing.assert_allclose(lazy.compute(), expected, atol=1e-6)
    assert not model.mark.exists()


def test_a_frame_keeps_its_divisions(client):
    X, y = frames(*rows(3_000, 2), npartitions=4)
    model = slcp(law="uniform").fit(X, y)
    bounds = model.predict_interval(X)
    assert (bounds.divisions, list(bounds.columns)) == (X.divisions, ["lower", "upper"])
    in_memory = model.predict_interval(X.compute(), output="frame")
    np.testing.assert_array_equal(bounds.compute(), in_memory)
    np.testing.assert_array_equal(model.predict(X).compute().index, X.compute().index)


@pytest.fixture
def fragile(tmp_path):
    """A scheduler and a worker of their own: its address and process."""
    dask = shutil.which("dask", path=Path(sys.executable).parent)
    file, folder = tmp_path / "scheduler.json", Path(__file__).parent
    path = os.pathsep.join([str(folder), str(folder.parent), os.environ.get("PYTHONPATH", "")])
    options = ["--no-dashboard", "--scheduler-file", str(file)]
    started = [
        subprocess.Popen(
            [dask, *command, *options],
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
        )
        for command in (["scheduler", "--port", "0"], ["worker", "--nthreads", "1", "--no-nanny"])
    ]
    while not file.exists():
        time.sleep(0.1)
    yield json.loads(file.read_text())["address"], started[0]
    for process in started:
        process.kill()
        process.wait()


def test_a_lost_scheduler_leaves_no_model(fragile, tmp_path):
    address, scheduler = fragile
    model = slcp(Deadly(tmp_path / "armed", scheduler.pid).arm())
    with (
        pytest.raises((distributed.client.FutureCancelledError, OSError)),
        distributed.Client(address),
    ):
        model.fit(*cut(*rows(20_000, 0), (5_000,) * 4))
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_model_on_a_cluster(name, client, tmp_path):
    check_fit(*SOURCES[name](tmp_path))
