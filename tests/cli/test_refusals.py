"""What cannot be done is one sentence and exit code 2, and every file is as it was before."""

import shutil

import pytest
import skops
from sklearn.linear_model import LinearRegression
from table_files import QUICK, UNFITTABLE, call_json, refuse, write

from localconformal.io.models import save_model
from localconformal.tabular import run as running
from registry import homes

COLUMNS = ",".join(homes(1))
ROW = ",".join("1" for _ in homes(1))
#: (file name, its content, words of the sentence); the tests of tables have all that is wrong.
UNREADABLE = [
    ("t.csv", None, "does not exist"),
    ("t.csv", f"{COLUMNS}\n", "no rows"),
    ("t.csv", f"{COLUMNS}\n{ROW}\n".replace(",", ";"), "by semicolons"),
    ("t.parquet", "PAR1", "not a complete Parquet file"),
    ("t.xlsx", "PK", "'.xlsx'"),
]


@pytest.mark.parametrize(("name", "content", "words"), UNREADABLE)
def test_tables_that_cannot_be_read(name, content, words, data, model, tmp_path):
    path, out = tmp_path / name, tmp_path / "out"
    if content is not None:
        path.write_text(content)
    refuse(tmp_path, words, "predict", model, path, "--out", out / "made.csv")
    refuse(tmp_path, words, "run", path, "-t", "price", *UNFITTABLE, "--out", out)
    # That there are no rows is found when they are read, after the fit.
    fit = QUICK if words == "no rows" else UNFITTABLE
    refuse(tmp_path, words, "run", data, "-t", "price", *fit, "--new", path, "--out", out)


OPTIONS = [("run --level 1.5", "--level is 1.5;"), ("run --test-size 0", "--test-size is 0;")]
OPTIONS += [("run --model hbg", "did you mean hgb"), ("run --method split", "has no law")]
OPTIONS += [("run --features sise", "did you mean 'size'"), ("run --id kye", "did you mean 'key'")]
OPTIONS += [("run --out {data}/below", "is not a folder")]
OPTIONS += [("compare --level 90", "--level is 90; expected a number inside (0, 1), such as 0.9.")]
OPTIONS += [("run --groups key", "expected groups of several rows each: choose a column with")]
OPTIONS += [("compare --methods slpc", "did you mean slcp?")]
OPTIONS += [("compare --features size,w", "no column 'w'")]


@pytest.mark.parametrize(("asked", "words"), OPTIONS)
def test_options_are_refused_before_the_fit(asked, words, data, tmp_path):
    command, *asked = asked.format(data=data).split()
    own = UNFITTABLE if command == "run" else ["--methods", "split", "--model", "linear"]
    out = ["--out", tmp_path / "out"]
    refuse(tmp_path, words, command, data, "-t", "price", *own, *out, *asked)


def test_new_rows_that_lack_columns_are_refused_by_their_file(data, tmp_path):
    new = write(homes(5).drop(columns=["size", "price"]), tmp_path / "new.csv")
    options = ["-t", "price", *UNFITTABLE, "--new", new, "--out", tmp_path / "out"]
    said = refuse(tmp_path, "new.csv has no column 'size'", "run", data, *options)
    assert not said.startswith(str(data))


def test_a_package_too_old_to_save_the_model_and_too_little_memory(data, tmp_path, monkeypatch):
    options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
    with monkeypatch.context() as patch:
        patch.setattr(skops, "__version__", "0.11.0")
        patch.setattr(running, "fit_task", lambda *_, **__: pytest.fail("it was fitted"))
        refuse(tmp_path, "skops 0.11.0 is installed", "run", data, *options)

    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("localconformal.io.tables.read_table", fail)
    refuse(tmp_path, "does not fit into memory", "run", data, *options)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1,5", "decimal comma"),
        ("1,234.5", "between thousands"),
        ("1 234", "gaps between thousands"),
    ],
)
def test_numbers_written_otherwise_are_told_with_their_cause(value, words, tmp_path):
    frame = homes().astype({"price": str})
    frame.loc[7, "price"] = value
    data = write(frame, tmp_path / "homes.csv")
    options = ["-t", "price", *QUICK, "--out", tmp_path / "out"]
    target = f"homes.csv: the target 'price' holds {value!r} (row 7"
    assert words in refuse(tmp_path, target, "run", data, *options)


def test_what_cannot_be_predicted(model, new, tmp_path):
    wrong = homes(50).astype({"size": object})
    wrong.loc[45, "size"] = "12,5"
    wrong = write(wrong, tmp_path / "wrong.csv")
    linear = save_model(LinearRegression(), tmp_path / "linear.skops")
    for words, *arguments in (
        ("'12,5' in column 'size' (row 45", model, wrong),
        ("decimal comma", model, wrong, "--batch-rows", 10),
        ("LinearRegression; expected the model.skops of a run", linear, new),
        ("'.xlsx'", model, new, "--out", tmp_path / "made.xlsx"),
        ("--level is 2;", model, new, "--level", "2"),
    ):
        options = [] if "--out" in arguments else ["--out", tmp_path / "out" / "made.csv"]
        refuse(tmp_path, words, "predict", *arguments, *options)


@pytest.fixture
def place(done, data, tmp_path, monkeypatch):
    """A folder with a run, its table, a folder of Parquet files and links; we are in it."""
    shutil.copytree(done[1], tmp_path / "out")
    shutil.copy(data, tmp_path / "homes.csv")
    shutil.copy(data, tmp_path / "compare.csv")
    (tmp_path / "parts").mkdir()
    write(homes(), tmp_path / "parts" / "intervals.parquet")
    (tmp_path / "link.csv").symlink_to("homes.csv")
    (tmp_path / "audit.json").symlink_to("out/intervals.csv")
    (tmp_path / "other").symlink_to("out", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


PREDICT = "predict out/model.skops"
BOUNDS = "--y actual --lower lower_0.9 --upper upper_0.9"


@pytest.mark.parametrize(
    "command",
    [
        f"{PREDICT} homes.csv --out homes.csv",
        f"{PREDICT} homes.csv --out {{}}/homes.csv",
        f"{PREDICT} homes.csv --out link.csv",
        f"{PREDICT} parts --out parts/made.csv",
        # What cannot be fitted: a refusal of the output comes before it is looked at.
        "run out/intervals.csv -t none --out parts/../out",
        "run out/intervals.csv -t none --out other",
        "run parts -t none --out parts/deep/in",
        "run homes.csv -t none --new out/intervals.csv --out out",
        "run homes.csv -t none --model out/model.skops --out out",
        "compare compare.csv -t none --out .",
        f"audit out/intervals.csv {BOUNDS} --out .",
    ],
)
def test_an_input_is_not_written_over(place, command):
    refuse(place, "which is only read; choose another place", *command.format(place).split())


def test_results_of_before_are_replaced(place):
    before = (place / "out" / "intervals.csv").read_bytes()
    call_json("predict", "out/model.skops", "homes.csv", "--out", "out/intervals.csv")
    assert (place / "out" / "intervals.csv").read_bytes() != before
