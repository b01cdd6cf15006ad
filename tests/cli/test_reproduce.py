import json

import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app

run = CliRunner().invoke


def test_without_a_name_the_experiments_are_listed():
    result = run(app, ["reproduce"])
    assert result.exit_code == 0
    assert "table1" in result.output
    lines = result.output.splitlines()
    width = max(len(line.split("  ")[0]) for line in lines)
    assert all(line[width : width + 2] == "  " for line in lines)
    listed = json.loads(run(app, ["reproduce", "--json"]).stdout)
    assert listed["experiments"]["table1"].startswith("Table 1")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table9"], "There is no experiment 'table9'"),
        (["table1", "--preset", "huge"], "There is no preset 'huge'"),
    ],
)
def test_what_does_not_exist_is_one_sentence(arguments, sentence, tmp_path):
    result = run(app, ["reproduce", *arguments, "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()


def test_help_fits_a_screen():
    assert len(run(app, ["reproduce", "--help"]).output.splitlines()) <= 40


def test_without_data_every_task_says_where_to_put_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCALCONFORMAL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = run(app, ["reproduce", "meps21", "--preset", "smoke", "--out", str(tmp_path / "out")])
    assert result.exit_code == 3
    assert "meps_2017_util.parquet is not in" in result.stderr
    assert str(tmp_path / "out" / "smoke" / "meps21.md") in result.stdout
    assert "did not finish" in (tmp_path / "out" / "smoke" / "meps21.md").read_text()
