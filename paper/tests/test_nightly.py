"""What takes minutes: every experiment at smoke, runs and trainings that are killed, all faces."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from benchmarks.tables import write_output
from paper import EXPERIMENTS
from paper.data import FOLDER_VARIABLE
from paper.faces import UNKNOWN, load_faces
from paper.tests.test_age import PLAN, bright, same_weights, tiny, torch
from paper.tests.test_experiments import check_smoke
from paper.tests.test_harness import Told, run, runs

pytestmark = pytest.mark.nightly

from paper.age_network import train_images  # noqa: E402

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_everything_at_smoke(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALCONFORMAL_CACHE", str(tmp_path))
    check_smoke(name, tmp_path)


#: Kills a run five times, once it has begun another task or two.
KILLED = """
import os, random, signal, sys
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
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@needs_fork
def test_killed_five_times_it_ends_with_the_same_table(tmp_path, monkeypatch):
    seed, out = random.randrange(10**6), tmp_path / "killed"
    monkeypatch.setenv("QUICK_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("QUICK_SECONDS", "0.02")
    subprocess.run([sys.executable, "-c", KILLED, str(out), str(seed)], check=True, timeout=120)
    told = Told()
    output = run(out, progress=told)
    assert told.waiting < 12, f"nothing was kept; seed {seed}"
    # Each kill loses the one task in flight at most, and may catch it after its work was done.
    assert len(runs(tmp_path)) <= 12 + 5
    both = {"killed": output, "undisturbed": run(tmp_path / "undisturbed")}
    texts = [write_output("quick", "Quick", both[name], tmp_path / name)[0] for name in both]
    assert texts[0].read_text() == texts[1].read_text()


@needs_fork
def test_the_program_killed_five_times_on_two_processes(tmp_path):
    def start(out):
        asked = ["table3", "--preset", "smoke", "--jobs", "2", "--out", str(out)]
        return subprocess.Popen([sys.executable, "-m", "paper", *asked], stdout=subprocess.DEVNULL)

    store = tmp_path / "killed" / "smoke" / "table3.jsonl"
    for lines in range(1, 6):
        process = start(tmp_path / "killed")
        while process.poll() is None and not has_lines(store, lines):
            time.sleep(0.01)
        process.kill()
        process.wait()
    assert start(tmp_path / "killed").wait(600) == 0
    assert start(tmp_path / "undisturbed").wait(600) == 0
    # The table of lines, which has no times.
    first, second = (
        (tmp_path / name / "smoke" / "table3.md").read_text().partition("## ")[0]
        for name in ("killed", "undisturbed")
    )
    assert first == second


def has_lines(path, count):
    return path.exists() and path.read_bytes().count(b"\n") >= count


TRAIN = """
import signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from paper.age_network import Training, train_images
from paper.tests.test_age import PLAN, bright, tiny

advance = Training.advance
def killed(training):
    if training.step == 9:
        signal.raise_signal(signal.SIGKILL)
    advance(training)

Training.advance = killed
train_images(tiny(), *bright(), PLAN, Path(sys.argv[1]), save_every=0.0)
"""


@needs_fork
def test_a_training_that_was_killed_ends_where_an_undisturbed_one_does(tmp_path):
    rows, threads, path = bright(), torch.get_num_threads(), tmp_path / "killed.pt"
    undisturbed, resumed, other = tiny(), tiny(), tiny(seed=9)
    # Sums of several threads come in another order, and may differ in their last bits.
    torch.set_num_threads(1)
    try:
        history = train_images(undisturbed, *rows, PLAN, tmp_path / "undisturbed.pt")
        arguments = [sys.executable, "-c", TRAIN, str(path)]
        places = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        found = subprocess.run(arguments, check=False, env=places, timeout=120)
        assert found.returncode == -signal.SIGKILL
        assert torch.load(path, weights_only=True)["step"] == 9
        again = train_images(resumed, *rows, PLAN, path)
    finally:
        torch.set_num_threads(threads)
    assert same_weights(undisturbed, resumed)
    assert [{**row, "seconds": 0} for row in again] == [{**row, "seconds": 0} for row in history]
    # A finished training is not repeated.
    before = path.stat().st_mtime_ns
    assert train_images(other, *rows, PLAN, path) == again
    assert same_weights(other, resumed)
    assert path.stat().st_mtime_ns == before


@pytest.mark.skipif(not os.environ.get(FOLDER_VARIABLE), reason=f"{FOLDER_VARIABLE} is not set")
def test_the_faces_are_all_there():
    faces = load_faces()
    assert faces.pixels.shape == (23_707, 64, 64, 3)
    assert (faces.age.min(), faces.age.max()) == (1.0, 116.0)
    assert np.sum(faces.groups["ethnicity"] == UNKNOWN) == 3
