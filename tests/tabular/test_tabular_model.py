"""A model from a file takes rows as programs have them, and names what it answers."""

import datetime
import json
import logging

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import localconformal
from localconformal.columns import check_cells
from localconformal.io.models import ModelFileError, load_model, save_model
from localconformal.io.tables import TableError, read_table
from localconformal.tabular import fit_table_model
from localconformal.tabular.model import METHODS, Task, cell_labels, make_base_model, method_name
from registry import ESTIMATORS, ci_but, homes, optional

MISSING = (None, float("nan"), pd.NA, pd.NaT)
NAMES = ["predicted", "lower_0.8", "upper_0.8", "lower_0.5", "upper_0.5"]
QUICK = {"method": "split", "model": "linear"}


def rows_of(n, seed):
    X = homes(n, seed).drop(columns=["key", "price"])
    return X.assign(region=np.random.default_rng(seed).choice(["north", "b", "2", "3"], n))


@pytest.fixture(scope="module", params=ci_but(["split"], ["split", "mondrian"]))
def model(request, tmp_path_factory):
    table = rows_of(300, 0).assign(price=homes(300)["price"])
    groups = ["region"] if request.param == "mondrian" else []
    fitted = fit_table_model(
        table, "price", method=request.param, confidence_level=[0.8, 0.5], groups=groups
    )
    return load_model(save_model(fitted, tmp_path_factory.mktemp("model") / "model.skops"))


def test_dicts_columns_and_frames_give_the_same_numbers(model):
    X = rows_of(20, 1)
    whole, records = model.predict(X), X.to_dict("records")
    assert list(whole) == NAMES
    for rows in (
        tuple(records),
        X.to_dict("list"),
        {name: X[name].to_numpy() for name in X},
        X.assign(other=1)[["other", *X.columns[::-1]]],
        pl.from_pandas(X),
    ):
        np.testing.assert_array_equal(model.predict(rows), whole)
        np.testing.assert_array_equal(model.predict_interval(rows), whole[NAMES[1:3]])
    for position, row in enumerate(records[:3]):
        # A dict is a row, also as a request in JSON brings it.
        for sent in (row, json.loads(pd.Series(row, dtype=object).to_json())):
            np.testing.assert_array_equal(model.predict(sent), whole.iloc[[position]])


def test_the_answer_is_of_the_kind_that_asked_and_names_its_levels(model):
    X = rows_of(6, 1).set_index(pd.Index(list("uvwxyz")))
    assert model.predict(X).index.equals(X.index)
    asked = pl.from_pandas(X)
    assert model.predict(asked).columns == NAMES
    assert isinstance(model.predict_interval(asked, 0.9, output="frame"), pl.DataFrame)
    assert isinstance(model.predict(X.to_dict("records")), pd.DataFrame)
    for level in (0.7, [0.7]):
        assert list(model.predict(X, confidence_level=level)) == ["predicted", "lower", "upper"]
    named = model.predict_interval(X, output="frame")
    assert list(named) == ["lower", "upper"]
    np.testing.assert_array_equal(named, model.predict_interval(X))
    two = model.predict_interval(X, [0.5, 0.9], output="frame")
    assert list(two) == ["lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
    with pytest.raises(ValueError, match="'array' or 'frame'"):
        model.predict_interval(X, output="list")


def mixed_rows():
    """Rows whose values are of every type that a program may have for them."""
    rng = np.random.default_rng(0)
    kinds = {
        "size": [lambda v: v, str, np.float32, lambda v: None, int],
        "rooms": [int, float, str, bool, np.int8, lambda v: pd.NA],
        "region": [str, lambda v: 2, lambda v: 2.0, lambda v: True, lambda v: None, np.float64],
        "new": [bool, int, str, lambda v: None, np.bool_],
        "sold": [str, pd.Timestamp, datetime.date.fromisoformat, lambda v: pd.NaT],
    }
    rows = rows_of(12, 2).fillna({"size": 50.0}).assign(region="3").to_dict("records")
    return [
        {name: kinds[name][rng.integers(len(kinds[name]))](row[name]) for name in kinds}
        for row in rows
    ]


@pytest.mark.filterwarnings("ignore:Some intervals are infinite")
@pytest.mark.filterwarnings("ignore:.* could not be found among the labels")
def test_a_row_alone_is_the_row_in_company_and_every_missing_value_is_the_same(model):
    rows = mixed_rows()
    whole, alone = model.predict(rows), pd.concat([model.predict(row) for row in rows])
    np.testing.assert_array_equal(whole, alone)
    np.testing.assert_array_equal(model.predict(rows[::-1]), whole[::-1])
    row = rows_of(1, 3).iloc[0].to_dict()
    for name in row:
        made = model.predict([{**row, name: missing} for missing in MISSING]).to_numpy()
        np.testing.assert_array_equal(made, made[:1].repeat(len(MISSING), axis=0))


def test_what_is_no_row_of_the_model_is_one_sentence(model):
    rows = rows_of(3, 1).to_dict("records")
    lacking = {name: value for name, value in rows[1].items() if name != "region"}
    no_table = "expected a dict, a list of dicts or a frame"
    others = ([], "row", 3, None, [1, 2], np.zeros((2, 5)), [{"size": 1}, 2])
    for given, words in [
        (lacking, "The row has no column 'region'"),
        ({}, "The row has no column .*; it has no columns"),
        ([rows[0], lacking], "Row 1 has no column 'region'"),
        (pd.DataFrame([lacking]), "The table has no column 'region'"),
        ({**rows[0], "size": [1, 2]}, "lists of the same length"),
        *((other, no_table) for other in others),
    ]:
        for call in (model.predict, model.predict_interval):
            with pytest.raises(TableError, match=words) as caught:
                call(given)
            assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="collect"):
        model.predict(pl.from_pandas(rows_of(2, 1)).lazy())


