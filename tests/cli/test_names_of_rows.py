"""What `--id` names comes out as it came in: numbers as numbers of their type, texts harmless."""

import csv

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import QUICK, call_json, homes, write

from registry import ci_but

N = 400
NUMBERS = {
    "integers": (np.arange(N) - 100, pa.int64()),
    "floats": (np.arange(N) / 4 - 25, pa.float64()),
    "integers with gaps": (
        pd.array([None if i % 7 == 0 else 2**60 - i for i in range(N)], "Int64"),
        pa.int64(),
    ),
}
FOLDER = ["--model", "linear", "--law", "kernel"]


def table_of(names):
    return homes(N).drop(columns="key").assign(station=names)


def column(path):
    """The names in a file, by the position of their row, as CSV or Parquet has them."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return dict(zip(table["row"].to_pylist(), table["station"].to_pylist(), strict=True))
    with path.open(newline="") as stream:
        return {int(row["row"]): row["station"] for row in csv.DictReader(stream)}


def assert_numbers(path, names, kind):
    """The file has these numbers at the rows it names, in their type."""
    known = [None if pd.isna(name) else name for name in names]
    found = column(path)
    if path.suffix == ".parquet":
        assert pq.read_schema(path).field("station").type == kind
        assert found == {row: known[row] for row in found}
    else:
        text = str if kind == pa.int64() else "{:.17g}".format
        written = {row: "" if known[row] is None else text(known[row]) for row in found}
        assert found == written


@pytest.mark.parametrize("case", ci_but(["integers"], NUMBERS))
@pytest.mark.parametrize("suffix", ci_but([".csv"], [".csv", ".parquet"]))
def test_numbers_are_numbers_in_run_and_predict(tmp_path, suffix, case):
    names, kind = NUMBERS[case]
    data = write(table_of(names), tmp_path / f"t{suffix}")
    out = tmp_path / "out"
    call_json("run", data, "-t", "price", "--id", "station", *QUICK, "--new", data, "--out", out)
    for made in (".csv", ".parquet"):
        call_json(
            "predict", out / "model.skops", data, "--batch-rows", 150, "--out", out / f"p{made}"
        )
        for name in ("intervals", "new-intervals", "p"):
            assert_numbers(out / f"{name}{made}", names, kind)


@pytest.mark.ci
@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_are_numbers_in_folders(tmp_path, case):
    names, kind = NUMBERS[case]
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    table = table_of(names)
    table[:150].to_parquet(data / "a.parquet", index=False, row_group_size=60)
    table[150:].to_parquet(data / "b.parquet", index=False)
    call_json("run", data, "-t", "price", "--id", "station", *FOLDER, "--out", out)
    for suffix in (".csv", ".parquet"):
        assert_numbers(out / f"intervals{suffix}", names, kind)
    call_json("predict", out / "model.skops", data, "--out", out / "made")
    files = sorted((out / "made").iterdir())
    assert len(files) == 2
    for file in files:
        assert_numbers(file, names, kind)


@pytest.mark.parametrize("suffix", ci_but([".csv"], [".csv", ".parquet"]))
def test_texts_that_begin_as_a_formula_stay_harmless(tmp_path, suffix):
    names = ["-96" if i % 2 else "=cmd" for i in range(N)]
    data = write(table_of(names), tmp_path / f"t{suffix}")
    out = tmp_path / "out"
    call_json("run", data, "-t", "price", "--id", "station", *QUICK, "--new", data, "--out", out)
    for name in ("intervals", "new-intervals"):
        whole, shown = column(out / f"{name}.parquet"), column(out / f"{name}.csv")
        assert whole == {row: names[row] for row in whole}
        assert shown == {row: f"'{names[row]}" for row in whole}


def test_a_feature_may_name_new_rows_in_its_own_type(tmp_path):
    rng = np.random.default_rng(0)
    table = homes(N)[["size", "price"]].assign(station=rng.permutation(N) - 100)
    data, out = write(table, tmp_path / "t.csv"), tmp_path / "out"
    call_json("run", data, "-t", "price", *QUICK, "--out", out)
    made = tmp_path / "made.parquet"
    call_json("predict", out / "model.skops", data, "--id", "station", "--out", made)
    assert_numbers(made, table["station"].tolist(), pa.int64())


def test_negative_groups_are_said_as_they_are(tmp_path):
    data = write(table_of(np.arange(N) % 4 - 100), tmp_path / "t.csv")
    options = ["--id", "station", "--groups", "station", *QUICK, "--out", tmp_path / "out"]
    call_json("run", data, "-t", "price", *options)
    held = tmp_path / "out" / "intervals.csv"
    bounds = ["--y", "actual", "--lower", "lower", "--upper", "upper"]
    audited = tmp_path / "audited"
    found = call_json("audit", held, *bounds, "--groups", "station", "--out", audited)
    said = str(found["groups"])
    assert all(f"-{name}" in said for name in (97, 98, 99, 100))
    assert "'-" not in (audited / "audit.json").read_text()
