"""`predict`: new rows with the model of a run, in any format and in any batches."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from table_files import QUICK, call, call_json, refuse, write

from localconformal.io.models import load_model, save_model
from localconformal.io.tables import read_table
from registry import homes


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("batch", [7, 50, 10_000])
def test_batches_and_formats_do_not_matter(model, new, tmp_path, suffix, batch):
    out = tmp_path / f"made{suffix}"
    document = call_json("predict", model, new, "--out", out, "--batch-rows", batch)
    rows, raw = read_table(out), read_table(new)
    assert document["rows"] == len(rows) == len(raw)
    assert document["file"] == str(out)
    assert document["target"] == "price"
    assert rows["row"].tolist() == list(range(len(raw)))
    with pytest.warns(UserWarning, match="50 values of 'region'"):
        expected = load_model(model).predict_interval(raw)
    # Products of matrices round as their sizes want.
    np.testing.assert_allclose(rows[["lower_0.9", "upper_0.9"]], expected, rtol=1e-12)


def test_files_compressed_ones_and_folders_are_read_alike(model, new, tmp_path):
    raw, parts = pd.read_csv(new), tmp_path / "parts"
    parts.mkdir()
    raw.to_csv(tmp_path / "new.csv.gz", index=False)
    raw.to_parquet(tmp_path / "new.parquet")
    raw[:20].to_parquet(parts / "a.parquet", index=False)
    raw[20:].to_parquet(parts / "b.parquet", index=False)
    made = []
    for data in (new, tmp_path / "new.csv.gz", tmp_path / "new.parquet", parts):
        call_json("predict", model, data, "--out", tmp_path / "made.csv")
        made.append((tmp_path / "made.csv").read_bytes())
    assert made == made[:1] * 4


def test_names_of_rows_and_levels_are_as_asked(model, new, tmp_path):
    out = tmp_path / "made.csv"
    call_json("predict", model, new, "--id", "sold", "--level", 0.5, "--level", 0.95, "--out", out)
    rows = pd.read_csv(out)
    assert rows["sold"].tolist() == pd.read_csv(new)["sold"].tolist()
    assert (rows["upper_0.95"] - rows["lower_0.95"] > rows["upper_0.5"] - rows["lower_0.5"]).all()
    nameless = write(pd.read_csv(new).drop(columns="key"), tmp_path / "nameless.csv")
    call_json("predict", model, nameless, "--out", out)
    assert "key" not in read_table(out)


def test_values_that_cannot_be_used_are_counted_and_said(model, tmp_path):
    table = homes(20).assign(region="west")
    table.loc[3, "sold"] = "yesterday"
    data = write(table, tmp_path / "other.csv")
    said = call("predict", model, data, "--out", tmp_path / "a.csv").stdout
    assert "20 values of 'region' could not be found among the labels" in said
    assert "1 value of 'sold' could not be read as a time" in said


def test_what_cannot_be_predicted_is_one_sentence(model, new, tmp_path):
    raw = read_table(new)
    missing = write(raw.rename(columns={"size": "Size"}), tmp_path / "missing.csv")
    wrong = raw.astype({"size": object})
    wrong.loc[45, "size"] = "12,5"
    wrong = write(wrong, tmp_path / "wrong.csv")
    linear = save_model(LinearRegression(), tmp_path / "linear.skops")
    half = tmp_path / "half.skops"
    half.write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    for words, *arguments in (
        ("did you mean 'Size'", model, missing),
        ("'12,5' in column 'size' (row 45", model, wrong),
        ("decimal comma", model, wrong, "--batch-rows", 10),
        ("does not exist", tmp_path / "none.skops", new),
        ("LinearRegression; expected the model.skops of a run", linear, new),
        ("not a whole model file", half, new),
        ("'.xlsx'", model, new, "--out", tmp_path / "made.xlsx"),
        ("--level is 2", model, new, "--level", "2"),
    ):
        options = [] if "--out" in arguments else ["--out", tmp_path / "out" / "made.csv"]
        refuse(tmp_path, words, "predict", *arguments, *options)


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
    large = write(pd.concat([read_table(new)] * 1400), tmp_path / "large.csv")
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
def test_ctrl_c_while_a_run_writes_leaves_no_folder(data, new, tmp_path):
    large = write(pd.concat([read_table(new)] * 1400), tmp_path / "large.csv")
    out = tmp_path / "out"

    def is_writing():
        return out.exists() and any(out.glob(".new-intervals-*"))

    arguments = ["run", data, "-t", "price", *QUICK, "--new", large, "--out", out]
    code, errors = interrupted(arguments, tmp_path, is_writing)
    assert code == 130
    assert "Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["large.csv"]
