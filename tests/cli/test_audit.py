import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app

COLUMNS = ["--y", "y", "--lower", "low", "--upper", "high"]


def invoke(*args):
    return CliRunner().invoke(app, ["audit", *map(str, args)])


@pytest.fixture(scope="module")
def table():
    """Intervals that are too short where x > 0.75."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=900)
    y = rng.normal(size=900) * np.where(x > 0.75, 2.5, 1.0)
    group = np.where(rng.uniform(size=900) < 0.5, "=a", "<b>")
    return pd.DataFrame({"x": x, "g": group, "y": y, "low": -1.645, "high": 1.645})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, table):
    made = tmp_path_factory.mktemp("audit")
    table.to_csv(made / "rows.csv", index=False)
    table.to_parquet(made / "rows.parquet")
    return made


@pytest.fixture(scope="module")
def audited(folder):
    out = folder / "out"
    return invoke(folder / "rows.csv", *COLUMNS, "--groups", "g", "--out", out), out


def test_the_sentences_are_printed_and_the_files_written(audited):
    result, out = audited
    assert result.exit_code == 0, result.stderr
    assert "Coverage audit of 900 rows, target 90 %" in result.stdout
    assert "x > 0.7" in result.stdout
    assert "--level sets another" in result.stdout
    assert sorted(path.name for path in out.iterdir()) == ["audit.json", "report.html"]
    assert f"Report: {out / 'report.html'}" in result.stdout
    assert result.stderr == ""


def test_the_report_is_of_these_rows_and_escapes_their_texts(audited):
    _, out = audited
    page = (out / "report.html").read_text()
    assert "900 rows" in page
    assert "<b>" not in page.replace("<body>", "")


def test_json_is_one_document_and_equals_the_file(folder, audited):
    _, out = audited
    again = folder / "again"
    result = invoke(folder / "rows.parquet", *COLUMNS, "--groups", "g", "--json", "--out", again)
    printed = json.loads(result.stdout)
    stored = json.loads((out / "audit.json").read_text())
    assert printed["summary"] == stored["summary"]
    assert printed["failures"] == stored["failures"]
    assert printed["files"]["report"] == str(again / "report.html")
    assert {cell["by"] for cell in printed["groups"]} == {"g"}


def test_the_level_and_the_features_are_as_asked(folder, tmp_path):
    result = invoke(
        folder / "rows.csv", *COLUMNS, "--level", 0.8, "--features", "x,g", "--features", "x",
        "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    printed = json.loads(result.stdout)
    assert printed["summary"]["confidence_level"] == 0.8
    assert {cell["by"] for cell in printed["features"]} == {"x", "g"}


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--y", "why", "--lower", "low", "--upper", "high"], "no column 'why'"),
        ([*COLUMNS, "--groups", "gg"], "no column 'gg'"),
        ([*COLUMNS, "--features", "x,zz"], "no column 'zz'"),
        ([*COLUMNS, "--level", "90"], "(0, 1)"),
        (["--y", "g", "--lower", "low", "--upper", "high"], "numbers were expected"),
        (["--y", "y", "--lower", "high", "--upper", "low"], "swap"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(folder, tmp_path, args, word):
    result = invoke(folder / "rows.csv", *args, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert word in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_there(tmp_path):
    result = invoke(tmp_path / "none.csv", *COLUMNS, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
    assert list(tmp_path.iterdir()) == []