def test_a_file_is_predicted_in_batches_as_its_rows_are(model, tmp_path, caplog):
    rows = rows_of(50, 1)
    rows.to_parquet(tmp_path / "new.parquet")
    with caplog.at_level(logging.INFO, "localconformal"):
        done = model.predict_file(tmp_path / "new.parquet", tmp_path / "a.parquet", batch_rows=20)
    assert "predict 3: 50 rows" in caplog.text
    made = read_table(tmp_path / "a.parquet")
    assert (done.rows, list(made)) == (50, ["row", *NAMES])
    np.testing.assert_allclose(made[NAMES], model.predict(rows), rtol=1e-12)


def test_every_estimator_has_one_short_name():
    assert {getattr(localconformal, name) for name in METHODS.values()} == set(ESTIMATORS)
    for short, estimator in METHODS.items():
        assert {method_name(name) for name in (short, short.upper(), estimator)} == {short}


LEVELS = [((), "got no confidence_level"), ([0.9, 3], "confidence_level is 3")]
UNFITTABLE = [({"confidence_level": levels}, words) for levels, words in LEVELS]
UNFITTABLE += [({"features": ["price", "size"]}, "'price' among the features")]
UNFITTABLE += [({"groups": "regio"}, "did you mean 'region'")]
UNFITTABLE += [({"model": LogisticRegression()}, "the model is a LogisticRegression; expected")]
UNFITTABLE += [({"table": homes(50).rename(columns={"size": 0})}, "got the column name 0")]


@pytest.mark.parametrize(("options", "words"), UNFITTABLE)
def test_what_cannot_be_fitted_is_one_sentence(options, words):
    with pytest.raises(ValueError, match=words) as caught:
        fit_table_model(**{"table": homes(50), "target": "price", **QUICK, **options})
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_one_sentence(tmp_path):
    for name, hint in (("Slpc", "did you mean slcp"), ("", "")):
        with pytest.raises(ValueError, match=f"There is no method.*{hint}"):
            Task(method=name)
    logistic = str(save_model(LogisticRegression(), tmp_path / "mine.skops"))
    for name, error, words in (
        (logistic, ValueError, "LogisticRegression; expected a scikit-learn regressor"),
        ("hbg", ValueError, "no model 'hbg'; did you mean hgb"),
        ("none.skops", ModelFileError, "does not exist"),
    ):
        with pytest.raises(error, match=words):
            make_base_model(name, "split", 0)
    for method, hint in (("slcp", "auto, forest, kernel"), ("lcp", "forest, kernel")):
        with pytest.raises(ValueError, match=f"no law 'kernal'; did you mean kernel.* of {hint}"):
            Task(method=method, law="kernal").regressor()
    with pytest.raises(ValueError, match="has no law"):
        Task(method="split", law="kernel").regressor()
    with pytest.raises(ValueError, match="cannot predict quantiles"):
        make_base_model("forest", "cqr", 0)


