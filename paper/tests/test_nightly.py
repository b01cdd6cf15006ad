"""What takes minutes: every experiment at smoke, runs and trainings that are killed, all faces."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from paper import EXPERIMENTS
from paper.data import FOLDER_VARIABLE
from paper.faces import UNKNOWN, load_faces
from paper.tests.test_age import PLAN, bright, same_weights, tiny, torch
from paper.tests.test_experiments import check_smoke

pytestmark = pytest.mark.nightly

from paper.age_network import train_images  # noqa: E402

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_everything_at_smoke(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALCONFORMAL_CACHE", str(tmp_path))
    check_smoke(name, tmp_path)


@needs_fork
def test_the_program_killed_again_and_again_on_two_processes(tmp_path):
    """The store only grows, finished tasks are not repeated, and the table is the same."""

    def start(out):
        asked = ["proposition2", "--preset", "smoke", "--jobs", "2", "--out", str(out)]
        return subprocess.Popen([sys.executable, "-m", "paper", *asked], stdout=subprocess.DEVNULL)

    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    store, before = killed / "smoke" / "proposition2.jsonl", b""
    # A header and four tasks: killed with the first line, the second and the third.
    for lines in (1, 2, 3):
        process = start(killed)
        while process.poll() is None and not has_lines(store, lines):
            time.sleep(0.01)
        process.kill()
        process.wait()
        whole = store.read_bytes()[: store.read_bytes().rfind(b"\n") + 1]
        assert whole.startswith(before)
        before = whole
    assert start(killed).wait(300) == start(undisturbed).wait(300) == 0
    assert store.read_bytes().startswith(before)
    assert store.read_bytes().count(b"\n") == 1 + 4
    # The table of lines, which has no times.
    first, second = (
        (out / "smoke" / "proposition2.md").read_text().partition("## ")[0]
        for out in (killed, undisturbed)
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
    # Those of both runs add up.
    assert np.all(np.diff([row["seconds"] for row in again]) > 0)
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
