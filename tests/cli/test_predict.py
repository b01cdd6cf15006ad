"""`predict`: new rows with the model of a run, in any format and in any batches."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import QUICK, call, call_json, write

from localconformal.io.models import load_model
from localconformal.io.tables import read_table
from registry import ci_but, homes


@pytest.mark.parametrize("batch", ci_but([7], [7, 50, 10_000]))
def test_batches_and_formats_do_not_matter(model, new, tmp_path, batch):
    raw, parts = read_table(new), tmp_path / "parts"
    parts.mkdir()
    raw.to_csv(tmp_path / "new.csv.gz", index=False)
    raw.to_parquet(tmp_path / "new.parquet")
    raw[:20].to_parquet(parts / "a.parquet", index=False)
    raw[20:].to_parquet(parts / "b.parquet", index=False)
    with pytest.warns(UserWarning, match="50 values of 'region'"):
        expected = load_model(model).predict_interval(raw)
    for data, suffix in (
        (new, ".csv"),
        (tmp_path / "new.csv.gz", ".parquet"),
        (tmp_path / "new.parquet", ".csv"),
        (parts, ".parquet"),
    ):
        out = tmp_path / f"made{suffix}"
        document = call_json("predict", model, data, "--out", out, "--batch-rows", batch)
        rows = read_table(out)
        assert (document["rows"], document["file"]) == (50, str(out))
        assert rows["row"].tolist() == list(range(50))
        # Products of matrices round as their sizes want.
        np.testing.assert_allclose(rows[["lower_0.9", "upper_0.9"]], expected, rtol=1e-12)


def test_names_of_rows_and_levels_are_as_asked(model, new, tmp_path):
    out = tmp_path / "made.csv"
    # A feature may name rows too.
    call_json("predict", model, new, "--id", "sold", "--level", 0.5, "--level", 0.95, "--out", out)
    rows = pd.read_csv(out)
    assert rows["sold"].tolist() == pd.read_csv(new)["sold"].tolist()
    assert (rows["upper_0.95"] - rows["lower_0.95"] > rows["upper_0.5"] - rows["lower_0.5"]).all()
    nameless = write(pd.read_csv(new).drop(columns="key"), tmp_path / "nameless.csv")
    call_json("predict", model, nameless, "--out", out)
    assert "key" not in read_table(out)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_of_rows_are_texts_in_csv_and_of_their_type_in_parquet(tmp_path, suffix):
    keys = [f"{i:03}" for i in range(100)] if suffix == ".csv" else list(range(100))
    data, out = write(homes(100).assign(key=keys), tmp_path / f"t{suffix}"), tmp_path / "out"
    call_json("run", data, "-t", "price", "--id", "key", "--new", data, *QUICK, "--out", out)
    call_json("predict", out / "model.skops", data, "--out", out / "p.parquet")
    for name in ("intervals", "new-intervals", "p"):
        made = pq.read_table(out / f"{name}.parquet")
        assert made["key"].to_pylist() == [keys[row] for row in made["row"].to_pylist()]
        assert pa.types.is_integer(made.schema.field("key").type) == (suffix == ".parquet")


def test_values_that_cannot_be_used_are_counted_and_said(model, tmp_path):
    table = homes(20).assign(region="west")
    table.loc[3, "sold"] = "yesterday"
    data = write(table, tmp_path / "other.csv")
    said = call("predict", model, data, "--out", tmp_path / "a.csv").stdout
    assert "20 values of 'region' could not be found among the labels" in said
    assert "1 value of 'sold' could not be read as a time" in said
