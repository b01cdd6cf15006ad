"""Commands that are told to end, and output that leads nowhere: real processes."""

import signal
import subprocess
import sys

import pytest

from localconformal.cli.console import EXIT_CODES
from registry import ci_but

#: A command that says when its file is half written, and then waits for ever.
WAITING = """
import sys, threading
from pathlib import Path
from localconformal.cli import main
from localconformal.cli.app import app
from localconformal.cli.console import answering
from localconformal.io.files import write_together

def half(part):
    part.write_text("half")
    print("half", flush=True)
    # Not one wait for ever: a signal that comes just before it would be heeded after it.
    while not threading.Event().wait(0.1):
        pass

def wait(out: Path) -> None:
    write_together({out / "a.txt": lambda part: part.write_text("whole"), out / "b.txt": half})

app.command()(answering(wait))
main()
"""


def heed_signals():
    """As on a terminal, whatever the tests themselves were started to ignore."""
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_DFL)


def begun(out, before=heed_signals):
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, "wait", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )
    assert (process.stdout.readline(), len(list(out.iterdir()))) == ("half\n", 2)
    return process


@pytest.mark.parametrize("name", ci_but(["SIGTERM"], ["SIGTERM", "SIGHUP", "SIGINT"]))
def test_a_command_that_is_told_to_end_leaves_nothing_behind(tmp_path, name):
    out = tmp_path / "made"
    process = begun(out)
    process.send_signal(getattr(signal, name))
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, name)
    assert process.returncode in EXIT_CODES
    assert said == ("Interrupted; nothing was written.\n" if name == "SIGINT" else "")
    assert not out.exists()


@pytest.mark.ci
@pytest.mark.parametrize("how", [[], ["--json"]])
def test_files_are_there_though_the_result_cannot_be_printed(tmp_path, model, data, how):
    out, main = tmp_path / "made.csv", "from localconformal.cli import main; main()"
    command = ["predict", model, data, "--out", out, *how]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", main, *map(str, command)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (len(out.read_text().splitlines()), done.returncode) == (401, 4)
    (said,) = done.stderr.splitlines()
    assert said.startswith("Cannot print the result (No space left on device); the command is done")
    assert "nothing was written" not in EXIT_CODES[4]
