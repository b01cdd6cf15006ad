"""A run keeps its parts apart, says what it did, and its files are all there or none."""

import json

import numpy as np
import pandas as pd
import pytest

from localconformal.audit.audit import accuracy
from localconformal.io.models import load_model
from localconformal.io.tables import read_table
from localconformal.tabular import run_table, write_run
from localconformal.tabular.model import Task
from localconformal.text import json_text
from registry import homes

QUICK = {"method": "split", "model": "linear"}


@pytest.fixture(scope="module")
def done():
    table = homes()
    table.loc[::40, "price"] = np.nan
    return run_table(table, "price", identifier="key", confidence_level=[0.9, 0.5], **QUICK), table


def test_parts_add_up_and_rows_keep_their_position_and_their_name(done):
    run, table = done
    rows = run.rows
    assert rows["train"] + rows["calibrate"] + rows["hold out"] == rows["with a target"] == 390
    assert rows["input"] == 400
    assert len(run.table) == rows["hold out"] == 78
    position = run.table["row"].to_numpy()
    assert run.table["key"].tolist() == table["key"].iloc[position].tolist()
    np.testing.assert_array_equal(run.table["actual"], table["price"].iloc[position])
    assert "key" not in run.X
    named = run_table(table.set_index("key"), "price", **QUICK)
    assert named.table["key"].tolist() == run.table["key"].tolist()
    assert named.model.identifier == "key"


def test_the_record_and_the_files_agree_with_the_run(done, tmp_path):
    run, table = done
    record = json.loads(json_text(run.record()))
    assert [row["level"] for row in record["coverage"]] == [0.9, 0.5]
    assert any("10 of 400 rows" in note for note in record["preparation"])
    found = accuracy(run.table["actual"], run.table["predicted"])
    assert record["accuracy"] == pytest.approx(vars(found))
    table.to_parquet(tmp_path / "new.parquet")
    paths, notes = write_run(run, tmp_path / "out", new=tmp_path / "new.parquet")
    assert sorted(paths.values()) == sorted((tmp_path / "out").iterdir())
    pd.testing.assert_frame_equal(read_table(paths["intervals"]), run.table, check_dtype=False)
    model, new = load_model(paths["model"]), read_table(paths["new intervals"])
    bounds = ["lower_0.9", "upper_0.9"]
    np.testing.assert_array_equal(new[bounds], model.predict_interval(table))
    assert (new["key"].tolist(), notes) == (table["key"].tolist(), ())


def test_held_out_rows_change_nothing_that_was_learned():
    table = homes()
    first = run_table(table, "price", **QUICK)
    held, spoilt = first.table["row"].to_numpy(), table.copy()
    spoilt.loc[held, "region"] = "elsewhere"
    spoilt.loc[held, "price"] *= 100
    second = run_table(spoilt, "price", **QUICK)
    assert second.model.preparation.readers_ == first.model.preparation.readers_
    rest = table.drop(index=held)
    np.testing.assert_array_equal(
        second.model.predict_interval(rest), first.model.predict_interval(rest)
    )


def test_groups_are_audited_and_are_the_cells_of_mondrian_in_any_spelling():
    options = {"model": "linear", "features": ["size"], "groups": ["region"]}
    run = run_table(homes(800), "price", method="mondrian", **options)
    assert list(run.X) == ["size"]
    said = " ".join(cell.text for cell in run.audit.groups)
    assert all(region in said for region in ("north", "south", "east"))
    assert run.model.stored_types == {"region": "text", "size": "number"}
    assert run.model.regressor.guarantee_.conditional_on == "cell"
    again = run_table(homes(800), "price", method=" MONDRIAN ", **options)
    np.testing.assert_array_equal(again.intervals, run.intervals)


def test_several_columns_of_groups_are_each_covered_and_the_run_says_so():
    table, options = homes(800), {"model": "linear", "groups": ["region", "new"]}
    run = run_table(table, "price", law="kernel", **options)
    assert run.task.method == "conditional"
    assert any("'region', 'new' overlap" in note for note in run.notes)
    assert run.model.regressor.guarantee_.conditional_on == "group"
    # Rows alone, and as objects, are as they are in the table.
    row = table.drop(columns="price").iloc[:3].to_dict("records")
    expected = run.model.predict_interval(table[:3])
    np.testing.assert_allclose(run.model.predict_interval(row), expected)
    assert run_table(table, "price", method="split", **options).task.method == "split"
    one = Task("price", groups=("region",))
    assert (one.method, one.law) == ("slcp", None)
    assert Task("price", groups=("region", "new")).law == "auto"


