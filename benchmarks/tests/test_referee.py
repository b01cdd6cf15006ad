"""The comparison with CLEAR, and the speed of the default, on a few rows."""

import numpy as np
import pandas as pd
import pytest

from benchmarks import clear
from benchmarks.speed import auto

pytestmark = pytest.mark.ci


def test_the_referee_pairs_our_scores_with_those_published(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(300, 2)), columns=["a", "b"])
    table["y"] = table["a"] + 0.1 * rng.normal(size=300)
    theirs = pd.DataFrame(
        {"data": "concrete", "variant": ["a", "a", "b"], "method": "clear", "seed": [0, 1, 0]}
    ).assign(interval_score=1.0, coverage=0.95)
    monkeypatch.setattr(clear, "read", {"concrete": table, "published": theirs}.__getitem__)
    clear.main(["--datasets", "concrete", "--seeds", "2", "--results", str(tmp_path)])
    records = clear.read_records(tmp_path)
    assert [record["method"] for record in records] == ["auto", "forest"] * 2
    assert [records[0][name] for name in ("n_train", "n_calibration", "n_test")] == [180, 60, 60]
    mean = np.mean([record["interval_score"] for record in records[::2]])
    ratios = clear.paired(pd.concat([pd.DataFrame(records), clear.published()]), "auto")
    np.testing.assert_allclose(ratios["concrete"].mean, mean)
    assert f"auto / CLEAR, seen before (1), geometric mean: {mean:.3f}" in (
        tmp_path / "clear.md"
    ).read_text(encoding="utf-8")


def test_the_default_is_timed_and_weighed():
    found = auto.measure(auto.ours, 600)
    assert found["n"] == 600
    assert all(value > 0 for value in found.values())
