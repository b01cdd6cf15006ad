"""A monitor where models are deployed: threads, levels that change, states that were crafted."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from monitor_data import linear_rows, split_model

from localconformal import CoverageMonitor
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


def test_another_level_is_refused_until_it_is_set_back():
    model = split_model()
    monitor = CoverageMonitor(model, random_state=0)
    model.set_params(confidence_level=0.5)
    with pytest.raises(ValueError, match=r"the model's level is 0.5 and was 0.9 .* reset\(\)"):
        monitor.update(X, Y)
    assert monitor.coverage_.n == 0
    model.set_params(confidence_level=0.9)
    assert monitor.update(X, Y).coverage_.n == 2_000


@pytest.mark.parametrize(
    "change",
    [
        {"n_covered": 10**9},
        {"rows": -5},
        {"rows": 7},
        {"history": [0, []]},
        {"history": [1, [[1]]]},
        {"martingales": [[], []]},
        {"martingales": [[["x"]], [0.0]]},
        {"alarm": [1]},
        {"alarm": [10**6, 5.0]},
        {"tallies": [[0, "0", [1, 2], [1]]]},
        {"tallies": [[9, "0", [1], [1]]]},
        {"tallies": None},
        {"seed": None, "rows": "many"},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_is_refused_whatever_its_digest(change, tmp_path):
    model = split_model()
    path = CoverageMonitor(model, random_state=0).update(X, Y).save(tmp_path / "state.json")
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    content["stream"].update(change)
    path.write_text(json.dumps({"content": content, "sha256": digest(content)}), encoding="utf-8")
    with pytest.raises(ValueError, match="was altered; start a new monitor"):
        CoverageMonitor.load(path, model)


def test_content_that_is_missing_is_told(tmp_path):
    model = split_model()
    path = CoverageMonitor(model, random_state=0).save(tmp_path / "state.json")
    content = json.loads(path.read_text(encoding="utf-8"))["content"]
    for name in content:
        less = {key: value for key, value in content.items() if key != name}
        path.write_text(json.dumps({"content": less, "sha256": digest(less)}), encoding="utf-8")
        with pytest.raises(ValueError, match="monitor"):
            CoverageMonitor.load(path, model)
