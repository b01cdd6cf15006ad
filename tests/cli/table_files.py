"""Tables and commands for the tests of the command line."""

import json

from typer.testing import CliRunner

from localconformal.cli.app import app

QUICK = ["--method", "split", "--model", "linear"]
#: Its fit ends in another sentence: what is refused with it is refused before the fit.
UNFITTABLE = ["--method", "slcp", "--law", "kernal"]


def write(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def call_json(*arguments):
    """The document that a command prints with --json, after nothing else."""
    result = call(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def words_of(result):
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def refuse(folder, words, *arguments):
    """One sentence on standard error, exit code 2, nothing printed, and the folder as before."""
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    result = call(*arguments)
    assert result.exit_code == 2, result.stderr
    assert (result.stdout, len(result.stderr.strip().splitlines())) == ("", 1)
    assert words in result.stderr
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before
    return result.stderr
