"""Labels of cells: those that differ are apart, equal ones together, whatever holds them."""

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


def labelled(pair):
    labels = np.empty(400, dtype=object)
    labels[:] = [pair[loud] for loud in LOUD]
    return labels


def widths(fitted_with, asked_with):
    model = MondrianConformalRegressor(LinearRegression(), random_state=0)
    model.fit(X, Y, groups=fitted_with)
    return np.diff(model.predict_interval(X, groups=asked_with), axis=1)[:, 0]


@pytest.mark.parametrize(
    "pair",
    [
        (None, "missing"),
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
