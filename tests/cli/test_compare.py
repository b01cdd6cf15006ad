"""`compare`: a ranking, printed and in files that agree."""

import json

import numpy as np
import pytest
from table_files import call, call_json, words_of, write

from localconformal.io.tables import read_table
from registry import homes

QUICK = ["-t", "price", "--methods", "split,mondrian", "--model", "linear"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    table = homes(500).rename(columns={"region": "<b>"})
    return write(table, tmp_path_factory.mktemp("compare") / "rows.csv")


def test_a_ranking_is_printed_and_three_files_agree_with_it(table, tmp_path):
    result = call("compare", table, *QUICK, "--out", tmp_path)
    assert "Best by the interval score" in words_of(result)
    assert result.stderr == ""
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["compare.csv", "compare.json", "report.html"]
    ranked = read_table(tmp_path / "compare.csv")
    standings = json.loads((tmp_path / "compare.json").read_text())["standings"]
    assert ranked["method"].tolist() == [one["method"] for one in standings]
    scores = [one["interval_score"] for one in standings]
    np.testing.assert_allclose(ranked["interval_score"], scores)
    page = (tmp_path / "report.html").read_text()
    assert "<b>" not in page.replace("<body>", "")


def test_help_and_result_say_where_methods_are_explained(table, tmp_path):
    for asked in (["--help"], [table, *QUICK, "--out", tmp_path]):
        said = words_of(call("compare", *asked))
        assert "explained in docs/methods.md, and in Python by localconformal.methods()" in said


def test_json_is_one_document_and_failures_are_in_it(table, tmp_path):
    methods = ["--methods", "cqr", "--methods", "split", "--model", "forest"]
    printed = call_json("compare", table, "-t", "price", *methods, "--out", tmp_path)
    assert [one["method"] for one in printed["standings"]] == ["split"]
    assert "quantiles" in printed["failed"]["cqr"]


def test_known_values_of_the_target(table, tmp_path):
    options = ["--support", "0,", "--integer", "--out", tmp_path]
    result = call("compare", table, *QUICK, *options)
    assert (result.exit_code, "not whole numbers" in result.stderr) == (2, True)
    result = call("compare", table, *QUICK, "--support", "0-9", "--out", tmp_path)
    assert (result.exit_code, "expected LOW,HIGH" in result.stderr) == (2, True)
    call("compare", table, *QUICK, "--support", "-999,9999", "--out", tmp_path)
    page = json.loads((tmp_path / "compare.json").read_text())
    assert all(one["mean_length"] < 10_998 for one in page["standings"])


@pytest.mark.ci
def test_folds_and_one_side(table, tmp_path):
    options = ["compare", table, "-t", "price", "--model", "linear", "--out", tmp_path]
    result = call(*options, "--methods", "split,mondrian", "--cv", "4")
    assert "mondrian: got --cv 4 for the method 'mondrian', which has no cv" in words_of(result)
    result = call(*options, "--sides", "upper")
    for words in ("Left out, without sides: split,", "pinball loss over alpha", "mean bound"):
        assert words in words_of(result)
    rows = read_table(tmp_path / "compare.csv")
    assert np.isfinite(rows["mean_bound"]).all()
    assert "90 % bounds:" in words_of(result)
    assert "lie within their upper bound" in (tmp_path / "report.html").read_text()
