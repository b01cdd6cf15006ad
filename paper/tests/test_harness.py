"""A run goes on where it was, whatever stopped it; and what is said of its rows."""

from dataclasses import replace

import joblib
import numpy as np
import pytest

from benchmarks.harness import (
    CANNOT,
    PRESETS,
    Progress,
    Store,
    about,
    decode,
    plain,
    read_store,
    report,
    run_experiment,
)
from benchmarks.tables import Mean, below_bands, excess, over_repeats, paired, ratio
from paper import load_experiment
from paper.__main__ import main
from paper.tests.quick import QUICK, TINY

# ---- the store -----------------------------------------------------------------------------

ABOUT = {"experiment": "tiny", "version": 1, "preset": {"datasets": ("a", "b")}}


@pytest.fixture
def path(tmp_path):
    """A store of three records."""
    store = Store(tmp_path / "new" / "tiny.jsonl", ABOUT)
    for k in range(3):
        store.append({"case": {"k": k}, "rows": []})
    return store.path


def cases(store):
    return [record["case"]["k"] for record in store.records]


def test_every_truncation_leaves_a_whole_prefix_and_a_store_that_goes_on(path):
    content = path.read_bytes()
    assert cases(Store(path, ABOUT)) == [0, 1, 2]
    # The header says where the records were made.
    made = decode(content.split(b"\n")[0])["made"]
    assert {"commit", "cpu", "packages", "python"} <= set(made)
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        store = Store(path, ABOUT)
        assert cases(store) == list(range(len(store.records)))
        store.append({"case": {"k": 9}, "rows": []})
        assert cases(Store(path, ABOUT))[-1] == 9


def test_a_spoilt_line_is_left_out_and_a_store_of_anything_else_refused_and_kept(path):
    path.write_bytes(path.read_bytes().replace(b'"k":1', b'"k":5'))
    assert cases(Store(path, ABOUT)) == [0, 2]
    before = path.read_bytes()
    for change in ({"version": 2}, {"experiment": "other"}, {"preset": {}}, {"format_version": 0}):
        for opened in (Store, read_store):
            with pytest.raises(ValueError, match="another version or preset"):
                opened(path, {**ABOUT, **change})
    assert path.read_bytes() == before


def test_rows_become_plain():
    row = {"a": np.float64(1.5), "b": np.inf, "c": np.array([1, 2]), "d": (np.nan, "x"), "e": None}
    assert plain(row) == {"a": 1.5, "b": None, "c": [1, 2], "d": [None, "x"], "e": None}


# ---- the runner ----------------------------------------------------------------------------


class Told(Progress):
    def __init__(self):
        self.sentences, self.waiting = [], None

    def start(self, experiment, waiting, total):
        self.waiting = waiting

    def say(self, sentence):
        self.sentences.append(sentence)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QUICK_LOG", str(tmp_path / "log"))
    return tmp_path


def run(folder, preset=TINY, **asked):
    return run_experiment("quick", QUICK, preset, folder, **asked)


def runs(folder):
    return (folder / "log").read_text().split()


def test_a_run_reports_and_a_second_one_runs_nothing(folder):
    told = Told()
    first = run(folder / "out", progress=told)
    assert told.waiting == 12
    assert run(folder / "out", progress=told) == first
    assert told.waiting == 0
    assert len(runs(folder)) == 12
    with pytest.raises(ValueError, match="another version or preset"):
        run(folder / "out", PRESETS["standard"])
    with joblib.parallel_config("threading"):
        assert run(folder / "beside", n_jobs=2) == first
    # A run as small as smoke gives no verdict.
    smoke = run(folder / "smoke", PRESETS["smoke"])
    assert {line.verdict for line in smoke.lines} == {CANNOT}


def test_more_repeats_extend_a_store(folder):
    first = run(folder / "out", replace(TINY, repeats=2))
    assert len(runs(folder)) == 6
    told = Told()
    assert run(folder / "out", progress=told).lines != first.lines
    assert (told.waiting, len(runs(folder))) == (6, 12)
    # And fewer read what is theirs.
    assert run(folder / "out", replace(TINY, repeats=2)) == first


