"""Columns are read in one way: by their values, whatever holds them, under the same names."""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyRegressor

from inner import Rows
from localconformal import MondrianConformalRegressor, metrics, plots
from localconformal.audit import audit
from localconformal.columns import (
    DURATION,
    EMPTY,
    LABEL,
    NUMBER,
    TIME,
    _label_of,
    column_of,
    name_of,
    read_columns,
    split_columns,
)

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
    assert {_label_of(one) for one in ones} == {"1"}
    assert _label_of(True) == "True" == _label_of(np.True_)
    assert _label_of(0.1) == _label_of(Decimal("0.1")) == "0.1"


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
        (1.5, "many", "'a' had numbers at fit but cannot be read as numbers now"),
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


#: Kind of label -> two labels of it, and the name of each cell.
LABELS = {
    "bool": ([True, False], ["True", "False"]),
    "int": ([2, 10], ["2", "10"]),
    "float": ([0.5, 2.0], ["0.5", "2"]),
    "text": (["b", "a"], ["b", "a"]),
    "digits": (["02", "1"], ["02", "1"]),
    "category": (pd.Categorical([3, 4]), ["3", "4"]),
    "date": (np.array(["2024-01-02", "2024-03-01"], "M8[ns]"), ["2024-01-02", "2024-03-01"]),
    "moment": (pd.to_datetime(["2024-01-02T12:00Z", "2024-01-03"], utc=True, format="mixed"),
               ["2024-01-02T12:00", "2024-01-03"]),
    "missing": (["missing", None], ["'missing'", "missing"]),
    "mixed": (np.array([(1, 2), 7], dtype=object), ["(1, 2)", "7"]),
    "awkward": (["a\0", " a"], ["'a\\x00'", "' a'"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("make", [np.asarray, pd.Series], ids=["array", "series"])
def test_metrics_audit_plots_and_mondrian_name_a_cell_alike(kind, make):
    given, names = LABELS[kind]
    codes = np.arange(60) % 2
    held = pd.Series(given, dtype=object) if kind in ("text", "missing") else pd.Series(given)
    labels = make(held.take(codes).reset_index(drop=True))
    y, intervals = np.zeros(60), np.tile([-1.0, 1.0], (60, 1))
    found = [name_of(label) for label in metrics.group_coverage(y, intervals, labels).group]
    assert sorted(found) == sorted(names)
    X = pd.DataFrame({"x": np.arange(60.0)})
    assert [cell.label for cell in audit(X, y, intervals, labels).groups] == found
    ax, frame = plots.plot_group_coverage(y, intervals, labels)
    assert frame["group"].tolist() == found
    assert [tick.get_text().strip() for tick in ax.get_yticklabels()] == found
    model = MondrianConformalRegressor(DummyRegressor(), calibration_size=0.5, random_state=0)
    cells = model.fit(X, y, groups=labels).parts_.correction.cell(Rows(X, labels))
    assert cells.tolist() == [names[code] for code in codes]


def test_columns_of_labels_have_the_names_of_groups():
    for kind in ("text", "category", "missing", "mixed", "awkward"):
        given, names = LABELS[kind]
        (column,) = read_columns(pd.DataFrame({"a": pd.Series(given)}), 2)
        known = [name for name in names if name != "missing"]
        assert (column.kind, sorted(column.labels)) == (LABEL, sorted(known))


DAY, NAN = 86_400.0, np.nan
TABLE = pd.DataFrame(
    {
        "whole": pd.array([1, 2, None, 4], dtype="Int64"),
        "flag": pd.array([True, None, False, True], dtype="boolean"),
        "time": pd.to_datetime(["1970-01-02", None, "1970-01-04", "1970-01-02"]),
        "span": pd.to_timedelta([1, 2, None, 3], unit="D"),
        "label": pd.Categorical(["a", "b", None, "b"]),
        "text": ["x", None, "y", "x"],
    }
)


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas, lambda X: X.astype(object)])
def test_columns_of_every_kind(convert):
    found = read_columns(convert(TABLE), 4)
    assert [column.name for column in found] == list(TABLE.columns)
    assert [column.kind for column in found] == [NUMBER, LABEL, TIME, DURATION, LABEL, LABEL]
    assert [column.is_flag for column in found] == [False, True, False, False, False, False]
    # The most frequent label is 0.
    numbers = [[1, 2, NAN, 4], [1, NAN, 0, 1], [DAY, NAN, 3 * DAY, DAY], [DAY, 2 * DAY, NAN]]
    numbers[3].append(3 * DAY)
    expected = [*numbers, [1, 0, NAN, 0], [0, NAN, 1, 0]]
    np.testing.assert_array_equal([column.numbers for column in found], expected)
    assert [column.labels for column in found[4:]] == [("b", "a"), ("x", "y")]
    assert found[2].codes.tolist() == [0, -1, 1, 0]
    assert found[2].values.tolist() == [DAY, 3 * DAY]
    assert all(column.n_missing == 1 for column in found)


def test_arrays_lists_and_rare_labels():
    for mixed in ([[1, "a"], [None, "b"], [3.5, None]], [[1, "a"], [None, "b"], [np.inf, None]]):
        first, second = read_columns(np.array(mixed, dtype=object), 3)
        assert (first.name, first.n_missing) == ("x0", 1 + (mixed[2][0] == np.inf))
        np.testing.assert_array_equal(second.numbers, [0, 1, NAN])
    assert read_columns(["a", None, "b"], 3)[0].n_missing == 1
    (names,) = read_columns([str(i) + "!" for i in range(400)] + ["0!"], 401)
    assert (names.numbers.max(), names.labels[0], len(names.labels)) == (250, "0!", 250)
    assert read_columns([names], 401) == [names]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (None, "got X as None"),
        (csr_matrix(np.eye(3)), r"pass X\.toarray\(\)"),
        (np.zeros((3, 1, 1)), r"got X of shape \(3, 1, 1\)"),
        (np.zeros((2, 1)), "got X with 2 rows and 1 columns; expected 3 rows"),
        (np.ma.masked_array(np.zeros((3, 1)), mask=[[1], [0], [0]]), "masked array"),
    ],
)
def test_what_is_no_table_is_refused_by_name(X, message):
    with pytest.raises(ValueError, match=message):
        read_columns(X, 3)


def test_a_column_is_found_by_its_name_or_its_place():
    frame = pd.DataFrame({"a": [1, 2], 0: [3, 4]})
    for X, name, values in ((frame, "a", [1, 2]), (frame, 0, [3, 4]), (frame, -2, [1, 2])):
        assert column_of(X, name).tolist() == values
    for name in ("x1", 1, -1):
        assert column_of(frame.to_numpy(), name).tolist() == [3, 4]
    for X, name in ((frame, "b"), (frame, 2), (frame.to_numpy(), "a")):
        with pytest.raises(ValueError, match="expected one of the 2 columns of X"):
            column_of(X, name)
