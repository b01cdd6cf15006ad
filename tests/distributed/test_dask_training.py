"""Models that train on the cluster, and other work that runs there."""

import json

import joblib
import numpy as np
import pytest
from dask_rows import cut, frames, rows, workers

from benchmarks.harness import Preset, run_experiment
from localconformal import KernelLaw, SLCPRegressor
from localconformal.metrics import coverage, coverage_band
from paper import load_experiment

pytestmark = pytest.mark.ci
TINY = Preset("tiny", 1, 60, ("yacht",), 60, 60, 0.0, 1)


@pytest.fixture(scope="module")
def client():
    with workers() as client:
        yield client


def boosters():
    xgboost = pytest.importorskip("xgboost.dask")
    lightgbm = pytest.importorskip("lightgbm")
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
