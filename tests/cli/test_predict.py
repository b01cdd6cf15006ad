import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from table_files import QUICK, assert_refused, call, call_json, homes, write

from localconformal.io.models import load_model, save_model
from localconformal.io.tables import read_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("predict")


@pytest.fixture(scope="module")
def model(folder):
    data = write(homes(), folder / "homes.csv")
    call_json("run", data, "-t", "price", "--id", "key", *QUICK, "--out", folder / "out")
    return folder / "out" / "model.skops"


@pytest.fixture(scope="module")
def new(folder):
    return write(homes(333, seed=1).drop(columns="price"), folder / "new.csv")


class TestRows:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    @pytest.mark.parametrize("batch", [1, 100, 333, 10_000])
    def test_batches_do_not_matter(self, model, new, tmp_path, suffix, batch):
        if batch == 1:
            new = write(read_table(new)[:20], tmp_path / "few.csv")
        out = tmp_path / f"made{suffix}"
        document = call_json("predict", model, new, "--out", out, "--batch-rows", batch)
        rows, raw = read_table(out), read_table(new)
        assert document["rows"] == len(rows) == len(raw)
        assert rows["row"].tolist() == list(range(len(raw)))
        expected = load_model(model).predict_interval(raw)
        # Products of matrices round as their sizes want.
        np.testing.assert_allclose(rows[["lower", "upper"]], expected, rtol=1e-12)

    @pytest.mark.parametrize("kind", [".csv", ".csv.gz", ".parquet"])
    def test_the_format_of_the_input_does_not_matter(self, model, new, tmp_path, kind):
        path = tmp_path / f"same{kind}"
        raw = pd.read_csv(new)
        raw.to_parquet(path) if kind == ".parquet" else raw.to_csv(path, index=False)
        for data, out in ((path, "a.parquet"), (new, "b.parquet")):
            call_json("predict", model, data, "--out", tmp_path / out)
        pd.testing.assert_frame_equal(
            read_table(tmp_path / "a.parquet"), read_table(tmp_path / "b.parquet")
        )

    def test_names_of_rows_are_kept(self, model, new, tmp_path):
        call_json("predict", model, new, "--out", tmp_path / "a.parquet")
        assert read_table(tmp_path / "a.parquet")["key"].tolist() == read_table(new)["key"].tolist()
        nameless = write(read_table(new).drop(columns="key"), tmp_path / "nameless.csv")
        call_json("predict", model, nameless, "--out", tmp_path / "b.csv")
        assert "key" not in read_table(tmp_path / "b.csv")
        call_json("predict", model, new, "--id", "region", "--out", tmp_path / "c.csv")
        assert (
            read_table(tmp_path / "c.csv")["region"].tolist() == read_table(new)["region"].tolist()
        )

    def test_levels(self, model, new, tmp_path):
        options = ["--level", 0.5, "--level", 0.95, "--out", tmp_path / "a.csv"]
        call_json("predict", model, new, *options)
        rows = read_table(tmp_path / "a.csv")
        assert (
            rows["upper_0.95"] - rows["lower_0.95"] > rows["upper_0.5"] - rows["lower_0.5"]
        ).all()

    def test_new_labels_are_counted_and_said(self, model, new, tmp_path):
        other = write(read_table(new).assign(region="west"), tmp_path / "other.csv")
        result = call("predict", model, other, "--out", tmp_path / "a.csv")
        assert "333 values of 'region' could not be found among the labels" in result.stdout


class TestRefusals:
    def refuse(self, tmp_path, words, *arguments, out="out/made.csv"):
        before = set(tmp_path.rglob("*"))
        assert_refused(call("predict", *arguments, "--out", tmp_path / out), words)
        assert set(tmp_path.rglob("*")) == before

    def test_a_missing_column(self, model, new, tmp_path):
        table = read_table(new).rename(columns={"size": "Size"})
        self.refuse(tmp_path, "did you mean 'Size'", model, write(table, tmp_path / "t.csv"))

    def test_text_among_numbers_far_down(self, model, new, tmp_path):
        table = pd.concat([read_table(new)] * 30)
        table["size"] = table["size"].astype(object)
        table.iloc[-1, table.columns.get_loc("size")] = "large"
        path = write(table, tmp_path / "t.csv")
        self.refuse(tmp_path, "'large' in column 'size'", model, path)

    def test_no_model(self, new, tmp_path):
        self.refuse(tmp_path, "does not exist", tmp_path / "none.skops", new)

    def test_another_model(self, new, tmp_path):
        path = save_model(LinearRegression(), tmp_path / "linear.skops")
        self.refuse(tmp_path, "LinearRegression; the model.skops of a run", path, new)

    def test_a_tampered_model(self, model, new, tmp_path):
        content = bytearray(model.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path = tmp_path / "model.skops"
        path.write_bytes(bytes(content))
        self.refuse(tmp_path, "was altered", path, new)
        path.write_bytes(bytes(content[: len(content) // 2]))
        self.refuse(tmp_path, "not a whole model file", path, new)

    def test_a_suffix_that_cannot_be_written(self, model, new, tmp_path):
        self.refuse(tmp_path, "'.xlsx'", model, new, out="made.xlsx")

    def test_a_level(self, model, new, tmp_path):
        self.refuse(tmp_path, "--level is 2", model, new, "--level", "2")


def interrupted(arguments, folder, until):
    """Exit code and standard error of a command that gets Ctrl-C once ``until()`` holds."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from localconformal.cli import main; main()", *map(str, arguments)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # A test that itself runs with SIGINT ignored would pass that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not until() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.ci
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_in_the_middle_leaves_the_old_file_and_no_half_of_a_new_one(model, new, tmp_path):
    large = write(pd.concat([read_table(new)] * 200), tmp_path / "large.csv")
    out = tmp_path / "out"
    out.mkdir()
    (out / "made.csv").write_text("old")

    def is_writing():
        return any(path.stat().st_size > 0 for path in out.glob(".made-*.csv"))

    arguments = ["predict", model, large, "--out", out / "made.csv", "--batch-rows", 50]
    code, errors = interrupted(arguments, tmp_path, is_writing)
    assert code == 130
    assert errors.strip() == "Interrupted; nothing was written."
    assert [path.name for path in out.iterdir()] == ["made.csv"]
    assert (out / "made.csv").read_text() == "old"


@pytest.mark.ci
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_while_a_run_writes_leaves_no_folder(model, folder, new, tmp_path):
    large = write(pd.concat([read_table(new)] * 200), tmp_path / "large.csv")
    out = tmp_path / "out"
    data = folder / "homes.csv"

    def is_writing():
        return out.exists() and any(out.glob(".new-intervals-*"))

    arguments = ["run", data, "-t", "price", *QUICK, "--new", large, "--out", out]
    code, errors = interrupted(arguments, tmp_path, is_writing)
    assert code == 130
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.csv"]


def test_json_has_the_file_and_the_rows(model, new, tmp_path):
    result = call("predict", model, new, "--out", tmp_path / "a.csv", "--json")
    document = json.loads(result.stdout)
    assert document["file"] == str(tmp_path / "a.csv")
    assert document["target"] == "price"
