"""`run` where things are odd: few rows, wide files, names that clash, places that are closed."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from table_files import QUICK, assert_refused, call, call_json, homes, write

from localconformal.io.tables import read_table

#: Its fit ends in another sentence: what is refused with it is refused before the fit.
UNFITTABLE = ["--method", "slcp", "--law", "kernal"]


@pytest.fixture
def data(tmp_path):
    return write(homes(), tmp_path / "homes.csv")


def words_of(result):
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


class TestInfiniteIntervals:
    def test_they_are_said_and_written(self, tmp_path):
        data = write(homes(47), tmp_path / "few.csv")
        options = ["-t", "price", "--level", 0.95, *QUICK, "--out", tmp_path / "out"]
        result = call("run", data, *options)
        assert "95 % intervals cover 100.0 % of rows held out" in words_of(result)
        assert "mean length inf" in result.stdout
        assert "give more rows" in result.stderr
        assert "conformalize" not in result.stderr
        record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
        assert record["coverage"][0]["mean_length"] == "Infinity"

    def test_compare_says_it_too(self, tmp_path):
        data = write(homes(47), tmp_path / "few.csv")
        options = ["-t", "price", "--level", 0.95, "--model", "linear", "--methods", "split"]
        document = call_json("compare", data, *options, "--out", tmp_path / "out")
        assert any("give more rows" in note for note in document["notes"])


class TestTerminal:
    def test_levels_keep_their_digits(self, data, tmp_path):
        result = call("run", data, "-t", "price", "-l", 0.995, *QUICK, "--out", tmp_path)
        assert "99.5 % intervals" in words_of(result)

    def test_groups_leave_a_line(self, data, tmp_path):
        options = ["--groups", "region", *QUICK, "--out", tmp_path]
        assert "Groups: none of 3 is off" in words_of(call("run", data, "-t", "price", *options))

    def test_a_group_that_is_off_is_named(self, tmp_path):
        frame = homes(3000)
        noise = np.random.default_rng(1).normal(size=len(frame))
        frame["price"] += np.where(frame["region"] == "north", 900, 1) * noise
        data = write(frame, tmp_path / "homes.csv")
        options = ["--features", "size", "--groups", "region", *QUICK, "--out", tmp_path]
        text = words_of(call("run", data, "-t", "price", *options))
        assert "of 3 off by more than chance, the worst" in text
        assert "north" in text.partition("Groups:")[2]

    def test_several_levels_say_which_one_is_audited(self, data, tmp_path):
        levels = ["-l", 0.8, "-l", 0.9]
        text = words_of(call("run", data, "-t", "price", *levels, *QUICK, "--out", tmp_path))
        assert "about 80 %, the first level" in text


class TestFeatures:
    def test_rescue_a_table_that_is_too_wide(self, tmp_path):
        frame = homes()[["price", "size"]].fillna(50.0)
        more = pd.DataFrame(np.ones((400, 3000)), columns=[f"c{j}" for j in range(3000)])
        data = write(pd.concat([frame, more], axis=1), tmp_path / "wide.parquet")
        options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
        assert_refused(call("run", data, *options), "--features")
        assert call_json("run", data, *options, "--features", "size")["features"] == ["size"]

    def test_rescue_a_table_with_pictures(self, tmp_path):
        data = write(homes().assign(picture=b"\xff\xd8"), tmp_path / "pictures.parquet")
        options = ["-t", "price", "--id", "key", "--groups", "region", *QUICK, "--out", tmp_path]
        assert_refused(call("run", data, *options), "--features")
        document = call_json("run", data, *options, "--features", "size,region")
        assert document["features"] == ["size", "region"]


class TestNamesOfRows:
    @pytest.mark.parametrize("suffix", [".csv", ".parquet"])
    def test_long_integers_keep_their_digits_here_and_in_new_rows(self, tmp_path, suffix):
        uids = [str(10**24 + i) for i in range(400)]
        data = tmp_path / f"homes{suffix}"
        write(homes().assign(key=uids), data)
        new = shutil.copy(data, tmp_path / f"new{suffix}")
        out = tmp_path / "out"
        call_json("run", data, "-t", "price", "--id", "key", "--new", new, *QUICK, "--out", out)
        held, later = (read_table(out / f"{p}intervals.parquet") for p in ("", "new-"))
        assert held["key"].tolist() == [uids[row] for row in held["row"]]
        assert later["key"].tolist() == uids
        assert held["key"].dtype == later["key"].dtype

    def test_numbers_have_the_same_type_in_both_outputs(self, tmp_path):
        data = write(homes().assign(key=np.arange(400)), tmp_path / "homes.parquet")
        out = tmp_path / "out"
        call_json("run", data, "-t", "price", "--id", "key", "--new", data, *QUICK, "--out", out)
        held, later = (read_table(out / f"{p}intervals.parquet") for p in ("", "new-"))
        assert held["key"].tolist() == later["key"].iloc[held["row"]].tolist()

    @pytest.mark.parametrize("name", ["row", "actual", "predicted", "lower", "upper"])
    def test_those_of_the_results_are_refused_before_the_fit(self, tmp_path, name):
        data = write(homes().rename(columns={"key": name}), tmp_path / "homes.csv")
        options = ["--id", name, *UNFITTABLE, "--out", tmp_path / "out"]
        result = call("run", data, "-t", "price", *options)
        assert_refused(result, f"called {name!r}")

    def test_predict_refuses_them_too(self, data, tmp_path):
        call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)
        new = write(homes().rename(columns={"key": "row"}), tmp_path / "new.csv")
        out = tmp_path / "made.csv"
        result = call("predict", tmp_path / "model.skops", new, "--id", "row", "--out", out)
        assert_refused(result, "called 'row'")
        assert not out.exists()


class TestBeforeTheFit:
    @pytest.mark.parametrize("share", [0.999, 0.0001])
    def test_parts_that_are_too_small(self, data, tmp_path, share):
        options = ["--test-size", share, *UNFITTABLE, "--out", tmp_path / "out"]
        assert_refused(call("run", data, "-t", "price", *options), "choose another --test-size")

    def test_a_place_below_a_file(self, data, tmp_path):
        options = [*UNFITTABLE, "--out", data / "below"]
        assert_refused(call("run", data, "-t", "price", *options), "is no folder")

    def test_new_rows_that_are_not_there(self, data, tmp_path):
        options = ["--new", tmp_path / "none.csv", *UNFITTABLE, "--out", tmp_path / "out"]
        assert_refused(call("run", data, "-t", "price", *options), "none.csv does not exist")


class TestNewRows:
    def test_that_lack_columns_are_refused_by_their_file(self, data, tmp_path):
        new = write(homes(5).drop(columns=["size", "price"]), tmp_path / "new.csv")
        options = [*UNFITTABLE, "--new", new, "--out", tmp_path / "out"]
        result = call("run", data, "-t", "price", *options)
        assert_refused(result, "new.csv has no column 'size'")
        assert not result.stderr.startswith(str(data))

    def test_may_lack_columns_that_are_not_used(self, data, tmp_path):
        new = write(homes(5).drop(columns=["key", "price"]), tmp_path / "new.csv")
        document = call_json("run", data, "-t", "price", *QUICK, "--new", new, "--out", tmp_path)
        assert len(read_table(document["files"]["new intervals"])) == 5


class TestValues:
    def test_infinite_ones_are_counted_in_all_rows(self, tmp_path):
        frame = homes()
        frame.loc[::100, "size"] = np.inf
        data = write(frame, tmp_path / "homes.parquet")
        notes = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)["preparation"]
        assert any(note.startswith("4 values of 'size' could not be used") for note in notes)

    @pytest.mark.parametrize(
        ("value", "words"),
        [("1,5", "decimal comma"), ("1,234.5", "between thousands"), ("1 234", "stand apart")],
    )
    def test_a_target_written_otherwise_is_named_with_its_file_row_and_cause(
        self, tmp_path, value, words
    ):
        frame = homes()
        frame["price"] = frame["price"].astype(str)
        frame.loc[7, "price"] = value
        data = write(frame, tmp_path / "homes.csv")
        result = call("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
        assert_refused(result, f"homes.csv: the target 'price' holds {value!r} (row 7")
        assert words in result.stderr

    def test_a_feature_with_decimal_commas_is_said(self, tmp_path):
        frame = homes()
        frame["size"] = frame["size"].map(lambda v: f"{v:.1f}".replace(".", ","), "ignore")
        data = write(frame, tmp_path / "homes.csv")
        notes = call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)["preparation"]
        assert any("decimal comma" in note and "'size'" in note for note in notes)

    def test_one_time_that_is_none_is_said_in_the_singular(self, data, tmp_path):
        call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)
        frame = homes(20)
        frame.loc[3, "sold"] = "yesterday"
        new = write(frame, tmp_path / "new.csv")
        result = call("predict", tmp_path / "model.skops", new, "--out", tmp_path / "made.csv")
        assert "1 value of 'sold' could not be read as a time" in words_of(result)

    def test_a_text_in_later_rows_is_named_with_its_row_and_cause(self, data, tmp_path):
        call_json("run", data, "-t", "price", *QUICK, "--out", tmp_path)
        frame = homes(20)
        frame["size"] = frame["size"].astype(str)
        frame.loc[4, "size"] = "12,5"
        new = write(frame, tmp_path / "new.csv")
        result = call("predict", tmp_path / "model.skops", new, "--out", tmp_path / "made.csv")
        assert_refused(result, "'12,5' in column 'size' (row 4")
        assert "decimal comma" in result.stderr