KINDS = [("linear", "split"), ("linear", "cqr"), ("hgb", "cqr"), ("forest", "split")]
KINDS += [("file", "split"), ("quantiles", "cqr")]


@pytest.mark.parametrize("kind", ci_but(KINDS[:1], KINDS), ids=str)
def test_every_base_model_takes_categories_times_and_gaps(kind, tmp_path):
    model, method = kind
    table = homes(300)
    if model == "file":
        model = str(save_model(ExtraTreesRegressor(5), tmp_path / "mine.skops"))
    if model == "quantiles":
        three = {"objective": "reg:quantileerror", "quantile_alpha": [0.05, 0.5, 0.95]}
        boosting = optional("xgboost").XGBRegressor(n_estimators=5, n_jobs=1, **three)
        model = str(save_model(boosting, tmp_path / "mine.skops"))
    fitted = fit_table_model(table, "price", method=method, model=model)
    later = table[:20].assign(region="nowhere", size=np.nan)
    with pytest.warns(UserWarning, match="20 values of 'region' could not be found"):
        assert np.isfinite(fitted.predict_interval(later)).all()
    again, levels = load_model(save_model(fitted, tmp_path / "model.skops")), [0.5, 0.9]
    np.testing.assert_array_equal(
        again.predict_interval(table, levels), fitted.predict_interval(table, levels)
    )


def test_calibration_rows_change_nothing_that_was_learned():
    table = homes(200)
    first, seen = fit_table_model(table, "price", **QUICK).preparation, set()
    for row in range(0, 200, 20):
        changed = table.assign(region=table["region"].where(table.index != row, "elsewhere"))
        second = fit_table_model(changed, "price", **QUICK).preparation
        is_trained_on = "elsewhere" in str(second.readers_)
        assert is_trained_on != (second.readers_ == first.readers_)
        seen.add(is_trained_on)
        if len(seen) == 2:
            break
    assert seen == {True, False}


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


def test_raw_rows_are_read_for_the_regressor_and_the_schema_names_their_columns(model):
    rows = rows_of(20, 1).to_dict("records")
    kinds = {"size": "numbers", "rooms": "numbers", "new": "flags", "sold": "times"}
    assert model.schema == {**kinds, "region": "labels"}
    X, beside, notes = model.read(rows)
    made = model.regressor.predict_interval(X, **beside)
    np.testing.assert_array_equal(made, model.predict_interval(rows))
    assert notes == []
    X, _, notes = model.read({**rows[0], "region": "moon"})
    assert len(X) == 1
    assert "'region' could not be found among the labels" in notes[0]


def test_widths_of_raw_rows_are_explained_as_by_the_regressor(model):
    table = rows_of(3, 1)
    X, beside, _ = model.read(table)
    expected = model.regressor.explain_width(X, **beside)
    for rows in (table, table.to_dict("records"), pl.from_pandas(table)):
        np.testing.assert_array_equal(model.explain_width(rows), expected)
    assert isinstance(model.explain_width(rows), pl.DataFrame)
    bounds = model.predict_interval(table, 0.5)
    found = model.explain_width(table, table[:1], confidence_level=0.5)
    np.testing.assert_allclose(found["width"], bounds[:, 1] - bounds[:, 0])
    assert found["base"][0] == pytest.approx(found["width"][0])


class Asked(LinearRegression):
    """Counts how often it is asked."""

    times = 0

    def predict(self, X):
        type(self).times += 1
        return super().predict(X)


def test_the_point_model_is_asked_once_for_point_and_bounds():
    model = fit_table_model(homes(), "price", method="split", model=Asked())
    Asked.times = 0
    model.predict(homes(20, seed=1), confidence_level=[0.5, 0.9])
    assert Asked.times == 1
