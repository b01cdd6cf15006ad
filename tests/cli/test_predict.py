"""`predict` and `explain`: new rows with the model of a run, in any format and in any batches."""

import numpy as np
import pandas as pd
import pytest
from table_files import call_json, write

from localconformal.io.models import load_model
from localconformal.io.tables import read_table
from localconformal.tabular import fit_table_model
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


def test_explained_widths_add_up_in_any_batches_at_the_first_level_or_another(model, new, tmp_path):
    out, bounds = tmp_path / "widths.csv", tmp_path / "made.csv"
    for level, batch in ((0.9, 7), (0.5, 50)):
        asked = [] if level == 0.9 else ["--level", level]
        document = call_json("explain", model, new, *asked, "--out", out, "--batch-rows", batch)
        call_json("predict", model, new, "--level", level, "--out", bounds)
        rows, made = pd.read_csv(out), pd.read_csv(bounds)
        parts = rows.drop(columns=["row", "key", "base", "width"])
        assert rows["key"].tolist() == made["key"].tolist()
        np.testing.assert_allclose(rows["base"] + parts.sum(axis=1), rows["width"])
        np.testing.assert_allclose(rows["width"], made["upper"] - made["lower"])
        assert document["mean_sizes"] == pytest.approx(parts.abs().mean().to_dict())


def test_a_feature_may_be_called_row_and_identify_rows(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"row": rng.normal(size=200), "x": rng.normal(size=200)})
    table["y"] = table["row"] + rng.normal(size=200) * np.exp(table["x"])
    model = fit_table_model(table, "y", model="linear", law="kernel")
    data, out = write(table, tmp_path / "table.csv"), tmp_path / "widths.csv"
    found = model.explain_file(data, out, identifier="x")
    rows = pd.read_csv(out)
    assert list(rows) == ["row_", "x_", "row", "x", "base", "width"]
    assert rows["row_"].tolist() == list(range(200))
    assert max(found.sizes, key=found.sizes.get) == "x"
