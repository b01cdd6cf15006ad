"""No command writes over what it reads: one sentence, and every input is as it was."""

import os
import shutil

import pytest
from sklearn.linear_model import LinearRegression
from table_files import call_json, refuse, write

from localconformal.io.models import save_model
from registry import homes

#: What cannot be fitted: a refusal of the output comes before it is looked at.
UNREAD = ["-t", "no such column"]
WORDS = "choose another --out"


@pytest.fixture
def place(done, data, tmp_path):
    """A folder with a run, its table, and a folder of Parquet files; we are in it."""
    shutil.copytree(done[1], tmp_path / "out")
    shutil.copy(data, tmp_path / "homes.csv")
    (tmp_path / "parts").mkdir()
    write(homes(), tmp_path / "parts" / "intervals.parquet")
    before = os.getcwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


OVER_INPUTS = {
    "predict the table": ["predict", "out/model.skops", "homes.csv", "--out", "homes.csv"],
    "predict by another path": ["predict", "out/model.skops", "homes.csv", "--out", "{}/homes.csv"],
    "predict into the folder": ["predict", "out/model.skops", "parts", "--out", "parts/made.csv"],
    "run the table": ["run", "out/intervals.csv", *UNREAD, "--out", "out"],
    "run by another path": ["run", "out/intervals.csv", *UNREAD, "--out", "parts/../out"],
    "run the folder": ["run", "parts", *UNREAD, "--out", "parts"],
    "run into the folder": ["run", "parts", *UNREAD, "--out", "parts/deep/in"],
    "run the new rows": ["run", "homes.csv", *UNREAD, "--new", "out/intervals.csv", "--out", "out"],
    "run the model": ["run", "homes.csv", *UNREAD, "--model", "out/model.skops", "--out", "out"],
}


@pytest.mark.parametrize("case", OVER_INPUTS)
def test_an_input_is_not_written_over(place, case):
    refuse(place, WORDS, *(argument.format(place) for argument in OVER_INPUTS[case]))


def test_audit_and_compare_are_no_exceptions_and_links_are_followed(place):
    (place / "compare.csv").write_bytes((place / "homes.csv").read_bytes())
    refuse(place, WORDS, "compare", "compare.csv", *UNREAD, "--out", ".")
    save_model(LinearRegression(), place / "linear.skops")
    (place / "report.html").symlink_to("linear.skops")
    refuse(place, WORDS, "compare", "homes.csv", *UNREAD, "--model", "linear.skops", "--out", ".")
    (place / "audit.json").symlink_to("out/intervals.csv")
    (place / "report.html").unlink()
    names = ["--y", "actual", "--lower", "lower_0.9", "--upper", "upper_0.9"]
    refuse(place, WORDS, "audit", "out/intervals.csv", *names, "--out", ".")
    (place / "link.csv").symlink_to("homes.csv")
    refuse(place, WORDS, "predict", "out/model.skops", "homes.csv", "--out", "link.csv")
    refuse(place, WORDS, "predict", "out/model.skops", "link.csv", "--out", "homes.csv")
    (place / "other").symlink_to("out", target_is_directory=True)
    refuse(place, WORDS, "run", "out/intervals.csv", *UNREAD, "--out", "other")


def test_results_of_before_are_replaced_as_ever(place):
    before = (place / "out" / "intervals.csv").read_bytes()
    call_json("predict", "out/model.skops", "homes.csv", "--out", "out/intervals.csv")
    assert (place / "out" / "intervals.csv").read_bytes() != before