def test_a_page_of_what_is_finished_runs_nothing(folder):
    store = Store(folder / "quick.jsonl", about("quick", QUICK, TINY))
    store.append({"case": {"dataset": "a", "repeat": 0}, "rows": [{"length": 1.0}]})
    output = report(QUICK, QUICK.cases(TINY), store.records, TINY)
    assert "11 of 12 tasks did not finish" in output.notes[-1]
    assert "0 to 1 repeats" in output.notes[-1]
    assert main(["star", "--preset", "smoke", "--report", "--out", str(folder)]) == 0
    assert "did not finish" in (folder / "smoke" / "star.md").read_text()
    assert not (folder / "smoke" / "star.jsonl").exists()


def test_a_task_that_fails_is_told_left_out_and_tried_again(folder, monkeypatch):
    monkeypatch.setenv("QUICK_FAILS", "b2")
    told = Told()
    output = run(folder / "out", progress=told)
    assert "quick b 2 failed: ValueError: not today" in told.sentences
    assert "1 of 12 tasks did not finish" in output.notes[-1]
    monkeypatch.delenv("QUICK_FAILS")
    assert run(folder / "out", progress=told).notes == []
    assert told.waiting == 1


def test_the_program_lists_what_there_is_and_refuses_the_rest(capsys):
    assert main([]) == 0
    assert "table1" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["table9"])
    with pytest.raises(ValueError, match=r"no experiment 'table9'.*table1"):
        load_experiment("table9")


# ---- means and verdicts --------------------------------------------------------------------


def rows_of(values, method="a"):
    return [
        {"repeat": r, "dataset": d, "method": method, "length": value}
        for (r, d), value in values.items()
    ]


def test_means_are_over_repeats_that_have_every_data_set():
    rows = rows_of({(0, "x"): 0.0, (0, "y"): 100.0, (1, "x"): 2.0, (1, "y"): 100.0})
    # The error is that of repeats, not of data sets.
    assert over_repeats(rows, "length") == Mean(50.5, 0.5, 2)
    rows = rows_of({(0, "x"): 1.0, (0, "y"): 3.0, (1, "x"): 50.0})
    assert over_repeats(rows, "length") == Mean(2.0, None, 1)
    rows = rows_of({(0, "x"): 1.0, (0, "y"): 3.0, (1, "y"): 3.0, (1, "z"): 50.0})
    assert over_repeats(rows, "length") is None
    complete = rows_of({(2, "x"): 1.0, (2, "y"): 3.0, (2, "z"): 5.0})
    assert over_repeats([*rows, *complete], "length") == Mean(3.0, None, 1)
    assert over_repeats(rows_of({(0, "x"): None}), "length") is over_repeats([], "length") is None
    assert Mean(0.0, 1.0, 5).margin == pytest.approx(2.776, abs=1e-3)
    assert Mean(0.0, None, 1).margin == 0.0


def test_differences_and_ratios_are_within_a_task():
    rows, base = rows_of({(0, "x"): 3.0, (1, "x"): 5.0}), rows_of({(0, "x"): 1.5}, "b")
    assert [row["difference"] for row in paired(rows + base, "a", "b", "length")] == [1.5]
    assert ratio(rows, base, "length").value == 2.0
    assert excess(rows, base, "length").value == 100.0


def test_cells_below_their_band_are_counted_by_method():
    sizes = {"n_calibration": 500, "n_test": 500}
    shares = {"fine": [0.9, 0.89], "low": [0.7, 0.9], "high": [0.99, 0.9]}
    rows = [{"method": name, "coverage": s, **sizes} for name in shares for s in shares[name]]
    found = {row["method"]: row for row in below_bands([*rows, {"method": "failed"}], 0.9)}
    assert set(found) == set(shares)
    assert [found[name]["below 95 % band"] for name in shares] == [0, 1, 0]
    assert [found[name]["below strict band"] for name in shares] == [0, 1, 0]
    assert [found[name]["above"] for name in shares] == [0, 0, 1]
