"""The application: help, version, and what it needs."""

import os
import subprocess
import sys

import pytest
from table_files import call, words_of

import localconformal
from declared_versions import lower_bound, project
from localconformal import cli
from localconformal.cli.app import COMMANDS


def python(code, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**kept, **environment}
    )


def test_version():
    assert words_of(call("--version")) == f"localconformal {localconformal.__version__}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_has_a_page_of_help(command):
    result = call(command.__name__, "--help")
    assert command.__doc__.strip().splitlines()[0][:30] in result.stdout
    assert f"localconformal {command.__name__}" in result.stdout.partition("Example:")[2]


@pytest.mark.parametrize("given", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}])
def test_help_loads_no_heavy_package_and_threads_that_wait_do_not_spin_unless_asked_to(given):
    done = python(
        "import os, signal, sys, localconformal.cli as cli\n"
        "ending = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)\n"
        "before = [signal.getsignal(one) for one in ending]\n"
        "import localconformal.cli.app\n"
        "assert before == [signal.getsignal(one) for one in ending], 'only main has handlers'\n"
        "sys.argv = ['localconformal', 'run', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit: print(os.environ['OMP_WAIT_POLICY'])\n"
        "print([m for m in ('sklearn', 'pandas', 'matplotlib', 'numba') if m in sys.modules])",
        **given,
    )
    assert done.stdout.splitlines()[-2:] == [given.get("OMP_WAIT_POLICY", "PASSIVE"), "[]"]


def test_what_is_needed_is_what_the_extras_declare():
    extras = project()["optional-dependencies"]
    bounds = (lower_bound(one) for name in ("cli", "plots", "report") for one in extras[name])
    assert {found[0] for found in bounds if found} == set(cli.NEEDED)


def test_a_missing_extra_is_one_sentence_and_exit_code_one():
    done = python(
        f"import sys\nfor name in {cli.NEEDED}: sys.modules[name] = None\n"
        "from localconformal.cli import main\nmain()"
    )
    assert done.returncode == 1
    (said,) = done.stderr.strip().splitlines()
    assert all(name in said for name in cli.NEEDED)
    assert "pip install 'localconformal[cli]'" in said