@pytest.mark.parametrize("written", ["%Y-%m-%d", "%d.%m.%Y", "%Y"])
def test_by_time_the_last_rows_are_held_out(written):
    table = homes()
    day, is_year = pd.to_datetime(table["sold"]), written == "%Y"
    table["sold"] = day.dt.year if is_year else day.dt.strftime(written)
    table.loc[5, "sold"] = None
    run = run_table(table, "price", time="sold", **QUICK)
    held = run.table["row"].to_numpy()
    rest = np.setdiff1d(np.arange(len(table)), [*held, 5])
    rank = day.dt.year if is_year else day
    assert len(held) == 80
    assert rank[held].min() >= rank[rest].max()
    assert run.rows["train"] + run.rows["calibrate"] == len(rest)
    assert not any("at random" in note for note in run.notes)
    (said,) = [note for note in run.notes if "in the order of 'sold'" in note]
    assert "1 row was left out: no time in 'sold'." in run.notes
    assert ("Some rows of equal time are in different parts." in said) == is_year


def test_what_is_learned_by_time_is_learned_from_the_first_rows():
    """Labels of later rows are unknown to the model, whatever the order of the table."""
    table = homes(600).assign(sold=pd.date_range("2020-01-01", periods=600, freq="D"))
    table["label"] = np.where(np.arange(600) < 300, "old", "older")
    table.loc[table.index >= 360, "label"] = "new"
    run = run_table(table.sample(frac=1.0, random_state=0), "price", time="sold", **QUICK)
    (reader,) = [one for one in run.model.preparation.readers_ if one.name == "label"]
    assert reader.labels == ("old", "older")


def test_predictions_that_are_almost_exact_raise_the_question_of_a_leak():
    table = homes()
    for leak, is_told in ((table["price"] * 2.0, True), (table["size"] * 2.0, False)):
        run = run_table(table.assign(leak=leak), "price", **QUICK)
        assert any("does a feature contain the target" in note for note in run.notes) == is_told


def test_texts_among_numbers_are_told_with_their_row_whichever_part_it_is_in():
    table = homes().astype({"rooms": object, "size": object}).set_index("key")
    plain = run_table(table, "price", **QUICK)
    assert not any("Text among numbers" in note for note in plain.notes)
    held = plain.table["row"].min()
    for row in (held, held + 1, held + 2, held + 3):
        spoilt = table.copy()
        spoilt.iloc[[row, 399], table.columns.get_loc("rooms")] = "2o", "?"
        (told,) = [n for n in run_table(spoilt, "price", **QUICK).notes if "Text among" in n]
        assert f"'rooms' ('2o' in row {row})." in told


BAD = [({"target": "prize"}, "did you mean 'price'"), ({"target": "region"}, "holds '[a-z]+'")]
BAD += [({"features": ["price"]}, "cannot be features"), ({"identifier": "row"}, "called 'row'")]
BAD += [({"test_size": 1.5}, r"test_size is 1.5; expected a number inside \(0, 1\)")]
BAD += [({"test_size": 0.999}, "another test size"), ({"table": homes(2)}, r"has 2 row\(s\)")]
BAD += [({"time": "solt"}, "did you mean 'sold'"), ({"time": "region"}, "holds texts such as")]
BAD += [({"time": "new"}, "holds flags"), ({"time": "price"}, "split by the target 'price'")]
BAD += [({"table": homes().assign(sold=2019), "time": "sold"}, "the same time in all rows")]
BAD += [({"groups": ["region", "key"]}, "'key' as groups, with 80 values in 80 audited rows;")]


@pytest.mark.parametrize(("options", "words"), BAD)
def test_what_cannot_be_done_is_one_sentence(options, words):
    with pytest.raises(ValueError, match=words) as caught:
        run_table(**{"table": homes(), "target": "price", **QUICK, **options})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (np.arange(200) % 7, "'y' is at least 0 and a whole number: if no other value is possible, "
         "support=(0, None) and integer=True would restrict"),
        (np.arange(200) % 7 - 3, "'y' is a whole number: if"),
        (np.arange(200) % 7 / 2, "'y' is at least 0: if"),
        (np.arange(200) % 7 / 2 - 1, ""),
    ],
)  # fmt: skip
def test_values_that_y_may_be_limited_to_are_told_and_change_nothing(column, told):
    table = pd.DataFrame({"x": np.random.default_rng(0).normal(size=200), "y": column})
    plain = run_table(table, "y", **QUICK)
    assert [told in note for note in plain.notes if "would restrict" in note] == [True] * bool(told)
    assert plain.intervals.min() < column.min()
    known = {"support": (column.min(), None), "integer": bool(np.all(column % 1 == 0))}
    run = run_table(table, "y", **known, **QUICK)
    assert run.intervals.min() == column.min()
    assert not any("would restrict" in note for note in run.notes)
