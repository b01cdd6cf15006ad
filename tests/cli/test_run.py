import json
import os
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import skops
from sklearn.ensemble import ExtraTreesRegressor
from table_files import QUICK, assert_refused, call, call_json, homes, write

import localconformal
from localconformal.cli.run import path_lines
from localconformal.io.models import load_model, save_model
from localconformal.io.tables import read_table
from localconformal.workflow import running

FILES = {
    "intervals.parquet",
    "intervals.csv",
    "report.html",
    "model.skops",
    "run.json",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def data(folder):
    return write(homes(), folder / "homes.csv")


@pytest.fixture(scope="module")
def done(folder, data):
    new = write(homes(50, seed=1).drop(columns="price").assign(region="west"), folder / "new.csv")
    out = folder / "made" / "out"
    options = ["--target", "price", "--id", "key", "--groups", "region", "--new", new]
    return call("run", data, *options, "--level", 0.9, "--level", 0.5, *QUICK, "--out", out), out


class TestFiles:
    def test_all_of_them_and_nothing_else(self, done):
        result, out = done
        assert result.exit_code == 0, result.stderr
        new = {"new-intervals.parquet", "new-intervals.csv"}
        assert {path.name for path in out.iterdir()} == FILES | new

    def test_intervals_keep_row_ids_and_values(self, done, data):
        _, out = done
        rows, raw = read_table(out / "intervals.parquet"), read_table(data)
        assert list(rows)[:4] == ["row", "key", "actual", "predicted"]
        assert rows["key"].tolist() == raw["key"].iloc[rows["row"]].tolist()
        np.testing.assert_array_equal(rows["actual"], raw["price"].iloc[rows["row"]])
        assert len(rows) == 80

    def test_csv_says_the_same_without_formulas(self, done):
        _, out = done
        rows, text = read_table(out / "intervals.parquet"), read_table(out / "intervals.csv")
        pd.testing.assert_frame_equal(text.drop(columns="key"), rows.drop(columns="key"))
        assert not text["key"].str.startswith(("=", "+", "-", "@")).any()
        assert text["key"].str.lstrip("'").tolist() == rows["key"].tolist()

    def test_new_rows_are_predicted_in_their_order(self, done, folder):
        _, out = done
        rows = read_table(out / "new-intervals.parquet")
        assert rows["row"].tolist() == list(range(50))
        assert rows["key"].tolist() == read_table(folder / "new.csv")["key"].tolist()
        model = load_model(out / "model.skops")
        expected = model.predict_interval(read_table(folder / "new.csv"), [0.9, 0.5])
        np.testing.assert_array_equal(rows["lower_0.9"], expected[:, 0, 0])
        np.testing.assert_array_equal(rows["upper_0.5"], expected[:, 1, 1])

    def test_the_report_is_a_page_about_this_run(self, done):
        _, out = done
        page = (out / "report.html").read_text(encoding="utf-8")
        assert page.startswith("<!doctype html>")
        assert "price" in page
        # What was done to the table.
        assert "Read as a time" in page

    def test_the_record_has_all_that_it_takes_to_do_it_again(self, done):
        _, out = done
        record = json.loads((out / "run.json").read_text(encoding="utf-8"))
        assert record["versions"]["localconformal"] == localconformal.__version__
        assert shlex.split(record["command"])[0] == "localconformal"
        assert record["task"]["settings"]["seed"] == 0
        assert record["seconds"]["fit and calibrate"] > 0
        assert record["rows"]["input"] == 400
        assert any("Read as a time" in note for note in record["preparation"])
        assert record["guarantee"]["finite_sample"] is True
        low, high = record["coverage"][0]["band"]
        assert low < 0.9 < high
        assert set(record["files"].values()) == {path.name for path in out.iterdir()}


class TestTerminal:
    def test_the_summary_has_rows_coverage_notes_and_paths(self, done):
        result, out = done
        for words in ("400 rows", "90 % intervals cover", "50 % intervals cover", "held out"):
            assert words in result.stdout
        assert "values of 'region' could not be found among the labels" in " ".join(
            result.stdout.split()
        )
        assert str(out / "report.html") in result.stdout
        assert "\x1b" not in result.stdout
        assert result.stderr == ""

    def test_json_is_one_document(self, data, tmp_path):
        document = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)
        assert document["files"]["report"] == str(tmp_path / "report.html")
        assert document["task"]["target"] == "price"

    def test_a_seed_gives_the_same_files(self, data, tmp_path):
        for name in ("first", "second"):
            call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path / name, "--seed", 3)
        for file in ("intervals.csv", "intervals.parquet"):
            assert (tmp_path / "first" / file).read_bytes() == (
                tmp_path / "second" / file
            ).read_bytes()


