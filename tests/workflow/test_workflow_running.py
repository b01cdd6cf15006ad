"""A run keeps its parts apart, and its model is the same from a file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression

from localconformal.io.models import ModelFileError, load_model, save_model
from localconformal.io.tables import TableError
from localconformal.regressors.cells import check_cells
from localconformal.workflow.base_models import MODELS, make_base_model
from localconformal.workflow.methods import named_methods
from localconformal.workflow.model import Settings, cell_labels, fit_table_model
from localconformal.workflow.running import Task, coverage_rows, run_record, run_table
from registry import ESTIMATORS

QUICK = Settings(method="split", model="linear")


def homes(n=600, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.uniform(20, 200, n)
    region = rng.choice(["north", "south", "east"], n)
    price = 3 * size + np.where(region == "north", 50, 0) + size * rng.normal(size=n)
    return pd.DataFrame(
        {
            "size": np.where(rng.uniform(size=n) < 0.05, np.nan, size),
            "region": region,
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
            "price": price,
        }
    )


class TestModels:
    @pytest.mark.ci
    @pytest.mark.parametrize("model", MODELS)
    @pytest.mark.parametrize("method", ["split", "cqr"])
    def test_every_base_model_takes_categories_times_and_gaps(self, model, method, tmp_path):
        raw = homes(300)
        X, y = raw.drop(columns="price"), raw["price"].to_numpy()
        settings = Settings(method=method, model=model)
        if (model, method) == ("forest", "cqr"):
            with pytest.raises(ValueError, match="has no quantiles"):
                fit_table_model(X, y, settings)
            return
        fitted = fit_table_model(X, y, settings)
        later = X[:20].assign(region="nowhere", size=np.nan)
        assert np.isfinite(fitted.predict_interval(later)).all()
        again = load_model(save_model(fitted, tmp_path / "model.skops"))
        np.testing.assert_array_equal(
            again.predict_interval(X, [0.5, 0.9]), fitted.predict_interval(X, [0.5, 0.9])
        )

    def test_every_method_has_a_short_name(self):
        assert {method.estimator for method in named_methods()} == set(ESTIMATORS)

    def test_a_model_from_a_file_is_fitted_anew(self, tmp_path):
        raw = homes(300)
        X, y = raw.drop(columns="price"), raw["price"].to_numpy()
        path = save_model(ExtraTreesRegressor(5), tmp_path / "mine.skops")
        fitted = fit_table_model(X, y, Settings(method="split", model=str(path)))
        assert np.isfinite(fitted.predict_interval(X)).all()

    def test_a_file_without_a_regressor_is_one_sentence(self, tmp_path):
        path = save_model(LogisticRegression(), tmp_path / "mine.skops")
        with pytest.raises(ValueError, match="LogisticRegression; a regressor"):
            make_base_model(str(path), "split", 0)
        with pytest.raises(ValueError, match="no model 'hbg'; did you mean hgb"):
            make_base_model("hbg", "split", 0)
        with pytest.raises(ModelFileError, match="does not exist"):
            make_base_model("none.skops", "split", 0)

    def test_a_law_for_a_method_without_one_is_one_sentence(self):
        raw = homes(100)
        with pytest.raises(ValueError, match="has no law"):
            fit_table_model(
                raw[["size"]], raw["price"].to_numpy(), Settings(method="split", law="kernel")
            )


class TestRun:
    def test_parts_are_disjoint_and_add_up(self):
        run = run_table(homes(), Task("price", QUICK))
        rows = run.rows
        assert rows["train"] + rows["calibrate"] + rows["hold out"] == rows["input"] == 600
        assert len(run.table) == rows["hold out"] == 120

    def test_held_out_rows_change_nothing_that_was_learned(self):
        raw = homes()
        first = run_table(raw, Task("price", QUICK))
        held = first.table["row"].to_numpy()
        spoilt = raw.copy()
        spoilt.loc[held, "region"] = "elsewhere"
        spoilt.loc[held, "price"] *= 100
        second = run_table(spoilt, Task("price", QUICK))
        assert second.model.preparation == first.model.preparation
        rest = raw.drop(index=held)
        np.testing.assert_array_equal(
            second.model.predict_interval(rest), first.model.predict_interval(rest)
        )

    def test_calibration_rows_change_nothing_that_was_learned(self):
        raw = homes(400)
        X, y = raw.drop(columns="price"), raw["price"].to_numpy()
        first = fit_table_model(X, y, QUICK)
        assert "elsewhere" not in str(first.preparation)
        for row in range(0, 400, 40):
            changed = X.copy()
            changed.loc[row, "region"] = "elsewhere"
            second = fit_table_model(changed, y, QUICK)
            in_training = "elsewhere" in str(second.preparation)
            same = second.preparation == first.preparation
            assert in_training != same

    def test_rows_keep_their_position_and_their_name(self):
        raw = homes()
        raw["key"] = [f"k{i}" for i in range(len(raw))]
        raw.loc[::7, "price"] = np.nan
        run = run_table(raw, Task("price", QUICK, identifier="key"))
        position = run.table["row"].to_numpy()
        assert run.table["key"].tolist() == raw["key"].iloc[position].tolist()
        np.testing.assert_array_equal(run.table["actual"], raw["price"].iloc[position])
        assert "key" not in run.X
        named = run_table(raw.set_index("key"), Task("price", QUICK))
        assert named.table["key"].tolist() == run.table["key"].tolist()
        assert named.model.identifier == "key"

    def test_the_level_is_kept_within_its_band_on_most_seeds(self):
        inside = []
        for seed in range(8):
            run = run_table(homes(seed=seed), Task("price", QUICK))
            (row,) = coverage_rows(run)
            inside.append(row["band"][0] <= row["coverage"] <= row["band"][1])
        assert sum(inside) >= 6

    def test_levels_are_nested_columns(self):
        settings = Settings(method="split", model="linear", levels=(0.9, 0.5))
        run = run_table(homes(), Task("price", settings))
        found = run.table
        assert (found["lower_0.9"] <= found["lower_0.5"]).all()
        assert (found["upper_0.9"] >= found["upper_0.5"]).all()
        assert [row["level"] for row in coverage_rows(run)] == [0.9, 0.5]

    def test_groups_are_audited_and_are_the_cells_of_mondrian(self):
        settings = Settings(
            method="mondrian", model="linear", features=("size",), groups=("region",)
        )
        run = run_table(homes(1200), Task("price", settings))
        assert list(run.X) == ["size"]
        assert {"north", "south", "east"} <= {
            word for cell in run.audit.groups for word in cell.text.replace("'", " ").split()
        }
        assert run.model.stored_types == {"region": "text", "size": "number"}
        assert run.model.regressor.guarantee_.conditional_on == "cell"

    @pytest.mark.parametrize("method", ["Mondrian", " MONDRIAN ", "MondrianConformalRegressor"])
    def test_the_spelling_of_a_method_decides_nothing(self, method):
        def intervals(name):
            settings = Settings(method=name, model="linear", features=("size",), groups=("region",))
            run = run_table(homes(), Task("price", settings))
            assert run.model.cells == ("region",)
            return run.intervals

        np.testing.assert_array_equal(intervals(method), intervals("mondrian"))

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (Settings(method="Mondrian", model="linear"), "5 bins of predictions"),
            (Settings(method="weighted", model="linear"), "is split conformal prediction"),
        ],
    )
    def test_a_method_that_is_another_one_here_says_so(self, settings, words):
        run = run_table(homes(400), Task("price", settings))
        assert any(words in note for note in run.notes)
        assert set(run.notes) <= set(run.audit.notes)

    def test_a_method_that_was_given_what_it_needs_says_nothing(self):
        assert "is slcp until" in Settings(method="localized").notes()[0]
        assert Settings(method="localized", law="kernel").notes() == ()
        assert Settings(method="mondrian", groups=("region",)).notes() == ()

    def test_a_random_split_of_rows_with_times_says_what_it_assumes(self):
        said = run_table(homes(), Task("price", QUICK)).notes
        assert any("at random" in note and "'sold'" in note for note in said)
        untimed = run_table(homes().drop(columns="sold"), Task("price", QUICK)).notes
        assert not any("at random" in note for note in untimed)

    @pytest.mark.parametrize(
        "written",
        [lambda day: day, lambda day: day.dt.strftime("%d.%m.%Y"), lambda day: day.dt.year],
    )
    def test_by_time_the_last_rows_are_held_out_and_later_ones_calibrate(self, written):
        raw = homes()
        day = raw["sold"]
        raw["sold"] = written(day)
        raw.loc[5, "sold"] = None
        task = Task("price", QUICK, time="sold")
        run = run_table(raw, task)
        held = run.table["row"].to_numpy()
        rest = np.setdiff1d(np.arange(len(raw)), [*held, 5])
        rank = day.dt.year if written(day).dtype.kind == "i" else day
        assert len(held) == 120
        assert rank[held].min() >= rank[rest].max()
        assert run.rows["train"] + run.rows["calibrate"] == len(rest)
        assert not any("at random" in note for note in run.notes)
        said = [note for note in run.notes if "in the order of 'sold'" in note]
        assert len(said) == 1
        record = run_record(run, task)
        assert said[0] in record["preparation"]
        assert said[0] in run.audit.notes
        assert record["task"]["time"] == "sold"
        assert "1 row has no time in 'sold': left out." in run.notes
        several = "Rows of the same time are in more than one part." in said[0]
        assert several == (written(day).dtype.kind == "i")

    def test_a_column_that_orders_no_rows_is_refused_for_time(self):
        with pytest.raises(TableError, match="'sold' holds the same time in all rows"):
            run_table(homes().assign(sold=2019), Task("price", QUICK, time="sold"))

    def test_what_is_learned_by_time_is_learned_from_the_first_rows(self):
        """Labels of later rows are unknown to the model, whatever the order of the table."""
        raw = homes().assign(sold=pd.date_range("2020-01-01", periods=600, freq="D"))
        raw["label"] = np.where(np.arange(600) < 300, "old", "older")
        raw.loc[raw.index >= 360, "label"] = "new"
        mixed = raw.sample(frac=1.0, random_state=0)
        for table in (raw, mixed):
            run = run_table(table, Task("price", QUICK, time="sold"))
            (reader,) = [one for one in run.model.preparation.readers if one.name == "label"]
            assert reader.labels == ("old", "older")

    def test_the_record_is_plain_and_says_what_was_done(self):
        raw = homes()
        raw.loc[:9, "price"] = np.nan
        task = Task("price", QUICK)
        record = run_record(run_table(raw, task), task)
        assert any("10 of 600 rows" in note for note in record["preparation"])
        assert record["versions"]["localconformal"]
        assert record["guarantee"]["marginal"] is True
        assert record["task"]["settings"]["seed"] == 0

    @pytest.mark.parametrize(
        ("task", "words"),
        [
            (Task("prize", QUICK), "did you mean 'price'"),
            (Task("price", Settings(features=("sise",))), "did you mean 'size'"),
            (Task("price", Settings(features=("price",))), "cannot be features"),
            (Task("region", QUICK), "holds 'south' .row 0"),
            (Task("price", QUICK, identifier="key"), "no column 'key'"),
            (Task("price", QUICK, time="solt"), "did you mean 'sold'"),
            (Task("price", QUICK, time="region"), "holds texts such as"),
            (Task("price", QUICK, time="price"), "cannot be split by 'price'"),
        ],
    )
    def test_what_cannot_be_done_is_one_sentence(self, task, words):
        with pytest.raises(ValueError, match=words) as caught:
            run_table(homes(), task)
        assert "\n" not in str(caught.value)

    def test_a_method_that_there_is_not_is_one_sentence(self):
        with pytest.raises(ValueError, match="no method 'nothing'"):
            Settings(method="nothing")

    def test_two_rows_are_too_few(self):
        with pytest.raises(TableError, match=r"has 2 row\(s\)"):
            run_table(homes(2), Task("price", QUICK))


LABELS = [None, "missing", "a", "b", "a | b", "'a' | 'b'", "'a'", "b | a", "", " "]


def test_rows_share_a_cell_only_if_all_their_labels_agree():
    """Also texts that look like a missing value, or like two labels side by side."""
    rows = [(first, second) for first in LABELS for second in LABELS]
    table = pd.DataFrame(rows, columns=["first", "second"], dtype=object)
    for columns in (["first"], ["first", "second"]):
        cells = check_cells(cell_labels(table, columns), len(table))
        distinct = {tuple(row) for row in table[columns].itertuples(index=False)}
        assert len(set(cells)) == len(distinct)
        alone = [check_cells(cell_labels(table[i : i + 1], columns), 1)[0] for i in range(20)]
        assert alone == list(cells[:20])


def test_the_audit_speaks_of_dates():
    done = run_table(homes(), Task("price", QUICK))
    assert str(done.X["sold"].dtype).startswith("datetime64")
    bins = done.audit.frame("features")
    said = bins.loc[bins["text"].str.startswith("sold "), "text"]
    assert len(said)
    assert said.str.contains("20(?:19|20|21)-").all()
