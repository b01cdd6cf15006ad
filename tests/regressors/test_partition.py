"""Mondrian and LOCART: labels that differ are apart, leaves follow the noise, small cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression

from localconformal import LocartRegressor, MondrianConformalRegressor
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


@pytest.fixture(scope="module")
def expected():
    return widths(LOUD, LOUD)


@pytest.mark.parametrize(
    "pair",
    [
        *((None, "missing"), (np.nan, "b"), (np.nan, np.inf), ("a", "a\0"), ("", " ")),
        *((1, True), (1, 1.5), (2**53, 2**53 + 1)),
    ],
    ids=repr,
)
def test_labels_that_differ_are_cells_apart(pair):
    found = widths(labelled(pair), labelled(pair))
    assert found[LOUD == 1].min() > 4 * found[LOUD == 0].max()


DAYS = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[ns]")[LOUD]
SPANS = np.array([1, 2], dtype="timedelta64[D]")[LOUD]
HERE = pd.DatetimeIndex(DAYS).tz_localize("UTC")


@pytest.mark.parametrize(
    ("labels", "others"),
    [
        (LOUD, [LOUD.astype(kind) for kind in (object, str, np.int8, np.float32)]),
        (LOUD, [pd.Series(LOUD, dtype="Int64")]),
        (labelled((None, "b")), [labelled((gap, "b")) for gap in (np.nan, pd.NA, pd.NaT)]),
        (DAYS, [DAYS.astype(f"datetime64[{unit}]") for unit in ("s", "D")]),
        (DAYS, [list(pd.DatetimeIndex(DAYS)), pl.Series(DAYS.astype("datetime64[us]"))]),
        (DAYS, [DAYS.astype("datetime64[us]").astype(object)]),
        (SPANS, [SPANS.astype("timedelta64[ns]"), list(pd.TimedeltaIndex(SPANS))]),
        # Moments of other zones are compared as moments, in UTC.
        (DAYS, [list(HERE.tz_convert("Asia/Tokyo"))]),
    ],
)
def test_equal_labels_are_one_cell_whatever_holds_them(labels, others, expected):
    for other in others:
        np.testing.assert_array_equal(widths(labels, other), expected)
        np.testing.assert_array_equal(widths(other, labels), expected)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas])
def test_whole_numbers_of_a_column_are_not_rounded_beside_missing_ones(make):
    ids = pd.array(2**60 + LOUD, dtype="Int64")
    ids[:20] = None
    frame = make(pd.DataFrame({"x": X[:, 0], "id": ids}))
    model = MondrianConformalRegressor(DummyRegressor(), groups="id", random_state=0).fit(frame, Y)
    intervals = model.predict_interval(frame, 0.5)
    assert np.isfinite(intervals).all()
    found, loud = np.diff(intervals)[20:, 0], LOUD[20:] == 1
    assert found[loud].min() > 4 * found[~loud].max()


def test_small_cells_are_infinite_and_named_or_pooled():
    groups = np.where(np.arange(400) < 390, "many", "few")
    model = mondrian(calibration_size=None).fit(X, Y, groups=groups)
    model.conformalize(*smooth_data(100, seed=1), groups=["many"] * 96 + ["few"] * 4)
    with pytest.warns(UserWarning, match="4 calibration rows"):
        intervals = model.predict_interval(X[:2], groups=["many", "few"])
    assert np.isfinite(intervals[0]).all()
    assert np.isinf(intervals[1]).all()
    assert model.guarantee_.conditional_on == "cell"
    with pytest.warns(UserWarning, match="0 calibration rows.*cells unseen"):
        assert np.isinf(model.predict_interval(X[:1], groups=["unseen"])).all()
    model.set_params(small_cells="pool").fit(X, Y, groups=groups)
    model.conformalize(*smooth_data(100, seed=1), groups=["many"] * 96 + ["few"] * 4)
    assert np.isfinite(model.predict_interval(X[:2], groups=["many", "few"])).all()
    assert not model.guarantee_.marginal
    assert "voids the guarantee" in str(model.guarantee_)


def test_groups_are_those_of_fit_and_some_are_none():
    for groups, words in (
        (lambda X: 1, "shape"),
        (lambda X: np.zeros((len(X), 2)), "shape"),
        (99, "2 columns"),
        ("a", "one of the 2 columns of X"),
    ):
        with pytest.raises(ValueError, match=words):
            mondrian(groups=groups).fit(X, Y)
    model, rows = mondrian(groups=0), np.round(X)
    before = model.fit(rows, Y).diagnose(rows)
    model.set_params(groups=1)
    pd.testing.assert_frame_equal(before, model.diagnose(rows))
    with pytest.raises(ValueError, match="pass one"):
        model.fit(X, Y, groups=np.zeros(400))


def locart(min_samples_leaf=60, partition="tree", **params):
    params |= {"min_samples_leaf": min_samples_leaf, "partition": partition, "random_state": 0}
    return LocartRegressor(LinearRegression(), **params)


def test_the_tree_splits_where_the_noise_does_and_nowhere_without_structure():
    """The noise has three levels along the first of three columns."""
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(size=(4_000, 3)), rng.normal(size=4_000)
    y = np.array([0.5, 1.0, 3.0])[(3 * X[:, 0]).astype(int)] * noise
    tree = locart(100).fit(X, y).tree_.tree_
    # Features come standardised.
    edges = tree.threshold[tree.feature == 0] * X[:, 0].std() + X[:, 0].mean()
    assert min(abs(edges - 1 / 3)) < 0.05
    assert min(abs(edges - 2 / 3)) < 0.05
    assert locart(100).fit(X, noise).tree_.get_n_leaves() <= 3


def test_small_leaves_are_infinite_and_named():
    X, y = smooth_data(300, seed=0)
    model = locart(10, calibration_size=None).fit(X, y).conformalize(*smooth_data(12, seed=1))
    with pytest.warns(UserWarning, match="leaves with too few"):
        infinite = np.isinf(model.predict_interval(X)).any(axis=1)
    sizes = model.diagnose(X)["effective_sample_size"].to_numpy()
    np.testing.assert_array_equal(infinite, sizes < 9)
    # A forest has no leaves of its own to promise anything for.
    forest = locart(partition="forest", n_estimators=3).fit(X, y)
    assert forest.guarantee_.conditional_on is None


def test_the_names_of_cells_do_not_matter():
    groups = np.where(X[:, 0] > 0, "a", "b")
    expected = mondrian(small_cells="pool").fit(X, Y, groups=groups)
    names = {"a": "p", "b": "theta"}
    renamed = mondrian(small_cells="pool").fit(X, Y, groups=[names[g] for g in groups])
    for level in (0.8, 0.9, 0.8):
        asked = ["a", "b", "new"]
        found = renamed.predict_interval(X[:3], level, groups=[names.get(g, g) for g in asked])
        np.testing.assert_array_equal(found, expected.predict_interval(X[:3], level, groups=asked))


def test_the_guarantee_is_that_of_the_last_fit():
    for first, then in (("pool", "infinite"), ("infinite", "pool")):
        model = mondrian(small_cells=first).fit(X, Y)
        expected = str(model.guarantee_)
        assert str(model.set_params(small_cells=then).guarantee_) == expected
