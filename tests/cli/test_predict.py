"""`predict`: new rows with the model of a run, in any format and in any batches."""

import numpy as np
import pandas as pd
import pytest
from table_files import call_json, write

from localconformal.io.models import load_model
from localconformal.io.tables import read_table
from registry import ci_but


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
    call_json("predict", model, new, "--id", "sold", "--level", 0.5, "--level", 0.95, "--out", out)
    rows = pd.read_csv(out)
    assert rows["sold"].tolist() == pd.read_csv(new)["sold"].tolist()
    assert (rows["upper_0.95"] - rows["lower_0.95"] > rows["upper_0.5"] - rows["lower_0.5"]).all()
    nameless = write(pd.read_csv(new).drop(columns="key"), tmp_path / "nameless.csv")
    call_json("predict", model, nameless, "--out", out)
    assert "key" not in read_table(out)
