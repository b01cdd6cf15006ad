"""Cells: labels that differ are apart, equal ones together, and what small cells are told."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from localconformal import MondrianConformalRegressor
from registry import smooth_data

X, _ = smooth_data(400, seed=0)
LOUD = np.arange(400) % 2
Y = X[:, 0] + np.where(LOUD, 9.0, 1.0) * np.random.default_rng(1).normal(size=400)


def mondrian(**params):
    return MondrianConformalRegressor(LinearRegression(), random_state=0, **params)


def labelled(pair):
    labels = np.empty(400, dtype=object)
    labels[:] = [pair[loud] for loud in LOUD]
    return labels


def widths(fitted_with, asked_with):
    model = mondrian().fit(X, Y, groups=fitted_with)
    return np.diff(model.predict_interval(X, groups=asked_with), axis=1)[:, 0]


@pytest.mark.parametrize(
    "pair",
    [
        (None, "missing"),
        (np.nan, "b"),
        (1, "1"),
        ("a", "a\0"),
        (True, "True"),
        (2**53, 2**53 + 1),
        (np.nan, np.inf),
        ("", " "),
        (1, 1.5),
    ],
    ids=repr,
)
def test_labels_that_differ_are_cells_apart(pair):
    found = widths(labelled(pair), labelled(pair))
    assert found[LOUD == 1].min() > 4 * found[LOUD == 0].max()


@pytest.mark.parametrize(
    "other",
    [
        lambda codes: codes.astype(object),
        lambda codes: codes.astype(np.int8),
        lambda codes: codes.astype(np.float32),
        lambda codes: codes == 1,
        lambda codes: pd.Series(codes, dtype="Int64"),
    ],
    ids=["object", "int8", "float32", "bool", "Int64"],
)
def test_equal_labels_are_one_cell_whatever_holds_them(other):
    np.testing.assert_array_equal(widths(LOUD, other(LOUD)), widths(LOUD, LOUD))
    np.testing.assert_array_equal(widths(other(LOUD), LOUD), widths(LOUD, LOUD))


def test_missing_labels_are_one_cell():
    for one, other in [(None, np.nan), (np.nan, pd.NA), (None, pd.NaT)]:
        quiet = widths(labelled((one, "loud")), labelled((other, "loud")))
        np.testing.assert_array_equal(quiet, widths(LOUD, LOUD))


DAYS = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")
LENGTHS = np.array([1, 2], dtype="timedelta64[D]")


@pytest.mark.parametrize(
    ("labels", "other"),
    [
        (DAYS[LOUD], lambda times: times.astype("datetime64[s]")),
        (DAYS[LOUD], lambda times: times.astype("datetime64[D]")),
        (DAYS[LOUD], lambda times: list(pd.DatetimeIndex(times))),
        (DAYS[LOUD], lambda times: pl.Series(times.astype("datetime64[us]"))),
        (DAYS[LOUD], lambda times: times.astype("datetime64[us]").astype(object)),
        (LENGTHS[LOUD], lambda times: times.astype("timedelta64[ns]")),
        (LENGTHS[LOUD], lambda times: list(pd.TimedeltaIndex(times))),
    ],
    ids=["seconds", "days", "pandas", "polars", "datetime", "nanoseconds", "Timedelta"],
)
def test_equal_times_are_one_cell_in_any_unit(labels, other):
    np.testing.assert_array_equal(widths(labels, other(labels)), widths(LOUD, LOUD))
    np.testing.assert_array_equal(widths(other(labels), labels), widths(LOUD, LOUD))


@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
def test_moments_of_other_zones_are_compared_as_moments():
    here = pd.DatetimeIndex(DAYS).tz_localize("UTC")
    there = list(here.tz_convert("Asia/Tokyo")[LOUD])
    np.testing.assert_array_equal(widths(list(here[LOUD]), there), widths(LOUD, LOUD))
    # A moment is not the same as what a clock somewhere shows.
    assert np.isinf(widths(list(here[LOUD]), DAYS[LOUD])).all()


@pytest.mark.filterwarnings("ignore:.*intervals are infinite:UserWarning")
def test_a_long_label_costs_no_memory_a_row():
    labels = ["a"] * 399 + ["x" * 100_000]
    tracemalloc.start()
    found = widths(labels, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    assert np.isinf(found[-1])
    assert np.isfinite(found[:-1]).all()
    assert np.isinf(widths(labels, ["a"] * 399 + ["x" * 99_999 + "y"])[-1])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_whole_numbers_of_a_column_are_not_rounded_beside_missing_ones(make):
    ids = pd.array(2**60 + LOUD, dtype="Int64")
    ids[:20] = None
    frame = pd.DataFrame({"x": X[:, 0], "id": ids})
    frame = frame if make is pd.DataFrame else pl.from_pandas(frame)
    model = MondrianConformalRegressor(DummyRegressor(), groups="id", random_state=0).fit(frame, Y)
    found = np.diff(model.predict_interval(frame, 0.5), axis=1)[20:, 0]
    assert found[LOUD[20:] == 1].min() > 4 * found[LOUD[20:] == 0].max()
    alone = model.predict_interval(frame[30:31], 0.5)
    np.testing.assert_array_equal(alone, model.predict_interval(frame, 0.5)[30:31])


# ---- cells that are small, unknown or wrong ----------------------------------------------------


def test_small_cells_are_infinite_and_named_or_pooled():
    groups = np.where(np.arange(400) < 390, "many", "few")
    model = mondrian(calibration_size=None).fit(X, Y, groups=groups)
    model.conformalize(*smooth_data(100, seed=1), groups=["many"] * 96 + ["few"] * 4)
    with pytest.warns(UserWarning, match="4 calibration rows came"):
        intervals = model.predict_interval(X[:2], groups=["many", "few"])
    assert np.isfinite(intervals[0]).all()
    assert np.isinf(intervals[1]).all()
    assert model.guarantee_.conditional_on == "cell"
    with pytest.warns(UserWarning, match="0 calibration rows came.*cells 'unseen'"):
        assert np.isinf(model.predict_interval(X[:1], groups=["unseen"])).all()
    model.set_params(small_cells="pool")
    assert np.isfinite(model.predict_interval(X[:2], groups=["many", "few"])).all()
    assert not model.guarantee_.marginal
    assert "borrow" in str(model.guarantee_)


def test_missing_numbers_of_a_column_are_a_cell():
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(g=np.where(X[:, 0] > 0, 1.0, np.nan))
    model = MondrianConformalRegressor(groups="g", random_state=0).fit(frame, Y)
    assert np.isfinite(model.predict_interval(frame)).all()


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (lambda X: 1, "shape"),
        (lambda X: np.zeros((len(X), 2)), "shape"),
        (99, "2 columns"),
        ("a", "X is an array"),
    ],
)
def test_groups_that_are_none(groups, words):
    with pytest.raises(ValueError, match=words):
        mondrian(groups=groups).fit(X, Y)


def test_groups_are_those_of_fit():
    model, rows = mondrian(groups=0), np.round(X)
    before = model.fit(rows, Y).diagnose(rows)
    model.set_params(groups=1)
    pd.testing.assert_frame_equal(before, model.diagnose(rows))
    with pytest.raises(ValueError, match="pass one"):
        model.fit(X, Y, groups=np.zeros(400))
