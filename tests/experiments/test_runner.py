import os
import random
import signal
import subprocess
import sys
import time

import pytest

import localconformal.experiments.paper as paper
from localconformal.experiments import PRESETS, Preset, Progress, experiment_names, run_experiment
from localconformal.experiments.experiment import CANNOT
from localconformal.experiments.render import write_output
from localconformal.experiments.runner import plain_row
from localconformal.experiments.seeds import seed_of

#: An experiment of quick tasks whose rows depend on names alone; it logs each run of a task.
QUICK = """
import os, time
from pathlib import Path
from localconformal.experiments.experiment import Experiment, Output
from localconformal.experiments.seeds import seed_of
from localconformal.experiments.summary import compared, over_repeats

def cases(preset):
    return [{"dataset": d, "repeat": r} for r in range(preset.repeats) for d in "abc"]

def run(case, preset):
    time.sleep(float(os.environ.get("QUICK_SECONDS", 0)))
    with open(os.environ["QUICK_LOG"], "a") as log:
        log.write(f"{case['dataset']}{case['repeat']}\\n")
    if f"{case['dataset']}{case['repeat']}" == os.environ.get("QUICK_FAILS"):
        raise ValueError("not today")
    return [{"length": seed_of(*case.values()) / 2**31, "none": float("nan")}]

def report(rows, preset):
    return Output([compared({"quantity": "length"}, 0.5, over_repeats(rows, "length"), "length")])

EXPERIMENT = Experiment("Quick", cases, run, report)
"""
TINY = Preset("tiny", 4, 60, ("yacht",), 60, 60, 0.0, 1)


class Told(Progress):
    def __init__(self):
        self.sentences, self.waiting = [], None

    def start(self, experiment, waiting, total):
        self.waiting = waiting

    def say(self, sentence):
        self.sentences.append(sentence)


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """The quick experiment in a folder that the registry sees; returns that folder."""
    (tmp_path / "quick.py").write_text(QUICK)
    monkeypatch.setattr(paper, "__path__", [*paper.__path__, str(tmp_path)])
    monkeypatch.setenv("QUICK_LOG", str(tmp_path / "log"))
    yield tmp_path
    sys.modules.pop("localconformal.experiments.paper.quick", None)


def lines(path):
    return path.read_text().split()


def test_a_run_reports_and_a_second_one_runs_nothing(quick):
    told = Told()
    first = run_experiment("quick", TINY, quick / "out", progress=told)
    assert told.waiting == 12
    assert len(lines(quick / "log")) == 12
    again = run_experiment("quick", TINY, quick / "out", progress=told)
    assert told.waiting == 0
    assert len(lines(quick / "log")) == 12
    assert first == again


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_order_and_number_of_jobs_change_nothing(quick, n_jobs):
    import joblib

    with joblib.parallel_config("threading"):
        output = run_experiment("quick", TINY, quick / f"out{n_jobs}", n_jobs=n_jobs)
    assert output == run_experiment("quick", TINY, quick / "plain")


def test_a_task_that_fails_is_told_left_out_and_tried_again(quick, monkeypatch):
    monkeypatch.setenv("QUICK_FAILS", "b2")
    told = Told()
    output = run_experiment("quick", TINY, quick / "out", progress=told)
    assert "quick b 2 failed: ValueError: not today" in told.sentences
    assert "1 of 12 tasks did not finish" in output.notes[-1]
    monkeypatch.delenv("QUICK_FAILS")
    whole = run_experiment("quick", TINY, quick / "out", progress=told)
    assert told.waiting == 1
    assert whole.notes == []


def test_another_preset_never_shares_records(quick):
    told = Told()
    run_experiment("quick", TINY, quick / "out")
    run_experiment("quick", PRESETS["standard"], quick / "out", progress=told)
    assert told.waiting == 15
    assert "another version" in told.sentences[0]


def test_the_smoke_preset_gives_no_verdict(quick):
    output = run_experiment("quick", PRESETS["smoke"], quick / "out")
    assert {line.verdict for line in output.lines} == {CANNOT}


#: Kills a run five times, a random while after it has finished another task or two.
KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import localconformal.experiments.paper as paper
from localconformal.experiments import load_experiment, run_experiment
from localconformal.experiments.presets import Preset

def runs():
    log = Path(os.environ["QUICK_LOG"])
    return len(log.read_text().split()) if log.exists() else 0

paper.__path__.append(sys.argv[1])
load_experiment("quick")
preset = Preset("tiny", 4, 60, ("yacht",), 60, 60, 0.0, 1)
moments = random.Random(int(sys.argv[3]))
for _ in range(5):
    wanted = runs() + moments.randint(1, 2)
    child = os.fork()
    if child == 0:
        run_experiment("quick", preset, Path(sys.argv[2]))
        os._exit(0)
    while runs() < wanted and os.waitpid(child, os.WNOHANG) == (0, 0):
        time.sleep(0.001)
    time.sleep(moments.uniform(0.0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_five_times_it_ends_with_the_same_table(quick, monkeypatch):
    seed = random.randrange(10**6)
    monkeypatch.setenv("QUICK_SECONDS", "0.02")
    out = quick / "killed"
    subprocess.run(
        [sys.executable, "-c", KILLED, str(quick), str(out), str(seed)], check=True, timeout=120
    )
    told = Told()
    output = run_experiment("quick", TINY, out, progress=told)
    assert told.waiting < 12, f"nothing was kept; seed {seed}"
    runs = lines(quick / "log")
    # Each kill loses the one task in flight at most, and may catch it after its work was done.
    assert len(runs) <= 12 + 5
    undisturbed = run_experiment("quick", TINY, quick / "undisturbed")
    assert output == undisturbed
    texts = [
        write_output("quick", "Quick", one, quick / name)[0].read_text()
        for name, one in (("killed", output), ("undisturbed", undisturbed))
    ]
    assert texts[0] == texts[1]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_the_command_killed_five_times_on_two_processes(tmp_path):
    def start(out):
        main = [sys.executable, "-c", "from localconformal.cli import main; main()"]
        asked = ["reproduce", "table3", "--preset", "smoke", "--jobs", "2", "--out", str(out)]
        return subprocess.Popen([*main, *asked], stdout=subprocess.DEVNULL)

    moments = random.Random(0)
    for _ in range(5):
        process = start(tmp_path / "killed")
        time.sleep(moments.uniform(2.0, 12.0))
        process.kill()
        process.wait()
    assert start(tmp_path / "killed").wait(600) == 0
    assert start(tmp_path / "undisturbed").wait(600) == 0
    tables = [tmp_path / name / "smoke" / "table3.csv" for name in ("killed", "undisturbed")]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_seeds_are_those_of_names():
    assert seed_of("bike", 1) != seed_of("bike", 2)
    assert seed_of("bike", 1) == seed_of("bike", 1)
    assert 0 <= seed_of("x") < 2**31


def test_rows_become_plain():
    import numpy as np

    row = {"a": np.float64(1.5), "b": np.inf, "c": np.array([1, 2]), "d": (np.nan, "x"), "e": None}
    assert plain_row(row) == {"a": 1.5, "b": None, "c": [1, 2], "d": [None, "x"], "e": None}


def test_an_unknown_experiment_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"no experiment 'table9'.*table1"):
        run_experiment("table9", TINY, None)
    assert {"table1", "table3", "star", "bike", "meps21"} <= set(experiment_names())
