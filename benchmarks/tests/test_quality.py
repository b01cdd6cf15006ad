"""The quality benchmark: it goes on after a kill, says what failed, and measures rightly."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import run_experiment
from benchmarks.quality import experiment, tables
from benchmarks.quality.datasets import load
from benchmarks.quality.experiment import Setting, quality, split
from benchmarks.quality.objective import worst_slab_coverage
from benchmarks.quality.summary import read_records
from registry import optional

pytestmark = pytest.mark.ci
optional("quantile_forest")
METHODS = ["split", "quantile-forest"]
RESULTS = Path(__file__).parents[1] / "results"


def run_all(folder):
    run_experiment(
        "quality_boosting_300", quality(["sim1"], METHODS, 1), Setting("boosting", 300), folder
    )
    return read_records(folder)


def test_a_run_resumes_after_a_truncated_line(tmp_path):
    first = run_all(tmp_path)
    assert [record["status"] for record in first] == ["done", "done"]
    file = tmp_path / "quality_boosting_300.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    assert len(read_records(tmp_path)) == 1
    second = run_all(tmp_path)
    assert [record["method"] for record in second] == METHODS
    # The same rows and seeds again: the same figures.
    assert second[1]["interval_score"] == first[1]["interval_score"]
    assert "quantile-forest" in tables.markdown(second)


def test_a_method_that_runs_out_of_time_has_a_record_that_says_so(tmp_path, monkeypatch):
    def work(rows, base, seed):
        while True:
            pass

    monkeypatch.setitem(experiment.METHODS, "slow", work)
    monkeypatch.setitem(experiment.TIME_LIMITS, "slow", 0.2)
    setting = Setting("boosting", 100)
    run_experiment("quality_boosting_100", quality(["sim1"], ["slow"], 1), setting, tmp_path)
    (record,) = read_records(tmp_path)
    assert record["status"] == "did not finish"
    assert record["error"] == "more than 0 s"


def test_parts_are_disjoint_and_the_same_at_every_call():
    rows = load("sim2", 0, 500)
    parts, again = split(rows, "sim2", 0, 400), split(rows, "sim2", 0, 400)
    y = np.concatenate([parts.train.y, parts.calibration.y, parts.test.y])
    assert [len(part.y) for part in (parts.train, parts.calibration, parts.test)] == [240, 80, 80]
    assert len(np.unique(y)) == 400
    np.testing.assert_array_equal(parts.test.X, again.test.X)
    assert not np.array_equal(parts.test.y, split(rows, "sim2", 1, 400).test.y)


def test_slab_coverage_finds_a_bad_region_and_is_unbiased_where_coverage_is_even():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    assert abs(worst_slab_coverage(X, rng.random(4000) < 0.9, seed=0) - 0.9) < 0.03
    covered = rng.random(4000) < np.where(X[:, 0] > 1.0, 0.5, 0.95)
    assert worst_slab_coverage(X, covered, seed=0) < 0.65


def test_the_committed_page_is_what_its_stores_say():
    assert tables.markdown(read_records(RESULTS)) == (RESULTS / "quality.md").read_text()


def run_program(results, *more):
    command = [sys.executable, "-m", "benchmarks.quality", "--datasets", "sim1", "--methods"]
    command += ["split", "forest", "--seeds", "1", "--max-rows", "400", "--jobs", "2"]
    command += ["--results", str(results), *more]
    there = {"cwd": RESULTS.parents[1], "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    subprocess.run(command, **there, check=True, capture_output=True, timeout=300)


@pytest.mark.nightly
def test_a_cluster_gives_the_same_records(tmp_path):
    distributed = optional("distributed")
    run_program(tmp_path / "here")
    workers = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**workers) as cluster, distributed.Client(cluster):
        run_program(tmp_path / "there", "--cluster", cluster.scheduler_address)
    here, there = (figures(tmp_path / name) for name in ("here", "there"))
    assert len(here) == 2
    assert here == there


def figures(folder):
    """What a record says, by its method, but for its seconds."""
    return {
        record["method"]: {name: value for name, value in record.items() if "seconds" not in name}
        for record in read_records(folder)
    }
