"""What metrics read of arrays and frames: numbers, times, labels, and what is missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from localconformal.metrics.features import MAX_LABELS, read_features, standardised

DAY = 86_400.0


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "whole": pd.array([1, 2, None, 4], dtype="Int64"),
            "flag": pd.array([True, None, False, True], dtype="boolean"),
            "time": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-01"]),
            "span": pd.to_timedelta([1, 2, None, 3], unit="D"),
            "label": pd.Categorical(["a", "b", None, "b"]),
            "text": ["x", None, "y", "x"],
        }
    )


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas])
def test_columns_of_every_kind(frame, convert):
    features = read_features(convert(frame), 4)
    nan = np.nan
    whole, flag, time, span, label, text = features.values.T
    np.testing.assert_array_equal(whole, [1, 2, nan, 4])
    np.testing.assert_array_equal(flag, [1, nan, 0, 1])
    np.testing.assert_array_equal((time - time[0]) / DAY, [0, nan, 2, 0])
    np.testing.assert_array_equal(span / DAY, [1, 2, nan, 3])
    # The most frequent label is 0.
    np.testing.assert_array_equal(label, [1, 0, nan, 0])
    np.testing.assert_array_equal(text, [0, nan, 1, 0])
    assert features.labels == [None, None, None, None, ["b", "a"], ["x", "y"]]
    assert features.names == list(frame.columns)


def test_arrays_of_objects_and_of_text():
    mixed = np.array([[1, "a"], [None, "b"], [3.5, None]], dtype=object)
    features = read_features(mixed, 3)
    np.testing.assert_array_equal(features.values, [[1, 0], [np.nan, 1], [3.5, np.nan]])
    assert features.labels == [None, ["a", "b"]]


def test_times_in_an_array_are_seconds_as_in_a_frame():
    days = np.array(["2024-01-01", "NaT", "2024-01-03"], dtype="M8[D]")
    for times in (days, days - days[0]):
        features = read_features(times[:, None], 3)
        framed = read_features(pd.DataFrame({"t": times}), 3)
        np.testing.assert_array_equal(features.values, framed.values)
        assert features.labels == [None]


@pytest.mark.parametrize(
    ("X", "message"), [(None, "it is None"), (csr_matrix(np.eye(3)), r"pass X\.toarray\(\)")]
)
def test_what_is_no_table_is_refused_by_name(X, message):
    with pytest.raises(ValueError, match=message):
        read_features(X, 3)


def test_rare_labels_are_one_together():
    column = [str(i) for i in range(400)] + ["0"]
    features = read_features(pd.DataFrame({"id": column}), 401)
    assert features.values.max() == MAX_LABELS
    assert features.labels[0][0] == "0"


def test_standardised_columns_have_mean_zero_and_variance_one_and_no_nan(frame):
    features = read_features(frame, 4)
    found = standardised(features)
    points, names = found.points, found.names
    assert found.source.tolist() == [0, 1, 2, 3, 4, 4, 5, 5]
    known = [0, 1, 3]
    back = found.center[0] + found.scale[0] * points[known, 0]
    np.testing.assert_allclose(back, features.values[known, 0])
    assert names[4:] == ["label=b", "label=a", "text=x", "text=y"]
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-9)
    whole = points[[0, 1, 3], 0]
    assert whole.std() == pytest.approx(1.0)
    assert points[2, 0] == 0.0


@pytest.mark.parametrize("column", [np.full(5, 7.3), np.full(5, np.nan), np.full(5, 1e308)])
def test_a_column_that_says_nothing_is_zero(column):
    points = standardised(read_features(column[:, None], 5)).points
    np.testing.assert_array_equal(points, 0.0)


def test_huge_and_tiny_units_do_not_matter():
    x = np.random.default_rng(0).normal(size=50)
    points = standardised(read_features(np.stack([x, 1e200 * x, 1e-200 * x], axis=1), 50)).points
    np.testing.assert_allclose(points, points[:, :1] @ np.ones((1, 3)))
