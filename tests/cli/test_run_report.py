"""What `run` and its page say of the point model and of groups; one page for one seed."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from table_files import QUICK, call, homes, write

from localconformal.audit.accuracy import accuracy
from localconformal.io.tables import read_table

RUN = "from localconformal.cli import main; main()"


def words_of(result):
    assert result.exit_code == 0, result.stderr
    return " ".join(result.stdout.split())


def page_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    frame = homes().assign(price=lambda frame: 1e4 * frame["price"])
    data = write(frame, folder / "homes.csv")
    return call("run", data, "-t", "price", *QUICK, "--out", folder / "out"), folder / "out"


def test_the_point_models_accuracy_is_said_and_recorded(done):
    result, out = done
    rows = read_table(out / "intervals.csv")
    found = accuracy(rows["actual"], rows["predicted"])
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert record["accuracy"] == pytest.approx(vars(found))
    assert found.r2 > 0.5
    assert found.text in words_of(result)
    assert "no better than a constant" not in words_of(result)
    assert found.text in page_of(out)
    assert 'data-chart="predictions"' in page_of(out)


def test_a_point_model_no_better_than_a_constant_is_told(tmp_path):
    noise = np.random.default_rng(5).normal(size=400)
    data = write(homes().assign(price=noise), tmp_path / "noise.csv")
    result = call("run", data, "-t", "price", *QUICK, "--out", tmp_path / "out")
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert record["accuracy"]["r2"] <= 0.0
    assert "the point model is no better than a constant" in words_of(result)
    assert "the point model is no better than a constant" in page_of(tmp_path / "out")


def test_numbers_are_written_out(done):
    result, _ = done
    assert "e+" not in result.stdout


def test_pages_of_commands_speak_of_options(done, tmp_path):
    _, out = done
    columns = ["--y", "actual", "--lower", "lower", "--upper", "upper"]
    audited = call("audit", out / "intervals.csv", *columns, "--out", tmp_path)
    assert audited.exit_code == 0, audited.stderr
    for page in (page_of(out), page_of(tmp_path)):
        assert "name their columns with --groups" in page
        assert "groups=" not in page
    # Nobody told it what was predicted.
    assert 'data-chart="predictions"' not in page_of(tmp_path)


def test_failures_beyond_those_printed_stand_in_a_file(tmp_path):
    rng = np.random.default_rng(0)
    frame = homes(6000)[["size"]].assign(code=np.arange(6000) % 30, low=-1.0, high=1.0)
    frame["y"] = rng.normal(size=6000) * np.where(frame["code"] < 15, 0.1, 5.0)
    data = write(frame, tmp_path / "rows.csv")
    columns = ["--y", "y", "--lower", "low", "--upper", "high", "--groups", "code"]
    text = words_of(call("audit", data, *columns, "--out", tmp_path / "out"))
    assert f"more: see {tmp_path / 'out' / 'audit.json'}" in text
    assert "frame(" not in text


@pytest.mark.parametrize(("factor", "title"), [(9.0, "fails"), (0.05, "is higher than asked")])
def test_the_side_of_the_target_is_said(tmp_path, factor, title):
    frame = homes(3000)
    noise = np.random.default_rng(1).normal(size=len(frame))
    odd = frame["region"] == "north"
    frame["price"] = 100 * frame["size"].fillna(0) + 900 * np.where(odd, factor, 1.0) * noise
    data = write(frame, tmp_path / "homes.csv")
    options = ["--features", "size", "--groups", "region", *QUICK, "--out", tmp_path / "out"]
    text = words_of(call("run", data, "-t", "price", *options))
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    under = [one for one in record["failures"] if one["gap"] < 0]
    over = [one for one in record["failures"] if one["gap"] > 0]
    north = under if factor > 1 else over
    assert any(one["text"] == "region = north" for one in north)
    count = "1 part" if len(north) == 1 else f"{len(north)} parts"
    assert f"Where coverage {title}: {count} of the data" in text
    assert f">{len(under)} of " in page_of(tmp_path / "out")


@pytest.mark.ci
@pytest.mark.parametrize("options", [["--law", "forest"], ["--method", "mondrian"]], ids=str)
def test_two_processes_make_the_same_page(tmp_path, options):
    data = write(homes(), tmp_path / "homes.csv")
    pages = []
    for seed in ("1", "2"):
        command = ["run", data, "-t", "price", "--groups", "region", *options, "--out", seed]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        arguments = [sys.executable, "-c", RUN, *map(str, command)]
        subprocess.run(arguments, check=True, cwd=tmp_path, env=environment, capture_output=True)
        pages.append((tmp_path / seed / "report.html").read_bytes())
    assert pages[0] == pages[1]
