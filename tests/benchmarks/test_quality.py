import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("benchmarks.quality")
pytest.importorskip("pyarrow")
pytest.importorskip("quantile_forest")

from benchmarks.quality import progress, runner, tables, task
from benchmarks.quality.datasets.simulated import SIMULATIONS, conditional_coverage
from benchmarks.quality.protocol import split
from benchmarks.quality.slab import worst_segment, worst_slab_coverage

METHODS = ["split", "quantile-forest"]


def run_all(folder):
    tasks = runner.plan("boosting", ["sim1"], METHODS, seeds=1, max_rows=300)
    with ThreadPoolExecutor(1) as pool:
        runner.execute(tasks, folder, pool, 1, progress.Lines())
    return [json.loads(line) for line in (folder / "quality.jsonl").read_text().splitlines()]


def test_a_run_resumes_after_a_truncated_line(tmp_path, capsys):
    first = run_all(tmp_path)
    assert [record["status"] for record in first] == ["done", "done"]
    file = tmp_path / "quality.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    second = run_all(tmp_path)
    said = capsys.readouterr().err
    assert "dropped a line" in said
    assert "1 of 2 tasks to run" in said
    assert [record["method"] for record in second] == METHODS
    # The same rows and seeds again: the same figures.
    assert second[1]["interval_score"] == first[1]["interval_score"]
    assert "quantile-forest" in tables.markdown(second)


def test_a_failure_and_a_time_out_are_records(monkeypatch):
    def fail(rows, base, seed):
        raise ZeroDivisionError("no reason")

    monkeypatch.setitem(task.METHODS, "failing", fail)

    def work(rows, base, seed):
        while True:
            pass

    monkeypatch.setitem(task.METHODS, "slow", work)
    monkeypatch.setitem(task.TIME_LIMITS, "slow", 0.2)
    plan = runner.plan("boosting", ["sim1"], ["failing", "slow"], seeds=2, max_rows=100)
    failed, slow = (task.run(one)[0] for one in plan[:2])
    assert failed["status"] == "failed"
    assert failed["error"] == "ZeroDivisionError: no reason"
    assert slow["status"] == "did not finish"
    assert runner.gave_up(plan[3], [failed, slow])
    assert not runner.gave_up(plan[2], [failed, slow])


def test_parts_are_disjoint_and_the_same_at_every_call():
    rows = task.load("sim2", 0, 500)
    parts, again = split(rows, "sim2", 0, 400), split(rows, "sim2", 0, 400)
    y = np.concatenate([parts.train.y, parts.calibration.y, parts.test.y])
    assert [len(part.y) for part in (parts.train, parts.calibration, parts.test)] == [240, 80, 80]
    assert len(np.unique(y)) == 400
    np.testing.assert_array_equal(parts.test.X, again.test.X)
    assert not np.array_equal(parts.test.y, split(rows, "sim2", 1, 400).test.y)


def test_ideal_intervals_cover_each_row():
    simulation = SIMULATIONS["two_of_fifty"]
    X, _ = simulation.sample(50, random_state=0)
    ideal = simulation.quantile(X, [0.05, 0.95])
    np.testing.assert_allclose(conditional_coverage(simulation, X, ideal), 0.9)


def test_slab_coverage_with_hold_out_is_unbiased_where_coverage_is_even():
    rng = np.random.default_rng(0)
    X, covered = rng.standard_normal((4000, 5)), rng.random(4000) < 0.9
    assert abs(worst_slab_coverage(X, covered, seed=0) - 0.9) < 0.03


def test_slab_coverage_finds_a_bad_region():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 2))
    covered = rng.random(4000) < np.where(X[:, 0] > 1.0, 0.5, 0.95)
    assert worst_slab_coverage(X, covered, seed=0) < 0.65


def test_worst_segment_is_that_of_all_long_enough_segments():
    covered = np.random.default_rng(0).random((3, 40)) < 0.7
    start, end, which = worst_segment(covered, 5)
    brute = min(c[i:j].mean() for c in covered for i in range(40) for j in range(i + 5, 41))
    assert covered[which, start:end].mean() == pytest.approx(brute)
