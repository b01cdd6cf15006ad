"""`run` and `predict` on a folder of Parquet files: rows stay on disk."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from table_files import assert_refused, call, call_json, homes

from distributed import LocalCluster
from localconformal.distributed.parquet import read_folder, row_groups
from localconformal.io.tables import TableError

SETTINGS = ["--model", "linear", "--law", "kernel", "--id", "key", "--target", "price"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files, one of them empty, in several row groups; some rows have no target."""
    made = tmp_path_factory.mktemp("homes")
    table = homes(3_000)
    table.loc[::500, "price"] = np.nan
    table.iloc[:1_100].to_parquet(made / "1.parquet", row_group_size=400, index=False)
    table.iloc[:0].astype(table.dtypes).to_parquet(made / "2.parquet", index=False)
    table.iloc[1_100:].to_parquet(made / "3.parquet", index=False)
    (made / "_metadata").write_text("not a table")
    return made


@pytest.fixture(scope="module")
def done(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    levels = ["--level", 0.8, "--level", 0.9]
    return call_json("run", folder, *SETTINGS, *levels, "--out", out), out


def test_a_folder_is_one_table(folder):
    table = read_folder(folder)
    assert [piece.rows for piece in row_groups(folder)] == [400, 400, 300, 1_900]
    whole = table.compute()
    np.testing.assert_array_equal(whole.index, np.arange(3_000))
    assert whole["key"].tolist() == homes(3_000)["key"].tolist()


def test_run_fits_and_checks_a_folder(done):
    document, out = done
    rows = document["rows"]
    assert rows["input"] == 3_000
    assert rows["with a target"] == 2_994
    assert rows["train"] + rows["calibrate"] + rows["hold out"] == 2_994
    assert "6 of 3,000 rows have no finite 'price': left out." in document["preparation"]
    for row in document["coverage"]:
        assert row["band"][0] - 0.03 <= row["coverage"] <= row["band"][1] + 0.03
    held = pd.read_parquet(out / "intervals.parquet")
    actual = homes(3_000)["price"].to_numpy()[held["row"]]
    np.testing.assert_array_equal(held["actual"], actual)
    assert (out / "report.html").exists()


def test_what_needs_all_rows_in_memory_is_refused(folder, tmp_path):
    out = ["--out", tmp_path / "run"]
    cells = ["--method", "Mondrian", "--groups", "region"]
    for options in (cells, ["--time", "sold"]):
        result = call("run", folder, "--target", "price", *options, *out)
        assert_refused(result, "expected one file")


def test_predict_writes_a_folder_as_a_file_would_be(done, folder, tmp_path):
    _, out = done
    made = call_json("predict", out / "model.skops", folder, "--out", tmp_path / "made")
    assert made["rows"] == 3_000
    whole = tmp_path / "whole.parquet"
    homes(3_000).to_parquet(whole, index=False)
    call_json("predict", out / "model.skops", whole, "--out", tmp_path / "file.parquet")
    files = sorted((tmp_path / "made").iterdir())
    together = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    pd.testing.assert_frame_equal(together, pd.read_parquet(tmp_path / "file.parquet"))


def test_a_folder_that_is_there_is_not_written_over(done, folder, tmp_path):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine.txt").touch()
    model = done[1] / "model.skops"
    assert_refused(call("predict", model, folder, "--out", taken), "is there already")
    assert_refused(call("predict", model, folder), "folder to be made")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_a_file_without_a_column_is_named_and_nothing_is_written(done, folder, tmp_path):
    other = tmp_path / "new"
    other.mkdir()
    table = pq.read_table(folder / "1.parquet").drop_columns(["size"])
    pq.write_table(table, other / "b.parquet")
    result = call("predict", done[1] / "model.skops", other, "--out", tmp_path / "made")
    assert_refused(result, "b.parquet has no column 'size'")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_folder_without_parquet_files_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="a folder of Parquet files was expected"):
        read_folder(tmp_path)


@pytest.mark.ci
def test_commands_run_on_a_cluster_as_on_this_machine(done, folder, tmp_path):
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = ["--cluster", cluster.scheduler_address]
        again = call_json("run", folder, *SETTINGS, *address, "--out", tmp_path / "run")
        assert again["coverage"][0] == done[0]["coverage"][1]
        model = tmp_path / "run" / "model.skops"
        made = call_json("predict", model, folder, *address, "--out", tmp_path / "made")
    assert made["rows"] == 3_000


@pytest.mark.ci
def test_no_scheduler_is_one_sentence_and_nothing_is_written(done, folder, tmp_path):
    address = ["--cluster", "tcp://127.0.0.1:1"]
    result = call("predict", done[1] / "model.skops", folder, *address, "--out", tmp_path / "made")
    assert_refused(result, "no Dask scheduler answers")
    assert list(tmp_path.iterdir()) == []
