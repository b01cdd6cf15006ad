"""What metrics read of arrays and frames: numbers, times, labels, and what is missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

from localconformal.columns import MAX_LABELS, read_features
from localconformal.metrics.slab import _standardised as standardised

DAY, NAN = 86_400.0, np.nan
FRAME = pd.DataFrame(
    {
        "whole": pd.array([1, 2, None, 4], dtype="Int64"),
        "flag": pd.array([True, None, False, True], dtype="boolean"),
        "time": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-01"]),
        "span": pd.to_timedelta([1, 2, None, 3], unit="D"),
        "label": pd.Categorical(["a", "b", None, "b"]),
        "text": ["x", None, "y", "x"],
    }
)


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
def test_columns_of_every_kind(convert):
    features = read_features(convert(FRAME), 4)
    values = features.values.T
    values[2] -= values[2, 0]
    # The most frequent label is 0.
    expected = [[1, 2, NAN, 4], [1, NAN, 0, 1], [0, NAN, 2 * DAY, 0], [DAY, 2 * DAY, NAN, 3 * DAY]]
    np.testing.assert_array_equal(values, [*expected, [1, 0, NAN, 0], [0, NAN, 1, 0]])
    assert features.labels == [None, None, None, None, ["b", "a"], ["x", "y"]]
    assert features.names == list(FRAME.columns)


def test_arrays_of_objects_and_of_times():
    mixed = np.array([[1, "a"], [None, "b"], [3.5, None]], dtype=object)
    features = read_features(mixed, 3)
    np.testing.assert_array_equal(features.values, [[1, 0], [NAN, 1], [3.5, NAN]])
    assert features.labels == [None, ["a", "b"]]
    days = np.array(["2024-01-01", "NaT", "2024-01-03"], dtype="M8[D]")
    for times in (days, days - days[0]):
        framed = read_features(pd.DataFrame({"t": times}), 3)
        np.testing.assert_array_equal(read_features(times[:, None], 3).values, framed.values)


@pytest.mark.parametrize(
    ("X", "message"), [(None, "it is None"), (csr_matrix(np.eye(3)), r"pass X\.toarray\(\)")]
)
def test_what_is_no_table_is_refused_by_name(X, message):
    with pytest.raises(ValueError, match=message):
        read_features(X, 3)


def test_rare_labels_are_one_together():
    features = read_features(pd.DataFrame({"id": [str(i) for i in range(400)] + ["0"]}), 401)
    assert features.values.max() == MAX_LABELS
    assert features.labels[0][0] == "0"


def test_standardised_columns_have_mean_zero_and_variance_one_and_no_nan():
    found = standardised(read_features(FRAME, 4))
    assert found.source.tolist() == [0, 1, 2, 3, 4, 4, 5, 5]
    assert found.names[4:] == ["label=b", "label=a", "text=x", "text=y"]
    np.testing.assert_allclose(found.points.mean(axis=0), 0.0, atol=1e-9)
    whole = found.points[[0, 1, 3], 0]
    np.testing.assert_allclose(found.center[0] + found.scale[0] * whole, [1, 2, 4])
    assert whole.std() == pytest.approx(1.0)
    assert found.points[2, 0] == 0.0


def test_columns_that_say_nothing_are_zero_and_units_do_not_matter():
    x = np.random.default_rng(0).normal(size=50)
    X = np.stack([x, 1e200 * x, 1e-200 * x, *np.tile([[7.3], [NAN], [1e308]], 50)], axis=1)
    points = standardised(read_features(X, 50)).points
    np.testing.assert_allclose(points[:, :3], np.tile(points[:, :1], 3))
    np.testing.assert_array_equal(points[:, 3:], 0.0)
