"""A model from a file takes rows as programs have them, and names what it answers."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from localconformal.io.models import load_model, save_model
from localconformal.io.tables import TableError
from localconformal.workflow.model import Settings, fit_table_model

MISSING = (None, float("nan"), pd.NA, pd.NaT)


def homes(n, seed):
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    X = pd.DataFrame(
        {
            "size": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.uniform(20, 200, n)),
            "rooms": rng.integers(1, 6, n),
            "kind": rng.choice(["a", "b", "2", "3"], n),
            "new": rng.uniform(size=n) < 0.5,
            "sold": days.strftime("%Y-%m-%d"),
        }
    )
    return X, X["rooms"].to_numpy() + X["size"].fillna(50).to_numpy() * rng.normal(size=n)


@pytest.fixture(scope="module", params=["split", "mondrian"])
def model(request, tmp_path_factory):
    X, y = homes(400, 0)
    groups = ("kind",) if request.param == "mondrian" else ()
    settings = Settings(method=request.param, model="hgb", levels=(0.8, 0.5), groups=groups)
    path = tmp_path_factory.mktemp("model") / "model.skops"
    return load_model(save_model(fit_table_model(X, y, settings), path))


NAMES = ["predicted", "lower_0.8", "upper_0.8", "lower_0.5", "upper_0.5"]


class TestShapes:
    def test_a_dict_is_a_row(self, model):
        X, _ = homes(5, 1)
        whole = model.predict(X)
        assert list(whole) == NAMES
        for position, row in enumerate(X.to_dict("records")):
            made = model.predict(row)
            assert list(made.index) == [0]
            np.testing.assert_array_equal(made, whole.iloc[[position]])
            # What a request in JSON brings.
            sent = json.loads(pd.Series(row, dtype=object).to_json())
            np.testing.assert_array_equal(model.predict(sent), made)

    def test_dicts_columns_and_frames_give_the_same_numbers(self, model):
        X, _ = homes(30, 1)
        whole = model.predict(X)
        for rows in (
            X.to_dict("records"),
            tuple(X.to_dict("records")),
            X.to_dict("list"),
            {name: X[name].to_numpy() for name in X},
            X.assign(other=1)[["other", *X.columns[::-1]]],
            pl.from_pandas(X),
        ):
            np.testing.assert_array_equal(model.predict(rows), whole)
            np.testing.assert_array_equal(
                model.predict_interval(rows), whole[["lower_0.8", "upper_0.8"]]
            )

    def test_the_answer_is_of_the_kind_that_asked(self, model):
        X, _ = homes(6, 1)
        X.index = list("uvwxyz")
        assert model.predict(X).index.equals(X.index)
        asked = pl.from_pandas(X)
        assert isinstance(model.predict(asked), pl.DataFrame)
        assert model.predict(asked).columns == NAMES
        assert isinstance(model.predict(X.to_dict("records")), pd.DataFrame)

    def test_levels(self, model):
        X, _ = homes(6, 1)
        row = X.iloc[0].to_dict()
        assert list(model.predict(row, 0.7)) == ["predicted", "lower", "upper"]
        assert list(model.predict(row, [0.7])) == ["predicted", "lower", "upper"]
        named = model.predict_interval(X, output="frame")
        assert list(named) == ["lower", "upper"]
        np.testing.assert_array_equal(named, model.predict_interval(X))
        two = model.predict_interval(X, [0.5, 0.9], output="frame")
        assert list(two) == ["lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
        assert isinstance(
            model.predict_interval(pl.from_pandas(X), 0.9, output="frame"), pl.DataFrame
        )
        with pytest.raises(ValueError, match="'array' or 'frame'"):
            model.predict_interval(X, output="list")


def mixed_rows():
    """Rows whose values are of every type that a program may have for them."""
    X, _ = homes(12, 2)
    rng = np.random.default_rng(0)
    kinds = {
        "size": [lambda v: v, str, np.float32, lambda v: None, int],
        "rooms": [int, float, str, bool, np.int8, lambda v: pd.NA],
        "kind": [str, lambda v: 2, lambda v: 2.0, lambda v: True, lambda v: None, np.float64],
        "new": [bool, int, str, lambda v: None, np.bool_],
        "sold": [str, pd.Timestamp, datetime.date.fromisoformat, lambda v: pd.NaT],
    }
    rows = X.fillna({"size": 50.0}).assign(kind="3").to_dict("records")
    return [
        {name: kinds[name][rng.integers(len(kinds[name]))](row[name]) for name in kinds}
        for row in rows
    ]


@pytest.mark.filterwarnings("ignore:Some intervals are infinite")
class TestRowsAlone:
    def test_a_row_alone_is_the_row_in_company(self, model):
        rows = mixed_rows()
        whole = model.predict(rows)
        alone = pd.concat([model.predict(row) for row in rows])
        np.testing.assert_array_equal(whole, alone)
        np.testing.assert_array_equal(model.predict(rows[::-1]), whole[::-1])

    def test_every_missing_value_is_the_same(self, model):
        row = homes(1, 3)[0].iloc[0].to_dict()
        for name in row:
            made = [model.predict({**row, name: missing}).to_numpy() for missing in MISSING]
            np.testing.assert_array_equal(made, made[:1] * len(MISSING))


class TestRefusals:
    def refuse(self, model, rows, words):
        for call in (model.predict, model.predict_interval):
            with pytest.raises(TableError, match=words) as caught:
                call(rows)
            assert "\n" not in str(caught.value)

    def test_a_missing_key_names_the_column_and_the_row(self, model):
        rows = homes(3, 1)[0].to_dict("records")
        del rows[1]["kind"]
        self.refuse(model, rows[1], r"The row has no column 'kind'")
        self.refuse(model, rows, r"Row 1 has no column 'kind'")
        self.refuse(model, pd.DataFrame(rows[1:2]), r"The table has no column 'kind'")

    def test_what_is_no_table_is_told(self, model):
        for rows in ([], "row", 3, None, [1, 2], np.zeros((2, 5)), [{"size": 1}, 2]):
            self.refuse(model, rows, "expected a dict, a list of dicts or a frame")
        row = homes(1, 1)[0].iloc[0].to_dict()
        self.refuse(model, {**row, "size": [1, 2]}, "lists of the same length")
        with pytest.raises(ValueError, match="collect"):
            model.predict(pl.from_pandas(homes(2, 1)[0]).lazy())


@pytest.fixture(scope="module")
def by_day():
    """A model whose training rows have days written 31/12/2020, some of them missing."""
    X, y = homes(300, 1)
    written = pd.to_datetime(X["sold"]).dt.strftime("%d/%m/%Y").where(X["rooms"] > 1)
    return X, fit_table_model(X.assign(sold=written), y, Settings(method="split", model="hgb"))


def test_a_column_without_a_value_has_no_type_to_be_refused_for(by_day):
    X, model = by_day
    row = X.iloc[:1]
    bounds = [
        model.predict_interval(row.assign(sold=pd.Series([missing], dtype=kind)))
        for missing, kind in ((None, object), (np.nan, float), (pd.NaT, "datetime64[ns]"))
    ]
    np.testing.assert_array_equal(bounds, [bounds[0]] * 3)
    with pytest.raises(TableError, match="holds numbers"):
        model.predict(row.assign(sold=7.0))


def test_days_in_isos_order_are_read_and_what_is_lost_is_said(by_day):
    X, model = by_day
    row = X.iloc[0].to_dict()
    local = model.predict({**row, "sold": pd.Timestamp(row["sold"]).strftime("%d/%m/%Y")})
    pd.testing.assert_frame_equal(model.predict(row), local)
    with pytest.warns(UserWarning, match="1 value of 'sold' could not be read as a time"):
        model.predict({**row, "sold": "31/31/2020"})
