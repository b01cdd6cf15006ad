"""The application: help, version, and what it needs."""

import importlib.util
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import localconformal
from localconformal import cli
from localconformal.cli.app import COMMANDS, app
from localconformal.cli.console import EXIT_CODES


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.strip() == f"localconformal {localconformal.__version__}"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_command_has_a_page_of_help(command):
    result = CliRunner().invoke(app, [command.__name__, "--help"], terminal_width=80)
    assert result.exit_code == 0
    assert command.__doc__.strip().splitlines()[0][:30] in result.stdout
    assert f"localconformal {command.__name__}" in result.stdout.partition("Example:")[2]
    lines = result.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100


def test_help_has_exit_codes_an_example_and_whole_sentences():
    result = CliRunner().invoke(app, ["--help"], terminal_width=80)
    for code, meaning in EXIT_CODES.items():
        assert f"{code}  {meaning}" in result.stdout
    assert "Example:  localconformal run" in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]


def test_threads_that_wait_do_not_spin_unless_asked_to():
    code = (
        "import os, sys, localconformal.cli as cli\n"
        "sys.argv = ['localconformal', '--version']\n"
        "try: cli.main()\n"
        "except SystemExit: print(os.environ['OMP_WAIT_POLICY'])"
    )
    for given, expected in (({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")):
        kept = {k: v for k, v in os.environ.items() if k != "OMP_WAIT_POLICY"}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**kept, **given}
        )
        assert done.stdout.split()[-1] == expected


def test_help_loads_none_of_the_heavy_packages():
    code = (
        "import sys, localconformal.cli.app\n"
        "print([m for m in ('sklearn', 'pandas', 'matplotlib', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("missing", cli.NEEDED)
def test_a_missing_extra_is_one_sentence_and_exit_code_one(missing, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name == missing else real(name))
    with pytest.raises(SystemExit) as stop:
        cli.main()
    # SystemExit with a text: Python prints it to standard error and exits with 1.
    assert missing in stop.value.code
    assert "pip install 'localconformal[cli]'" in stop.value.code


def test_without_the_extra_the_module_still_imports():
    code = (
        "import sys\n"
        "for name in ('typer', 'rich', 'matplotlib', 'pandas', 'skops'): sys.modules[name] = None\n"
        "import localconformal.cli as cli\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
