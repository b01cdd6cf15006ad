"""What takes minutes: every experiment at smoke, a program that is killed, all faces."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from paper import EXPERIMENTS
from paper.data import FOLDER_VARIABLE
from paper.faces import UNKNOWN, load_faces
from paper.tests.test_experiments import check_smoke

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_everything_at_smoke(name, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALCONFORMAL_CACHE", str(tmp_path))
    check_smoke(name, tmp_path)


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


@pytest.mark.skipif(not os.environ.get(FOLDER_VARIABLE), reason=f"{FOLDER_VARIABLE} is not set")
def test_the_faces_are_all_there():
    faces = load_faces()
    assert faces.pixels.shape == (23_707, 64, 64, 3)
    assert (faces.age.min(), faces.age.max()) == (1.0, 116.0)
    assert np.sum(faces.groups["ethnicity"] == UNKNOWN) == 3
