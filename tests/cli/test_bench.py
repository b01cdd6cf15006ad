import json

import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app


def invoke(*args):
    return CliRunner().invoke(app, ["bench", *args])


def test_the_table_has_a_line_for_each_law():
    result = invoke("--rows", "100", "--features", "2")
    assert result.exit_code == 0, result.stderr
    first_words = [line.split()[0] for line in result.stdout.splitlines() if line.split()]
    for law in ("NumPy", "kernel", "forest"):
        assert law in first_words
    assert "cores" in result.stdout
    assert result.stderr == ""


def test_json_is_one_document():
    printed = json.loads(invoke("--rows", "100", "--features", "2", "--json").stdout)
    assert {timing["rows"] for timing in printed["timings"]} == {100}
    assert printed["timings"][0]["times_faster"] == 1.0
    assert "versions" in printed["machine"]


@pytest.mark.parametrize("args", [["--rows", "3"], ["--features", "0"], ["--rows", "many"]])
def test_bad_input_ends_with_code_two(args):
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stdout == ""
