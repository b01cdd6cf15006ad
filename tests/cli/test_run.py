"""`run`: its files, what it says, its options, and tables that are odd."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import skops
from sklearn.ensemble import ExtraTreesRegressor
from table_files import QUICK, UNFITTABLE, call, call_json, refuse, words_of, write

import localconformal
from localconformal.cli.run import path_lines
from localconformal.io.models import load_model, save_model
from localconformal.io.tables import read_table
from localconformal.tabular import run as running
from registry import homes


def record_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


class TestFiles:
    def test_all_of_them_and_nothing_else(self, done):
        result, out = done
        assert result.exit_code == 0, result.stderr
        names = {f"{new}intervals.{kind}" for new in ("", "new-") for kind in ("csv", "parquet")}
        files = {path.name for path in out.iterdir()}
        assert files == {*names, "report.html", "model.skops", "run.json"}

    def test_csv_says_the_same_without_formulas(self, done):
        _, out = done
        for name in ("intervals", "new-intervals"):
            rows, text = (read_table(out / f"{name}.{kind}") for kind in ("parquet", "csv"))
            pd.testing.assert_frame_equal(text.drop(columns="key"), rows.drop(columns="key"))
            assert not text["key"].str.startswith(("=", "+", "-", "@")).any()
            assert text["key"].str.lstrip("'").tolist() == rows["key"].tolist()

    def test_the_report_is_a_page_about_this_run(self, done):
        result, out = done
        page, record = page_of(out), record_of(out)
        assert page.startswith("<!doctype html>")
        assert "price" in page
        # What was done to the table, and how good the point model is.
        assert "Read as a time" in page
        assert 'data-chart="predictions"' in page
        said = f"R2 = {record['accuracy']['r2']:.2g}"
        assert said in page
        assert said in result.stdout
        assert "no better than a constant" not in result.stdout

    def test_the_record_has_all_that_it_takes_to_do_it_again(self, done):
        _, out = done
        record = record_of(out)
        assert record["versions"]["localconformal"] == localconformal.__version__
        assert shlex.split(record["command"])[0] == "localconformal"
        assert record["task"]["settings"]["seed"] == 0
        assert record["seconds"]["fit and calibrate"] > 0
        assert record["rows"]["input"] == 400
        assert record["guarantee"]["finite_sample"] is True
        low, high = record["coverage"][0]["band"]
        assert low < 0.9 < high
        assert set(record["files"].values()) == {path.name for path in out.iterdir()}


class TestTerminal:
    def test_what_a_person_wants_to_know(self, done):
        result, out = done
        said = words_of(result)
        for words in (
            "400 rows: 240 to train, 80 to calibrate, 80 held out",
            "Read as categories",
            "90 % intervals cover",
            "50 % intervals cover",
            "about 90 %, the first level",
            "Where coverage",
            "Groups: ",
            "50 values of 'region' could not be found among the labels",
        ):
            assert words in said
        assert f"Report:                {out / 'report.html'}" in result.stdout
        assert "e+" not in result.stdout
        assert result.stderr == ""

    def test_infinite_intervals_are_said_and_written(self, tmp_path):
        data = write(homes(47), tmp_path / "few.csv")
        options = ["-t", "price", "--level", 0.995, *QUICK, "--out", tmp_path / "out"]
        result = call("run", data, *options)
        assert "99.5 % intervals cover 100.0 % of rows held out" in words_of(result)
        assert "mean length inf" in result.stdout
        assert "calibrate on more rows" in result.stderr
        assert record_of(tmp_path / "out")["coverage"][0]["mean_length"] == "Infinity"

    def test_a_point_model_no_better_than_a_constant_is_told(self, tmp_path):
        noise = np.random.default_rng(2).normal(size=400)
        data = write(homes().assign(price=noise), tmp_path / "noise.csv")
        result = call("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
        assert record_of(tmp_path / "out")["accuracy"]["r2"] <= 0.0
        assert "the point model is no better than a constant" in words_of(result)
        assert "the point model is no better than a constant" in page_of(tmp_path / "out")

    @pytest.mark.parametrize(("factor", "title"), [(9.0, "fails"), (0.05, "is higher than asked")])
    def test_the_side_of_the_target_and_the_worst_group_are_said(self, tmp_path, factor, title):
        frame = homes(3000)
        noise = np.random.default_rng(1).normal(size=len(frame))
        odd = frame["region"] == "north"
        frame["price"] = 100 * frame["size"].fillna(0) + 900 * np.where(odd, factor, 1.0) * noise
        data = write(frame, tmp_path / "homes.csv")
        options = ["--features", "size", "--groups", "region", *QUICK, "--out", tmp_path / "out"]
        text = words_of(call("run", data, "-t", "price", *options))
        failures = record_of(tmp_path / "out")["failures"]
        under = [one for one in failures if one["gap"] < 0]
        north = under if factor > 1 else [one for one in failures if one["gap"] > 0]
        assert any(one["text"] == "region = north" for one in north)
        count = "1 part" if len(north) == 1 else f"{len(north)} parts"
        assert f"Where coverage {title}: {count} of the data" in text
        assert "of 3 off by more than chance, the worst" in text
        assert f">{len(under)} of " in page_of(tmp_path / "out")

    def test_verbose_names_each_stage_on_standard_error(self, data, tmp_path):
        told = call("run", data, "-t", "price", *QUICK, "--verbose", "--out", tmp_path)
        for words in ("1/4 reading", "SplitConformalRegressor: train", "4/4 writing"):
            assert words in told.stderr

    def test_the_size_of_a_large_file_is_told(self, tmp_path):
        paths = {"model": tmp_path / "model.skops", "record": tmp_path / "run.json"}
        for path, size in zip(paths.values(), (324_000_000, 10_000), strict=True):
            with path.open("wb") as file:
                file.truncate(size)
        large, small = path_lines(paths)
        assert large.endswith("model.skops (324 MB)")
        assert small.endswith("run.json")


class TestOptions:
    def test_features_come_with_commas_or_repeated_and_a_seed_gives_the_same(self, data, tmp_path):
        ways = (["--features", "size,region"], ["--features", "size", "--features", "region"])
        for number, way in enumerate(ways):
            options = ["-t", "price", *way, *QUICK, "--seed", 3, "--out", tmp_path / str(number)]
            assert call_json("run", data, *options)["features"] == ["size", "region"]
        one, other = (tmp_path / name / "intervals.csv" for name in "01")
        assert one.read_bytes() == other.read_bytes()

    def test_a_model_of_ones_own(self, data, tmp_path):
        path = save_model(ExtraTreesRegressor(5, random_state=0), tmp_path / "mine.skops")
        options = ["--method", "split", "--model", path, "--out", tmp_path / "out"]
        document = call_json("run", data, "-t", "price", *options)
        model = load_model(document["files"]["model"]).regressor
        assert type(model.score_.model_.steps[-1][1]) is ExtraTreesRegressor

    def test_a_law(self, data, tmp_path):
        options = ["--model", "linear", "--law", "kernel", "--out", tmp_path]
        document = call_json("run", data, "-t", "price", *options)
        assert document["task"]["settings"]["law"] == "kernel"

    def test_a_time_that_need_not_be_a_feature(self, data, tmp_path):
        options = ["--target", "price", "--features", "size", "--time", "sold", *QUICK]
        result = call("run", data, *options, "--out", tmp_path)
        words = "Rows are split in the order of 'sold'"
        assert words in words_of(result)
        assert any(note.startswith(words) for note in record_of(tmp_path)["preparation"])
        assert "in the order of" in page_of(tmp_path)
        sold, held = read_table(data)["sold"], read_table(tmp_path / "intervals.parquet")["row"]
        assert sold[held].min() >= sold.drop(held).max()

    def test_a_folder_of_parquet_files_is_one_table(self, data, tmp_path):
        rows, parts = read_table(data), tmp_path / "parts"
        parts.mkdir()
        rows[:150].to_parquet(parts / "a.parquet", index=False)
        rows[150:].to_parquet(parts / "b.parquet", index=False)
        whole = write(rows, tmp_path / "whole.parquet")
        for source in (parts, whole):
            call_json("run", source, "-t", "price", *QUICK, "--out", tmp_path / f"of {source.name}")
        made = [tmp_path / f"of {name}" / "intervals.csv" for name in ("parts", "whole.parquet")]
        assert made[0].read_bytes() == made[1].read_bytes()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--level", "1.5"], "--level is 1.5"),
            (["--test-size", "0"], "--test-size is 0"),
            (["--test-size", "0.999"], "choose another --test-size"),
            (["--model", "hbg"], "did you mean hgb"),
            (["--method", "slpc"], "did you mean slcp"),
            (["--method", "split"], "has no law"),
            (["--model", "linear"], "law"),
            (["--features", "sise"], "did you mean 'size'"),
            (["--id", "kye"], "did you mean 'key'"),
            (["--groups", "regio"], "did you mean 'region'"),
            (["--new", "none.csv"], "none.csv does not exist"),
            (["--out", "{data}/below"], "is no folder"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_before_the_fit(self, data, tmp_path, options, words):
        asked = [option.format(data=data) for option in options]
        out = ["--out", tmp_path / "out"]
        refuse(tmp_path, words, "run", data, "-t", "price", *UNFITTABLE, *out, *asked)

    def test_new_rows_that_lack_columns_are_refused_by_their_file(self, data, tmp_path):
        new = write(homes(5).drop(columns=["size", "price"]), tmp_path / "new.csv")
        options = [*UNFITTABLE, "--new", new, "--out", tmp_path / "out"]
        said = refuse(
            tmp_path, "new.csv has no column 'size'", "run", data, "-t", "price", *options
        )
        assert not said.startswith(str(data))

    def test_a_skops_that_could_not_save_the_model_is_told_before_the_fit(
        self, data, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(skops, "__version__", "0.11.0")
        monkeypatch.setattr(running, "fit_settings", lambda *_, **__: pytest.fail("it was fitted"))
        options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
        refuse(tmp_path, "skops 0.11.0 is installed", "run", data, *options)

    def test_a_table_that_does_not_fit_into_memory_is_one_sentence(
        self, data, tmp_path, monkeypatch
    ):
        def fail(*_, **__):
            raise MemoryError

        monkeypatch.setattr("localconformal.io.tables.read_table", fail)
        options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
        refuse(tmp_path, "does not fit into memory", "run", data, *options)


class TestNamesOfRows:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_they_are_texts_in_csv_and_of_their_type_in_parquet(self, tmp_path, suffix):
        keys = [f"{i:03}" for i in range(400)] if suffix == ".csv" else list(range(400))
        data, out = write(homes().assign(key=keys), tmp_path / f"t{suffix}"), tmp_path / "out"
        call_json("run", data, "-t", "price", "--id", "key", "--new", data, *QUICK, "--out", out)
        call_json("predict", out / "model.skops", data, "--out", out / "p.parquet")
        for name in ("intervals", "new-intervals", "p"):
            made = pq.read_table(out / f"{name}.parquet")
            expected = [keys[row] for row in made["row"].to_pylist()]
            assert made["key"].to_pylist() == expected
            kind = made.schema.field("key").type
            assert pa.types.is_integer(kind) == (suffix == ".parquet")

    def test_a_feature_may_name_new_rows_too(self, tmp_path):
        table = homes()[["size", "price", "rooms"]]
        data, out = write(table, tmp_path / "t.parquet"), tmp_path / "out"
        call_json("run", data, "-t", "price", *QUICK, "--out", out)
        options = ["--id", "rooms", "--out", tmp_path / "made.parquet"]
        call_json("predict", out / "model.skops", data, *options)
        made = pq.read_table(tmp_path / "made.parquet")["rooms"]
        assert made.to_pylist() == table["rooms"].tolist()

    def test_those_of_the_results_are_refused_before_the_fit(self, model, tmp_path):
        data = write(homes().rename(columns={"key": "row"}), tmp_path / "homes.csv")
        options = ["-t", "price", "--id", "row", *UNFITTABLE, "--out", tmp_path / "out"]
        refuse(tmp_path, "called 'row'", "run", data, *options)
        out = tmp_path / "made.csv"
        refuse(tmp_path, "called 'row'", "predict", model, data, "--id", "row", "--out", out)


class TestOddTables:
    def test_features_rescue_a_table_that_is_too_wide_or_has_pictures(self, tmp_path):
        frame = homes()[["price", "size"]].fillna(50.0)
        more = pd.DataFrame(np.ones((400, 3000)), columns=[f"c{j}" for j in range(3000)])
        wide = write(pd.concat([frame, more], axis=1), tmp_path / "wide.parquet")
        pictures = write(homes().assign(picture=b"\xff\xd8"), tmp_path / "pictures.parquet")
        for data in (wide, pictures):
            options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
            refuse(tmp_path, "--features", "run", data, *options)
            assert call_json("run", data, *options, "--features", "size")["features"] == ["size"]

    def test_columns_that_tell_nothing_gaps_and_odd_names_do_no_harm(self, tmp_path):
        frame = homes(200).assign(**{'a "b", c': 1.5, "<b>": "x", "gaps": np.nan})
        frame.loc[::3, "price"] = np.nan
        frame.loc[1::50, "size"] = np.inf
        data = write(frame, tmp_path / "odd.parquet")
        document = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
        assert document["rows"]["with a target"] == frame["price"].notna().sum()
        notes = document["preparation"]
        assert any("values of 'size' could not be used, being infinite" in note for note in notes)
        assert "<b>" not in page_of(tmp_path / "out").replace("<body>", "")

    def test_numbers_written_otherwise_are_told_with_their_cause(self, tmp_path):
        for value, words in (
            ("1,5", "decimal comma"),
            ("1,234.5", "between thousands"),
            ("1 234", "stand apart"),
        ):
            frame = homes().astype({"price": str})
            frame.loc[7, "price"] = value
            data = write(frame, tmp_path / "homes.csv")
            options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
            target = f"homes.csv: the target 'price' holds {value!r} (row 7"
            assert words in refuse(tmp_path, target, "run", data, *options)
        frame = homes()
        frame["size"] = frame["size"].map(lambda v: f"{v:.1f}".replace(".", ","), "ignore")
        data = write(frame, tmp_path / "homes.csv")
        notes = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)["preparation"]
        assert any("decimal comma" in note and "'size'" in note for note in notes)


DATA = Path(os.environ.get("LOCALCONFORMAL_DATA", "../shared/data"))
BIKE = "datetime,season,holiday,workingday,weather,temp,atemp,humidity,windspeed"
#: name -> (target, options): what each set is used for.
REAL = {
    "bike": ("count", ["--features", BIKE, "--groups", "weather"]),
    "concrete": ("Concrete compressive strength(MPa, megapascals) ", []),
    "star": ("math3", ["--groups", "ethnicity"]),
}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "suffix", "rows", "options"),
    [
        *((name, ".csv", 1500, ["--model", "linear", "--law", "kernel"]) for name in REAL),
        pytest.param("bike", ".csv", 10**6, [], marks=pytest.mark.nightly),
        ("concrete", ".parquet", 10**6, []),
    ],
)
def test_real_data_are_covered_within_the_band(name, suffix, rows, options, tmp_path):
    if not (DATA / f"{name}.parquet").exists():
        pytest.skip(f"no {name}.parquet in LOCALCONFORMAL_DATA")
    target, own = REAL[name]
    frame = pd.read_parquet(DATA / f"{name}.parquet")
    frame = frame.sample(min(rows, len(frame)), random_state=0)
    data = write(frame.reset_index(drop=True), tmp_path / f"{name}{suffix}")
    out = tmp_path / "out"
    document = call_json("run", data, "-t", target, *own, *options, "--out", out)
    (row,) = document["coverage"]
    assert row["band"][0] <= row["coverage"] <= row["band"][1]
    made = read_table(out / "intervals.parquet")
    inside = (made["lower"] <= made["actual"]) & (made["actual"] <= made["upper"])
    assert inside.mean() == pytest.approx(row["coverage"])
    assert f"{100 * row['coverage']:.1f} %" in page_of(out)


@pytest.mark.ci
@pytest.mark.parametrize("options", [["--law", "forest"], ["--method", "mondrian"]], ids=str)
def test_two_processes_make_the_same_page(data, tmp_path, options):
    main = "from localconformal.cli import main; main()"
    pages = []
    for seed in ("1", "2"):
        command = ["run", data, "-t", "price", "--groups", "region", *options, "--out", seed]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        arguments = [sys.executable, "-c", main, *map(str, command)]
        subprocess.run(arguments, check=True, cwd=tmp_path, env=environment, capture_output=True)
        pages.append((tmp_path / seed / "report.html").read_bytes())
    assert pages[0] == pages[1]
