"""A run goes on where it was, whatever stopped it."""

import os
import random
import signal
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest

from benchmarks.harness import CANNOT, PRESETS, Progress, plain_row, run_experiment, seed_of
from benchmarks.tables import write_output
from paper import load_experiment
from paper.__main__ import main
from paper.tests.quick import QUICK, TINY


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
    again = run(folder / "out", progress=told)
    assert told.waiting == 0
    assert len(runs(folder)) == 12
    assert first == again


def test_order_and_number_of_jobs_change_nothing(folder):
    with joblib.parallel_config("threading"):
        beside = run(folder / "out", n_jobs=2)
    assert beside == run(folder / "plain")


def test_a_task_that_fails_is_told_left_out_and_tried_again(folder, monkeypatch):
    monkeypatch.setenv("QUICK_FAILS", "b2")
    told = Told()
    output = run(folder / "out", progress=told)
    assert "quick b 2 failed: ValueError: not today" in told.sentences
    assert "1 of 12 tasks did not finish" in output.notes[-1]
    monkeypatch.delenv("QUICK_FAILS")
    assert run(folder / "out", progress=told).notes == []
    assert told.waiting == 1


def test_another_preset_never_shares_records(folder):
    run(folder / "out")
    with pytest.raises(ValueError, match="another version or preset"):
        run(folder / "out", PRESETS["standard"])


def test_the_smoke_preset_gives_no_verdict(folder):
    output = run(folder / "out", PRESETS["smoke"])
    assert {line.verdict for line in output.lines} == {CANNOT}


#: Kills a run five times, a random while after it has finished another task or two.
KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from benchmarks.harness import run_experiment
from paper.tests.quick import QUICK, TINY

def runs():
    log = Path(os.environ["QUICK_LOG"])
    return len(log.read_text().split()) if log.exists() else 0

moments = random.Random(int(sys.argv[2]))
for _ in range(5):
    wanted = runs() + moments.randint(1, 2)
    child = os.fork()
    if child == 0:
        run_experiment("quick", QUICK, TINY, Path(sys.argv[1]))
        os._exit(0)
    while runs() < wanted and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(moments.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_five_times_it_ends_with_the_same_table(folder, monkeypatch):
    seed = random.randrange(10**6)
    monkeypatch.setenv("QUICK_SECONDS", "0.02")
    out = folder / "killed"
    subprocess.run([sys.executable, "-c", KILLED, str(out), str(seed)], check=True, timeout=120)
    told = Told()
    output = run(out, progress=told)
    assert told.waiting < 12, f"nothing was kept; seed {seed}"
    # Each kill loses the one task in flight at most, and may catch it after its work was done.
    assert len(runs(folder)) <= 12 + 5
    undisturbed = run(folder / "undisturbed")
    texts = [
        write_output("quick", "Quick", one, folder / name)[0].read_text()
        for name, one in (("killed", output), ("undisturbed", undisturbed))
    ]
    assert texts[0] == texts[1]


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_program_killed_five_times_on_two_processes(tmp_path):
    def start(out):
        asked = ["table3", "--preset", "smoke", "--jobs", "2", "--out", str(out)]
        return subprocess.Popen([sys.executable, "-m", "paper", *asked], stdout=subprocess.DEVNULL)

    moments = random.Random(0)
    for _ in range(5):
        process = start(tmp_path / "killed")
        time.sleep(moments.uniform(2.0, 12.0))
        process.kill()
        process.wait()
    assert start(tmp_path / "killed").wait(600) == 0
    assert start(tmp_path / "undisturbed").wait(600) == 0
    tables = [tmp_path / name / "smoke" / "table3.md" for name in ("killed", "undisturbed")]
    assert without_seconds(tables[0]) == without_seconds(tables[1])


def without_seconds(path):
    """The table of lines, which has no times."""
    return path.read_text().partition("## ")[0]


def test_seeds_are_those_of_names():
    assert seed_of("bike", 1) == seed_of("bike", 1) != seed_of("bike", 2)
    assert 0 <= seed_of("x") < 2**31


def test_rows_become_plain():
    row = {"a": np.float64(1.5), "b": np.inf, "c": np.array([1, 2]), "d": (np.nan, "x"), "e": None}
    assert plain_row(row) == {"a": 1.5, "b": None, "c": [1, 2], "d": [None, "x"], "e": None}


def test_the_program_lists_what_there_is_and_refuses_the_rest(capsys):
    assert main([]) == 0
    assert "table1" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["table9"])
    with pytest.raises(ValueError, match=r"no experiment 'table9'.*table1"):
        load_experiment("table9")
