import json
import os
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app
from localconformal.io.tables import read_table

#: The command, which says when it is at work.
ANNOUNCED = """
from localconformal.cli import main
from localconformal.tabular import compare

attempt = compare._attempt

def announced(*args):
    print("begun", flush=True)
    return attempt(*args)

compare._attempt = announced
main()
"""
QUICK = ["--target", "y", "--methods", "split,mondrian", "--model", "linear"]


def invoke(*args):
    return CliRunner().invoke(app, ["compare", *map(str, args)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("compare")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=500), "<b>": rng.choice(["=a", "b"], 500)})
    table["y"] = table["x"] * rng.normal(size=500)
    table.to_csv(made / "rows.csv", index=False)
    return made


@pytest.fixture(scope="module")
def compared(folder):
    out = folder / "out"
    return invoke(folder / "rows.csv", *QUICK, "--out", out), out


def test_a_ranking_is_printed_and_three_files_are_written(compared):
    result, out = compared
    assert result.exit_code == 0, result.stderr
    assert "Best by the interval score" in result.stdout
    assert f"Report:  {out / 'report.html'}" in result.stdout
    names = sorted(path.name for path in out.iterdir())
    assert names == ["compare.csv", "compare.json", "report.html"]
    assert result.stderr == ""


def test_the_files_agree(compared):
    _, out = compared
    table, record = read_table(out / "compare.csv"), json.loads((out / "compare.json").read_text())
    assert table["method"].tolist() == [one["method"] for one in record["standings"]]
    scores = [one["interval_score"] for one in record["standings"]]
    np.testing.assert_allclose(table["interval_score"], scores)


def test_the_page_has_every_method_and_escapes_names(compared):
    _, out = compared
    page = (out / "report.html").read_text()
    assert "The best of 2 methods" in page
    assert "mondrian" in page
    assert "<b>" not in page.replace("<body>", "")


def test_json_is_one_document_and_failures_are_in_it(folder, tmp_path):
    result = invoke(
        folder / "rows.csv", "-t", "y", "--methods", "cqr", "--methods", "split", "--model",
        "forest", "--json", "--out", tmp_path / "out",
    )  # fmt: skip
    printed = json.loads(result.stdout)
    assert [one["method"] for one in printed["standings"]] == ["split"]
    assert "quantiles" in printed["failed"]["cqr"]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["--target", "z"], "no column 'z'"),
        (["--methods", "slpc"], "did you mean slcp?"),
        (["--model", "tree"], "There is no model"),
        (["--level", "90"], "--level is 90"),
        (["--test-size", "0"], "--test-size is 0"),
        (["--repeats", "0"], "repeats is 0"),
        (["--features", "x,w"], "no column 'w'"),
        (["--target", "<b>"], "holds 'b' (row 0"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(folder, tmp_path, args, word):
    result = invoke(folder / "rows.csv", *QUICK, *args, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert word in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.ci
@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is sent otherwise there")
def test_an_interruption_leaves_nothing(folder, tmp_path):
    args = [str(folder / "rows.csv"), *QUICK, "--repeats", "100", "--out", "out"]
    running = subprocess.Popen(
        [sys.executable, "-c", ANNOUNCED, "compare", *args],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A test that itself runs with SIGINT ignored would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert running.stdout.readline() == b"begun\n"
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"Interrupted" in said
    assert list(tmp_path.iterdir()) == []
