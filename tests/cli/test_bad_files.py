"""Bad files: each one clear sentence, exit code 2, nothing written, by every command that reads."""

import numpy as np
import pandas as pd
import pytest
from table_files import QUICK, assert_refused, call, call_json, homes, write


def with_bytes(content):
    return lambda path: path.write_bytes(content)


def truncated(path):
    homes().to_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def wide(path):
    names = ",".join(["price", "size", *(f"c{j}" for j in range(9_998))])
    path.write_text(f"{names}\n" + f"{','.join(['1'] * 10_000)}\n" * 3)


def text_in_target(path):
    frame = homes()
    frame["price"] = np.where(np.arange(len(frame)) % 9 == 0, "unknown", frame["price"].astype(str))
    frame.to_csv(path, index=False)


def with_column(**columns):
    return lambda path: write(homes().assign(**columns), path)


def renamed(**names):
    return lambda path: write(homes().rename(columns=names), path)


NAMES = ",".join(homes(1)).encode()
#: what -> (file name, how it is made, words of the sentence)
FILES = {
    "missing file": ("t.csv", lambda path: None, "does not exist"),
    "missing column": ("t.csv", renamed(price="Price"), "did you mean 'Price'"),
    "empty file": ("t.csv", with_bytes(b""), "is empty"),
    "header only": ("t.csv", with_bytes(NAMES + b"\n"), "no rows"),
    "text in the target": ("t.csv", text_in_target, "holds 'unknown' (row 0"),
    "two rows": ("t.csv", lambda path: write(homes(2), path), "2 row(s)"),
    "wrong delimiter": ("t.csv", with_bytes(NAMES.replace(b",", b";") + b"\n"), "semicolons"),
    "spaces": ("t.csv", with_bytes(NAMES.replace(b",", b" ") + b"\n1 2 3 4 5\n"), "by spaces"),
    "colons": ("t.csv", with_bytes(NAMES.replace(b",", b":") + b"\n1:2:3:4:5\n"), "by colons"),
    "10,000 columns": ("t.csv", wide, "10,000 columns"),
    "duplicate columns": ("t.csv", with_bytes(NAMES + b",size\n1,2,3,4,5,6\n"), "'size'"),
    "not UTF-8": ("t.csv", with_bytes(NAMES + b",stra\xdfe\n1,2,3,4,5,6\n"), "UTF-8"),
    "truncated Parquet": ("t.parquet", truncated, "not a whole Parquet file"),
    "constant target": ("t.csv", with_column(price=3.0), "is 3 in every row"),
    "target without values": ("t.csv", with_column(price=np.nan), "no finite value"),
    "only the target": ("t.csv", lambda path: write(homes()[["price"]], path), "features were"),
    "unknown format": ("t.xlsx", with_bytes(b"PK\x03\x04"), "'.xlsx'"),
}


@pytest.mark.parametrize("case", FILES)
def test_run_refuses_in_one_sentence_and_writes_nothing(case, tmp_path):
    name, make, words = FILES[case]
    make(tmp_path / name)
    before = set(tmp_path.rglob("*"))
    result = call("run", tmp_path / name, "-t", "price", *QUICK, "--out", tmp_path / "out")
    assert_refused(result, words)
    assert set(tmp_path.rglob("*")) == before


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    data = write(homes(800), folder / "homes.csv")
    call_json("run", data, "-t", "price", "--features", "size,region", *QUICK, "--out", folder)
    return folder / "model.skops"


#: Those that are about the target do not concern `predict`.
READ = [
    "missing file",
    "empty file",
    "header only",
    "wrong delimiter",
    "duplicate columns",
    "not UTF-8",
    "truncated Parquet",
    "unknown format",
]


@pytest.mark.parametrize("case", READ)
def test_predict_refuses_in_one_sentence_and_writes_nothing(case, model, tmp_path):
    name, make, words = FILES[case]
    make(tmp_path / name)
    before = set(tmp_path.rglob("*"))
    result = call("predict", model, tmp_path / name, "--out", tmp_path / "out" / "made.csv")
    assert_refused(result, words)
    assert set(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("case", READ)
def test_new_rows_of_a_run_are_refused_too_and_nothing_is_written(case, tmp_path):
    name, make, words = FILES[case]
    data = write(homes(), tmp_path / "data.csv")
    make(tmp_path / name)
    before = set(tmp_path.rglob("*"))
    options = [*QUICK, "--new", tmp_path / name, "--out", tmp_path / "out"]
    assert_refused(call("run", data, "-t", "price", *options), words)
    assert set(tmp_path.rglob("*")) == before


def test_odd_tables_that_can_be_used(tmp_path):
    """Columns that tell nothing, texts, gaps and names with commas and quotes do no harm."""
    frame = homes(200).assign(**{'a "b", c': 1.5, "<b>": "x", "gaps": np.nan})
    frame.loc[::3, "price"] = np.nan
    data = write(frame, tmp_path / "odd.csv")
    document = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
    assert document["rows"]["with a target"] == frame["price"].notna().sum()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "&#x27;&lt;b&gt;" in page or "&lt;b&gt;" in page or "\\u003cb" in page
    assert pd.read_csv(tmp_path / "out" / "intervals.csv").shape[0] == document["rows"]["hold out"]
