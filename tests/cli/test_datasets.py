import json
import os

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from localconformal.cli.app import app
from localconformal.datasets import DATASETS, load_dataset
from localconformal.tables import read_table

needs_data = pytest.mark.skipif(
    not os.environ.get("LOCALCONFORMAL_DATA"), reason="LOCALCONFORMAL_DATA names no folder"
)


def invoke(*args, **env):
    return CliRunner().invoke(app, ["datasets", *map(str, args)], env=env)


def test_every_data_set_is_listed_and_stand_ins_are_marked():
    result = invoke()
    assert result.exit_code == 0
    first_words = {line.split()[0] for line in result.stdout.splitlines() if line.split()}
    for name, entry in DATASETS.items():
        assert (f"{name}*" if entry.stand_in else name) in first_words
    assert "stand-in" in result.stdout
    assert "…" not in result.stdout


def test_json_says_what_is_present(tmp_path):
    (tmp_path / DATASETS["yacht"].file.filename).touch()
    env = {"LOCALCONFORMAL_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    listed = json.loads(invoke("--json", **env).stdout)["datasets"]
    assert [one["name"] for one in listed] == list(DATASETS)
    assert [one["name"] for one in listed if one["present"]] == ["yacht"]
    assert all(one["stand_in"] for one in listed if one["name"].startswith("meps"))


def test_one_in_detail():
    result = invoke("facebook_testset")
    assert "Stands in for facebook_2" in result.stdout
    assert "10,044 rows" in result.stdout


@needs_data
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_data_set_is_written_as_a_table(tmp_path, suffix):
    path = tmp_path / "made" / f"star.{suffix}"
    result = invoke("star", "--out", path)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[-1] == f"Table: {path}"
    table, data = read_table(path), load_dataset("star")
    assert list(table) == [*data.X, data.target]
    np.testing.assert_allclose(table[data.target], data.y)
    pd.testing.assert_frame_equal(table[list(data.X)].isna(), data.X.isna())
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (["bikes"], "did you mean bike?"),
        (["bike", "--out", "bike.xlsx"], "'.csv'"),
        (["--out", "bike.csv"], "which data set"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(tmp_path, monkeypatch, args, word):
    monkeypatch.chdir(tmp_path)
    result = invoke(*args)
    assert result.exit_code == 2
    assert word in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_nowhere_says_where_to_put_it(tmp_path):
    env = {"LOCALCONFORMAL_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    result = invoke("blog_data", "--out", tmp_path / "blog.csv", **env)
    assert result.exit_code == 2
    assert "LOCALCONFORMAL_DATA" in result.stderr
    assert not (tmp_path / "blog.csv").exists()
