"""`audit`: anyone's intervals in a table, and what cannot be audited."""

import json

import numpy as np
import pandas as pd
import pytest
from table_files import call, call_json, refuse, words_of, write

from localconformal.audit import audit

N = 900
COLUMNS = ["--y", "y", "--lower", "low", "--upper", "high"]


def rows(n=N):
    """Intervals that are too short where x > 0.75."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    y = rng.normal(size=n) * np.where(x > 0.75, 2.5, 1.0)
    group = np.where(rng.uniform(size=n) < 0.5, "=a", "<b>")
    return pd.DataFrame({"x": x, "g": group, "y": y, "low": -1.645, "high": 1.645})


def found(table, folder, *options):
    return call_json(
        "audit", write(table, folder / "t.parquet"), *COLUMNS, *options, "--out", folder
    )


def test_it_is_the_audit_of_the_library_in_words_in_files_and_on_a_page(tmp_path):
    table, out = rows(), tmp_path / "out"
    result = call(
        "audit", write(table, tmp_path / "rows.csv"), *COLUMNS, "--groups", "g", "--out", out
    )
    said = words_of(result)
    for words in (f"Coverage audit of {N} rows, target 90 %", "x > 0.7", "change it with --level"):
        assert words in said
    assert f"Report: {out / 'report.html'}" in result.stdout
    assert result.stderr == ""
    assert sorted(path.name for path in out.iterdir()) == ["audit.json", "report.html"]
    page = (out / "report.html").read_text()
    assert "<b>" not in page.replace("<body>", "")
    bounds = table[["low", "high"]].to_numpy()
    direct = audit(table[["x", "g"]], table["y"], bounds, {"g": table["g"]})
    stored = json.loads((out / "audit.json").read_text())
    for document in (stored, found(table, tmp_path, "--groups", "g")):
        assert document["summary"]["coverage"] == direct.summary.coverage
        texts = [failure["text"] for failure in document["failures"]]
        assert texts == [failure.text for failure in direct.failures()]
        assert {"rules", "features", "groups", "sizes", "slab", "notes"} <= set(document)


def test_the_level_and_the_features_are_as_asked(tmp_path):
    document = found(rows(), tmp_path, "--level", 0.8, "--features", "x", "--features", "x")
    assert document["summary"]["confidence_level"] == 0.8
    assert {cell["by"] for cell in document["features"]} == {"x"}


def test_rows_with_a_missing_number_are_left_out_and_infinite_bounds_are_bounds(tmp_path):
    table = rows().assign(low=-np.inf).astype({"y": str})
    table.loc[:9, "y"] = None
    table.loc[5:14, "low"] = np.nan
    document = found(table, tmp_path)
    # Upper bounds alone: not infinite, but of one side.
    assert (document["summary"]["n"], document["summary"]["share_infinite"]) == (N - 15, 0.0)
    assert "one bound" in " ".join(document["notes"])
    assert f"15 of {N} rows were left out" in document["notes"][0]
    document = found(rows(50)[["y", "low", "high"]], tmp_path)
    assert "order of its rows" in document["notes"][0]


def test_columns_that_run_itself_wrote_are_no_features(tmp_path):
    own = {"row": np.arange(N), "predicted": np.arange(N), "upper_0.5": np.arange(N)}
    table = rows().assign(**own)
    assert "row" in {cell["by"] for cell in found(table, tmp_path)["features"]}
    named = ["--y", "actual", "--lower", "low", "--upper", "high", "--out", tmp_path / "out"]
    for features, expected in (([], {"x", "g"}), (["--features", "row"], {"row"})):
        data = write(table.rename(columns={"y": "actual"}), tmp_path / "intervals.csv")
        document = call_json("audit", data, *named, *features)
        assert {cell["by"] for cell in document["features"]} == expected


BAD = [({}, "--y Y", "no column 'Y'; did you mean 'y'"), ({}, "--groups gg,g", "no column 'gg'")]
BAD += [({}, "--features x,zz", "no column 'zz'"), ({}, "--level 90", "(0, 1), such as 0.9.")]
BAD += [({}, "--lower y", "three different columns"), ({}, "--y g", "expected numbers")]
BAD += [({}, "--lower high --upper low", "swap"), ({"low": True}, "", "'low' holds")]
BAD += [({}, "--groups g,x", "'x' as groups, with 50 values in 50 audited rows; expected")]
BAD += [({"y": np.nan}, "", "no row has a number"), ({"y": np.inf}, "", "infinite")]


@pytest.mark.parametrize(("change", "options", "words"), BAD)
def test_what_cannot_be_audited_is_one_sentence(tmp_path, change, options, words):
    data = write(rows(50).assign(**change), tmp_path / "rows.parquet")
    refuse(tmp_path, words, "audit", data, *COLUMNS, *options.split(), "--out", tmp_path / "out")
