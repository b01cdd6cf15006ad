"""No command writes over what it reads: one sentence, and every input is as it was."""

import os
import shutil

import pytest
from sklearn.linear_model import LinearRegression
from table_files import QUICK, assert_refused, call, call_json, homes, write

from localconformal.io.models import save_model

#: What cannot be fitted: a refusal of the output comes before it is looked at.
UNREAD = ["-t", "no such column"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    data = write(homes(), folder / "homes.csv")
    call_json("run", data, "-t", "price", *QUICK, "--out", folder / "out")
    return folder


@pytest.fixture
def place(made, tmp_path):
    """A folder with a run, its table, and a folder of Parquet files; we are in it."""
    shutil.copytree(made, tmp_path / "place")
    (tmp_path / "place" / "parts").mkdir()
    write(homes(), tmp_path / "place" / "parts" / "intervals.parquet")
    before = os.getcwd()
    os.chdir(tmp_path / "place")
    yield tmp_path / "place"
    os.chdir(before)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refuse(place, *arguments):
    before = contents(place)
    assert_refused(call(*arguments), "choose another --out")
    assert contents(place) == before


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
    refuse(place, *(argument.format(place) for argument in OVER_INPUTS[case]))


def test_audit_and_compare_are_no_exceptions(place):
    (place / "compare.csv").write_bytes((place / "homes.csv").read_bytes())
    refuse(place, "compare", "compare.csv", *UNREAD, "--out", ".")
    save_model(LinearRegression(), place / "linear.skops")
    (place / "report.html").symlink_to("linear.skops")
    refuse(place, "compare", "homes.csv", *UNREAD, "--model", "linear.skops", "--out", ".")
    (place / "audit.json").symlink_to("out/intervals.csv")
    (place / "report.html").unlink()
    names = ["--y", "actual", "--lower", "lower", "--upper", "upper"]
    refuse(place, "audit", "out/intervals.csv", *names, "--out", ".")


def test_links_are_followed_both_ways(place):
    (place / "link.csv").symlink_to("homes.csv")
    refuse(place, "predict", "out/model.skops", "homes.csv", "--out", "link.csv")
    refuse(place, "predict", "out/model.skops", "link.csv", "--out", "homes.csv")
    (place / "other").symlink_to("out", target_is_directory=True)
    refuse(place, "run", "out/intervals.csv", *UNREAD, "--out", "other")


def test_results_of_before_are_replaced_as_ever(place):
    before = (place / "out" / "intervals.csv").read_bytes()
    call_json("run", "homes.csv", "-t", "price", "--seed", 1, *QUICK, "--out", "out")
    assert (place / "out" / "intervals.csv").read_bytes() != before
    call_json("predict", "out/model.skops", "homes.csv", "--out", "out/intervals.csv")
