"""Columns are read value by value: what holds them decides nothing once kinds are known."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localconformal.columns import EMPTY, LABEL, NUMBER, TIME, label_of, split_columns

MISSING = [None, np.nan, pd.NaT, pd.NA, Decimal("NaN"), np.datetime64("NaT")]


def objects(*values):
    return pd.DataFrame({"a": pd.Series(list(values), dtype=object)})


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_all_missing_values_are_one(missing):
    for value in (1.0, "a", pd.Timestamp(0), None):
        # A column without known values at fit says nothing later.
        numbers, labels, _ = split_columns(objects(value), split_columns(objects(missing))[2])
        assert np.isnan(numbers).all()
        assert labels.shape == (1, 0)
    _, labels, kinds = split_columns(objects("a", None, missing))
    assert labels[:, 0].tolist() == ["a", None, None]
    assert split_columns(objects(missing), kinds)[1].tolist() == [[None]]
    numbers, _, kinds = split_columns(objects(1, missing))
    np.testing.assert_array_equal(numbers[:, 0], [1.0, np.nan])
    assert kinds == [NUMBER]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5, None], NUMBER),
        ([Decimal("1.5"), Fraction(1, 2), np.float32(1), True, np.bool_(False)], NUMBER),
        ([timedelta(1), pd.Timedelta(1), np.timedelta64(1, "s")], NUMBER),
        ([True, None], NUMBER),
        ([date(2020, 1, 1), datetime(2020, 1, 1), pd.Timestamp(0), np.datetime64(0, "s")], TIME),
        (["12", "13"], LABEL),
        ([1, "a"], LABEL),
        ([1, date(2020, 1, 1)], LABEL),
        ([1, timedelta(1)], LABEL),
        ([1j, 2], LABEL),
        ([None, pd.NA], EMPTY),
    ],
    ids=repr,
)
def test_values_decide_the_kind_of_a_column_of_objects(values, kind):
    assert split_columns(objects(*values))[2] == [kind]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pd.Series([1, 2], dtype="category"), LABEL),
        (pd.Series([1, None], dtype="Int64"), NUMBER),
        (pd.Series([True, False]), NUMBER),
        (pd.Series([np.nan, np.nan]), EMPTY),
        (pd.Series([None, None], dtype="string"), EMPTY),
        (pd.Series([pd.NaT, pd.NaT]), EMPTY),
        (pl.Series([None, None]), EMPTY),
        (pl.Series([Decimal("1.5")]), NUMBER),
    ],
    ids=repr,
)
def test_the_type_of_a_column_decides_where_it_says_something(column, kind):
    make = pl.DataFrame if isinstance(column, pl.Series) else pd.DataFrame
    assert split_columns(make({"a": column}))[2] == [kind]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(),
            st.decimals(allow_nan=False, allow_infinity=False, places=3), st.datetimes(),
            st.timedeltas(),
        ),
        min_size=1,
        max_size=8,
    )
)  # fmt: skip
def test_a_row_alone_is_the_row_in_its_batch(values):
    numbers, labels, kinds = split_columns(objects(*values))
    for row, value in enumerate(values):
        # Once as an object, once as whatever type pandas infers for a single value.
        for alone in (objects(value), pd.DataFrame([{"a": value}])):
            number, label, _ = split_columns(alone, kinds)
            np.testing.assert_array_equal(number[0], numbers[row])
            assert label[0].tolist() == labels[row].tolist()


def test_equal_numbers_are_one_label():
    ones = [1, 1.0, np.int8(1), np.float32(1), Decimal("1.00"), "1"]
    assert {label_of(one) for one in ones} == {"1"}
    assert label_of(True) == "True" == label_of(np.True_)
    assert label_of(0.1) == label_of(Decimal("0.1")) == "0.1"


def test_times_are_seconds_in_any_unit_and_zone():
    noon = datetime(2020, 1, 1, 12, 0, 0, 500_000)
    zoned = noon.replace(tzinfo=timezone.utc).astimezone(timezone(timedelta(hours=5)))
    column = pd.DataFrame({"a": pd.Series([noon, None], dtype="datetime64[ns]")})
    numbers, _, kinds = split_columns(column)
    np.testing.assert_array_equal(numbers[:, 0], [1577880000.5, np.nan])
    forms = [noon, zoned, pd.Timestamp(zoned), np.datetime64(noon), zoned.isoformat()]
    for value in [*forms, "2020-01-01T12:00:00.500Z"]:
        assert split_columns(objects(value), kinds)[0] == 1577880000.5


@pytest.mark.parametrize(
    ("fitted", "asked", "message"),
    [
        (1.5, "many", "'a' had numbers at fit and cannot be read as numbers now"),
        (1.5, datetime(2020, 1, 1), "'a' had numbers at fit"),
        (datetime(2020, 1, 1), 5.0, "'a' had times at fit"),
        (datetime(2020, 1, 1), "soon", "'a' had times at fit"),
    ],
)
def test_what_cannot_be_read_as_at_fit_is_refused_by_name(fitted, asked, message):
    _, _, kinds = split_columns(objects(fitted))
    for X in (objects(asked), pd.DataFrame({"a": [asked]})):
        with pytest.raises(ValueError, match=message):
            split_columns(X, kinds)


def test_arrays_read_texts_as_numbers_where_all_of_them_are():
    for kind in (object, str):
        numbers, labels, kinds = split_columns(np.array([["1", "a"], ["2.5", "b"]], dtype=kind))
        assert kinds == [NUMBER, LABEL]
        np.testing.assert_array_equal(numbers[:, 0], [1.0, 2.5])
        assert labels[:, 0].tolist() == ["a", "b"]