class TestOptions:
    def test_features_come_with_commas_or_repeated(self, tmp_path):
        data = write(homes(800), tmp_path / "homes.csv")
        ways = (["--features", "size,region"], ["--features", "size", "--features", "region"])
        found = [
            call_json("run", data, "-t", "price", *way, *QUICK, "--out", tmp_path)["features"]
            for way in ways
        ]
        assert found == [["size", "region"]] * 2

    def test_a_model_of_ones_own(self, data, tmp_path):
        path = save_model(ExtraTreesRegressor(5, random_state=0), tmp_path / "mine.skops")
        options = ["--method", "split", "--model", path, "--out", tmp_path / "out"]
        document = call_json("run", data, "-t", "price", *options)
        model = load_model(document["files"]["model"]).regressor
        assert type(model.score_.model_.steps[-1][1]) is ExtraTreesRegressor

    @pytest.mark.parametrize("law", ["kernel", "forest"])
    def test_a_law(self, data, tmp_path, law):
        options = ["--model", "linear", "--law", law, "--out", tmp_path]
        document = call_json("run", data, "-t", "price", *options)
        assert document["task"]["settings"]["law"] == law

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--level", "1.5"], "--level is 1.5"),
            (["--test-size", "0"], "--test-size is 0"),
            (["--model", "hbg"], "did you mean hgb"),
            (["--method", "slpc"], "did you mean slcp"),
            (["--method", "split", "--law", "kernel"], "has no law"),
            (["--law", "kernal", "--model", "linear"], "law"),
            (["--features", "sise"], "did you mean 'size'"),
            (["--id", "kye"], "did you mean 'key'"),
            (["--groups", "regio"], "did you mean 'region'"),
            (["--new", "none.csv", *QUICK], "none.csv does not exist"),
        ],
    )
    def test_what_cannot_be_meant_is_refused(self, data, tmp_path, options, words):
        result = call("run", data, "-t", "price", "--out", tmp_path / "out", *options)
        assert_refused(result, words)
        assert not list(tmp_path.iterdir())


DATA = Path(os.environ.get("LOCALCONFORMAL_DATA", "../shared/data"))
BIKE = "datetime,season,holiday,workingday,weather,temp,atemp,humidity,windspeed"
#: name -> (target, options): what each set is used for.
REAL = {
    "bike": ("count", ["--features", BIKE, "--groups", "weather"]),
    "concrete": ("Concrete compressive strength(MPa, megapascals) ", []),
    "star": ("math3", ["--groups", "ethnicity"]),
}


def run_on_real_data(name, suffix, folder, rows, options):
    if not (DATA / f"{name}.parquet").exists():
        pytest.skip(f"no {name}.parquet in LOCALCONFORMAL_DATA")
    target, own = REAL[name]
    frame = pd.read_parquet(DATA / f"{name}.parquet")
    frame = frame.sample(min(rows, len(frame)), random_state=0)
    data = write(frame.reset_index(drop=True), folder / f"{name}{suffix}")
    return call_json("run", data, "-t", target, *own, *options, "--out", folder / "out")


def assert_sound(document, folder):
    (row,) = document["coverage"]
    assert row["band"][0] <= row["coverage"] <= row["band"][1]
    rows = read_table(folder / "out" / "intervals.parquet")
    inside = (rows["lower"] <= rows["actual"]) & (rows["actual"] <= rows["upper"])
    assert inside.mean() == pytest.approx(row["coverage"])
    page = (folder / "out" / "report.html").read_text(encoding="utf-8")
    assert f"{100 * row['coverage']:.1f} %" in page


@pytest.mark.ci
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_real_data_are_covered_within_the_band(name, suffix, tmp_path):
    options = ["--model", "linear", "--law", "kernel"]
    assert_sound(run_on_real_data(name, suffix, tmp_path, 1500, options), tmp_path)


@pytest.mark.ci
@pytest.mark.parametrize(("name", "suffix"), [("bike", ".csv"), ("concrete", ".parquet")])
def test_real_data_in_full_with_the_defaults(name, suffix, tmp_path):
    assert_sound(run_on_real_data(name, suffix, tmp_path, 10**6, []), tmp_path)


def test_the_size_of_a_large_file_is_told(tmp_path):
    paths = {"model": tmp_path / "model.skops", "record": tmp_path / "run.json"}
    for path, size in zip(paths.values(), (324_000_000, 10_000), strict=True):
        with path.open("wb") as file:
            file.truncate(size)
    large, small = path_lines(paths)
    assert large.endswith("model.skops (324 MB)")
    assert small.endswith("run.json")


def test_a_skops_that_could_not_save_the_model_is_told_before_the_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(skops, "__version__", "0.11.0")
    monkeypatch.setattr(running, "fit_table_model", lambda *_, **__: pytest.fail("it was fitted"))
    data = write(homes(), tmp_path / "homes.csv")
    result = call("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
    assert_refused(result, "skops 0.11.0 is installed")


def test_rows_split_by_time_are_said_in_every_place(data, tmp_path):
    """The column need not be a feature."""
    options = ["--target", "price", "--features", "size", "--time", "sold", *QUICK]
    result = call("run", data, *options, "--out", tmp_path)
    assert result.exit_code == 0, result.stderr
    words = "Rows are split in the order of 'sold'"
    assert words in result.stdout
    assert any(note.startswith(words) for note in read_json(tmp_path)["preparation"])
    assert "in the order of" in (tmp_path / "report.html").read_text(encoding="utf-8")
    sold, held = read_table(data)["sold"], read_table(tmp_path / "intervals.parquet")["row"]
    assert sold[held].min() >= sold.drop(held).max()


def test_verbose_names_each_stage_on_standard_error(data, tmp_path):
    options = ["--target", "price", *QUICK]
    told = call("run", data, *options, "--verbose", "--out", tmp_path / "told")
    silent = call("run", data, *options, "--out", tmp_path / "silent")
    for words in ("1/4 reading", "SplitConformalRegressor: train", "4/4 writing"):
        assert words in told.stderr
    assert silent.stderr == ""
    assert told.stdout.replace("told", "silent") == silent.stdout


def read_json(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))
