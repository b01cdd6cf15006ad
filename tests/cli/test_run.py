"""`run`: its files, what it says, its options, and tables that are odd."""

import json
import os
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from table_files import QUICK, call, call_json, refuse, words_of, write

import localconformal
from localconformal.io.models import load_model, save_model
from localconformal.io.tables import read_table
from localconformal.tabular import run_table
from localconformal.text import say_number
from registry import homes


def record_of(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def test_all_files_and_nothing_else_and_csv_without_formulas(done):
    result, out = done
    assert result.exit_code == 0, result.stderr
    names = {f"{new}intervals.{kind}" for new in ("", "new-") for kind in ("csv", "parquet")}
    files = {path.name for path in out.iterdir()}
    assert files == {*names, "report.html", "model.skops", "run.json"}
    for name in ("intervals", "new-intervals"):
        rows, text = (read_table(out / f"{name}.{kind}") for kind in ("parquet", "csv"))
        pd.testing.assert_frame_equal(text.drop(columns="key"), rows.drop(columns="key"))
        assert not text["key"].str.startswith(("=", "+", "-", "@")).any()
        assert text["key"].str.lstrip("'").tolist() == rows["key"].tolist()


def test_the_record_has_all_that_it_takes_to_do_it_again(done):
    _, out = done
    record = record_of(out)
    assert record["versions"]["localconformal"] == localconformal.__version__
    assert (shlex.split(record["command"])[0], record["task"]["seed"]) == ("localconformal", 0)
    assert record["seconds"]["fit and calibrate"] > 0
    assert record["rows"]["input"] == 400
    assert record["guarantee"]["finite_sample"] is True
    low, high = record["coverage"][0]["band"]
    assert low < 0.9 < high
    assert set(record["files"].values()) == {path.name for path in out.iterdir()}


def test_intervals_of_new_rows_do_not_outlive_the_model_that_made_them(data, new, tmp_path):
    options = ["run", data, "-t", "price", *QUICK, "--out", tmp_path / "out"]
    call_json(*options, "--new", new)
    (tmp_path / "out" / "notes.txt").write_text("kept")
    left = tmp_path / "out" / "new-intervals.parquet"
    refuse(tmp_path, "which is only read", "run", left, "-t", "lower", "--out", left.parent)
    call_json(*options)
    names = ["intervals.csv", "intervals.parquet", "model.skops", "notes.txt"]
    found = sorted(path.name for path in left.parent.iterdir())
    assert found == [*names, "report.html", "run.json"]


def test_infinite_intervals_and_a_useless_point_model_are_said_and_written(tmp_path):
    noise = np.random.default_rng(2).normal(size=47)
    data = write(homes(47).assign(price=noise), tmp_path / "few.csv")
    options = ["-t", "price", "--level", 0.995, *QUICK, "--out", tmp_path / "out"]
    result = call("run", data, *options)
    assert "99.5 % intervals cover 100.0 % of held-out rows" in words_of(result)
    assert "mean length inf" in result.stdout
    assert "calibrate on more rows" in result.stderr
    record = record_of(tmp_path / "out")
    assert record["coverage"][0]["mean_length"] == "Infinity"
    assert record["accuracy"]["r2"] <= 0.0
    for said in (words_of(result), page_of(tmp_path / "out")):
        assert "point model is no better than a constant" in said


def test_features_with_commas_or_repeated_files_or_folders_give_the_same(data, tmp_path):
    rows, parts = read_table(data), tmp_path / "parts"
    parts.mkdir()
    rows[:150].to_parquet(parts / "a.parquet", index=False)
    rows[150:].to_parquet(parts / "b.parquet", index=False)
    made = []
    for source, features in ((data, ["size,region"]), (parts, ["size", "--features", "region"])):
        options = ["-t", "price", *QUICK, "--seed", 3, "--out", tmp_path / "out", "--features"]
        options += features
        assert call_json("run", source, *options)["features"] == ["size", "region"]
        made.append((tmp_path / "out" / "intervals.csv").read_bytes())
    assert made[0] == made[1]


def test_a_model_of_ones_own_a_law_and_stages(data, tmp_path):
    path = save_model(ExtraTreesRegressor(5, random_state=0), tmp_path / "mine.skops")
    options = ["--features", "size", "--model", path, "--law", "kernel", "--out", tmp_path / "out"]
    told = call("run", data, "-t", "price", "--verbose", *options)
    for words in ("  read", "  fit and calibrate", "SLCPRegressor: train", "  audit", "  write"):
        assert words in told.stderr
    assert record_of(tmp_path / "out")["task"]["law"] == "kernel"
    model = load_model(tmp_path / "out" / "model.skops").regressor
    assert type(model.score_.model_.steps[-1][1]) is ExtraTreesRegressor


@pytest.mark.nightly
@pytest.mark.parametrize("options", [["--law", "forest"], ["--method", "mondrian"]], ids=str)
def test_two_processes_make_the_same_page(data, tmp_path, options):
    main, pages = "from localconformal.cli import main; main()", []
    for seed in ("1", "2"):
        command = ["run", data, "-t", "price", "--groups", "region", *options, "--out", seed]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        arguments = [sys.executable, "-c", main, *map(str, command)]
        subprocess.run(arguments, check=True, cwd=tmp_path, env=environment, capture_output=True)
        pages.append(page_of(tmp_path / seed))
    assert pages[0] == pages[1]


def test_known_values_of_the_target(tmp_path):
    table = homes().assign(rooms=lambda homes: homes["rooms"].clip(1, 4))
    data, out = write(table, tmp_path / "homes.csv"), tmp_path / "out"
    options = ["run", data, "-t", "rooms", *QUICK, "--out", out]
    assert "--support '0,' --integer" in words_of(call(*options))
    document = call_json(*options, "--support", "1,4", "--integer")
    assert document["task"]["support"] == [1.0, 4.0]
    assert not any("--integer" in note for note in document["preparation"])
    for frame in (
        read_table(out / "intervals.csv"),
        load_model(out / "model.skops").predict(table),
    ):
        assert set(np.unique(frame[["lower", "upper"]])) <= {1.0, 2.0, 3.0, 4.0}
    for wrong in ("1", "a,2", "1,2,3"):
        refuse(tmp_path, "expected LOW,HIGH", *options, "--support", wrong)
    refuse(tmp_path, "values outside the support", *options, "--support", "-9,3")


def test_notes_name_options_as_they_are_typed(tmp_path):
    table = homes().assign(copy=lambda homes: 2 * homes["rooms"])
    data = write(table, tmp_path / "homes.csv")
    notes = call_json("run", data, "-t", "rooms", *QUICK, "--out", tmp_path / "out")["preparation"]
    said = " ".join(notes)
    for words in (
        "is possible, --support '0,' --integer would",
        "--time COLUMN",
        "--cv 10",
        "with --features.",
    ):
        assert words in said
    assert "=" not in said
    assert "=" in " ".join(run_table(table, "rooms", method="split", model="linear").notes)


@pytest.mark.ci
def test_one_side(data, tmp_path):
    options = ["run", data, "-t", "price", "--law", "uniform", "--model", "linear"]
    options += ["--out", tmp_path / "out"]
    said = words_of(call(*options, "--sides", "upper"))
    frame, page = read_table(tmp_path / "out" / "intervals.parquet"), page_of(tmp_path / "out")
    bound = f"mean bound {say_number(frame['upper'].mean())}."
    assert re.search(rf"90 % upper bounds cover [^;]*; {bound}", said)
    assert "infinite" not in said
    for words in ("lie within their upper bound", "Upper bounds for price", "Mean bound"):
        assert words in page
    assert "have none" not in page
    assert np.isneginf(frame["lower"]).all()
    assert np.isfinite(frame["upper"]).all()
    assert "one bound per row" in page
    (level,) = call_json(*options, "--sides", "lower")["coverage"]
    frame = read_table(tmp_path / "out" / "intervals.csv")
    assert level["mean_bound"] == pytest.approx(frame["lower"].mean())
    assert level["mean_length"] == "Infinity"
    (cut,) = call_json(*options, "--sides", "lower", "--support", ",1e9")["coverage"]
    assert (read_table(tmp_path / "out" / "intervals.csv")["upper"] == 1e9).all()
    assert cut == level
    assert "lie within their lower bound" in page_of(tmp_path / "out")
    refuse(tmp_path, "There is no side 'above'", *options, "--sides", "above")
    refuse(tmp_path, "has no sides", *options[:4], *QUICK, "--out", tmp_path, "--sides", "upper")


@pytest.mark.ci
def test_the_report_says_which_features_make_intervals_wide_if_asked(data, tmp_path):
    options = ["-t", "price", "--groups", "region", "--method", "mondrian", "--model", "linear"]
    call_json("run", data, *options, "--out", tmp_path)
    assert "Why intervals are wide" not in page_of(tmp_path)
    call_json("run", data, *options, "--explain", "--out", tmp_path)
    named = set(re.findall(r"The widest, row (\d+)", page_of(tmp_path)))
    assert named <= set(read_table(tmp_path / "intervals.parquet")["row"].astype(str))
    assert len(named) == 1


@pytest.mark.ci
def test_folds_are_proposed_for_few_rows_and_set_none_aside(data, tmp_path):
    options = ["run", data, "-t", "price", *QUICK]
    plain = call_json(*options, "--out", tmp_path / "plain")
    assert any("--cv 10" in note for note in plain["preparation"])
    crossed = call_json(*options, "--cv", "4", "--out", tmp_path / "crossed")
    assert not any("--cv 10" in note for note in crossed["preparation"])
    assert crossed["rows"]["train"] == crossed["rows"]["calibrate"] == 320
    assert crossed["coverage"][0]["band"] is None
    assert crossed["guarantee"]["proven_level"] < 0.8
    fitted = load_model(tmp_path / "crossed" / "model.skops")
    made = read_table(tmp_path / "crossed" / "intervals.parquet")
    again = fitted.predict(read_table(data).iloc[made["row"]])
    np.testing.assert_allclose(again["upper"], made["upper"])
    assert "about 0.9" in page_of(tmp_path / "crossed")
    said = words_of(call(*options, "--cv", "4", "--out", tmp_path / "said"))
    assert "320 to train and calibrate" in said
    for message, more in {
        "choose one of loo": ["--cv", "ten"],
        "--cv is 1; expected loo": ["--cv", "1"],
        "which has no cv": ["--cv", "5", "--method", "lcp"],
        "later rows than they score": ["--cv", "5", "--time", "sold"],
    }.items():
        refuse(tmp_path, message, *options, *more)
