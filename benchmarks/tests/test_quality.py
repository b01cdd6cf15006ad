"""The quality benchmark: it goes on after a kill, says what failed, and measures rightly."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import run_experiment
from benchmarks.quality import tables
from benchmarks.quality.datasets import load
from benchmarks.quality.experiment import Setting, quality, split
from benchmarks.quality.objective import worst_slab_coverage
from benchmarks.quality.summary import read_records
from registry import optional

pytestmark = pytest.mark.ci
optional("quantile_forest")
optional("mapie")
METHODS = ["auto", "mapie-cqr", "quantile-forest"]
RESULTS = Path(__file__).parents[1] / "results"


def run_all(folder):
    run_experiment("quality_300", quality(["sim1"], METHODS, 1), Setting(300), folder)
    return read_records(folder)


def test_a_run_resumes_after_a_truncated_line(tmp_path):
    first = run_all(tmp_path)
    assert [record["method"] for record in first] == METHODS
    for name in ("fit_processor_seconds", "predict_seconds", "pickle_bytes"):
        assert all(record[name] > 0 for record in first)
    file = tmp_path / "quality_300.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    assert len(read_records(tmp_path)) == 2
    second = run_all(tmp_path)
    assert [record["method"] for record in second] == METHODS
    # The same rows and seeds again: the same figures.
    assert second[2]["interval_score"] == first[2]["interval_score"]
    assert "quantile-forest" in tables.markdown(second)


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
