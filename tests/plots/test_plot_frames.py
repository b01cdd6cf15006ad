"""The frame of each plot says what the metrics say, and the artists show it."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from localconformal.audit.compare import row_values
from localconformal.metrics import (
    binomial_band,
    coverage,
    coverage_length_curve,
    group_coverage,
    interval_score,
    length_error_corr,
    mean_length,
)
from localconformal.plots import (
    plot_calibration,
    plot_feature_coverage,
    plot_group_coverage,
    plot_length_error,
    plot_methods,
    plot_sorted,
)
from localconformal.plots._axes import CAPTION
from localconformal.plots.methods import paired_room

N = 600


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.2, 1.0, N)
    y = x * rng.normal(size=N)
    return x, y, np.stack([-1.6 * x, 1.6 * x], axis=1)


def caption_of(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid() == CAPTION).replace("\n", " ")


def points(ax):
    """All points of scatter plots on the axes: (k, 2)."""
    drawn = [c.get_offsets() for c in ax.collections if isinstance(c, PathCollection)]
    return np.concatenate([np.asarray(part) for part in drawn])


def test_groups_are_those_of_the_metric(data):
    _, y, intervals = data
    groups = np.array(["b", "a", "c"])[np.arange(N) % 3]
    ax, frame = plot_group_coverage(y, intervals, groups, 0.8)
    pd.testing.assert_frame_equal(frame, group_coverage(y, intervals, groups, 0.8).frame())
    assert [t.get_text() for t in ax.get_yticklabels()] == ["a", "b", "c"]
    assert set(frame["coverage"]) <= set(points(ax)[:, 0])


def test_missing_groups_are_a_group(data):
    _, y, intervals = data
    groups = pd.Series(pd.Categorical(["a", None, "b"] * (N // 3)), name="kind")
    ax, frame = plot_group_coverage(y, intervals, groups)
    assert frame["group"].tolist() == ["a", "b", "missing"]
    assert frame["n"].tolist() == [N // 3] * 3
    assert ax.get_ylabel() == "kind"


def test_of_many_groups_the_largest_are_drawn(data):
    _, y, intervals = data
    groups = np.concatenate([np.arange(100), np.zeros(N - 100, dtype=int)])
    ax, frame = plot_group_coverage(y, intervals, groups)
    assert len(frame) == 30
    assert frame["n"].iloc[0] == N - 99
    assert "the 30 of 100 with the most rows" in caption_of(ax)


def test_bins_of_a_feature_hold_all_rows_and_average_to_the_coverage(data):
    x, y, intervals = data
    x = np.where(np.arange(N) % 10 == 0, np.nan, x)
    _, frame = plot_feature_coverage(x, y, intervals)
    assert frame["n"].sum() == N
    assert frame["group"].iloc[-1] == "missing"
    assert frame["n"].iloc[-1] == N // 10
    average = np.average(frame["coverage"], weights=frame["n"])
    assert average == pytest.approx(coverage(y, intervals))
    k = np.rint(frame["coverage"] * frame["n"]).astype(int).to_numpy()
    low, high = binomial_band(k, frame["n"].to_numpy())
    np.testing.assert_allclose(frame[["lower", "upper"]], np.column_stack([low, high]))


def test_labels_of_a_feature_are_taken_as_they_are(data):
    _, y, intervals = data
    labels = pd.Series(["rare"] * 3 + ["frequent"] * (N - 3), dtype="category")
    _, frame = plot_feature_coverage(labels, y, intervals)
    assert frame["group"].tolist() == ["frequent", "rare"]
    assert frame["n"].tolist() == [N - 3, 3]


def test_the_caption_counts_bands_off_the_level(data):
    x, y, intervals = data
    ax, frame = plot_group_coverage(y, intervals * [[0.0, 0.0]], x > 0.5)
    assert (frame["upper"] < 0.9).all()
    assert "Below it ▼: 2 of 2" in caption_of(ax)


@pytest.mark.parametrize("by", ["length", "prediction"])
def test_sorted_rows_are_all_there_in_order(data, by):
    _, y, intervals = data
    ax, frame = plot_sorted(y, intervals, by=by, y_pred=y / 2, max_points=N)
    assert sorted(frame["row"]) == list(range(N))
    assert (np.diff(frame[by]) >= 0).all()
    assert frame["covered"].mean() == coverage(y, intervals)
    np.testing.assert_array_equal(frame["y"], y[frame["row"]])
    base = frame["prediction"] if by == "length" else 0.0
    drawn = points(ax)
    order = np.argsort(drawn[:, 0])
    np.testing.assert_allclose(drawn[order, 1], frame["y"] - base)


def test_intervals_of_one_length_are_not_sorted_by_rounding():
    centre = np.random.default_rng(0).gamma(1.0, 100.0, N)
    intervals = np.stack([centre - 126.7, centre + 126.7], axis=1)
    assert len(set(intervals[:, 1] - intervals[:, 0])) > 1
    ax, frame = plot_sorted(centre, intervals, max_points=N)
    assert frame["row"].tolist() == list(range(N))
    assert frame["length"].nunique() == 1
    assert "All intervals are of one length" in caption_of(ax)


def test_infinite_intervals_are_said_to_be_seen_from_y(data):
    _, y, intervals = data
    intervals[3] = -np.inf, np.inf
    assert f"1 of {N} intervals is infinite" in caption_of(plot_sorted(y, intervals)[0])
    assert "seen from y" in caption_of(plot_sorted(y, intervals)[0])
    assert "seen from y" not in caption_of(plot_sorted(y, intervals, y_pred=y)[0])


def test_sorting_by_something_else_is_refused(data):
    _, y, intervals = data
    with pytest.raises(ValueError, match="'length' or 'prediction'"):
        plot_sorted(y, intervals, by="y")


def test_errors_and_lengths_of_rows_and_bins(data):
    x, y, intervals = data
    ax, frame = plot_length_error(y, intervals)
    rows = frame[frame["kind"] == "row"]
    np.testing.assert_allclose(rows["error"], np.abs(y))
    np.testing.assert_allclose(rows["length"], 3.2 * x)
    mean = frame[frame["kind"] == "mean"]
    assert mean["n"].sum() == N
    assert np.average(mean["error"], weights=mean["n"]) == pytest.approx(np.abs(y).mean())
    assert np.average(mean["coverage"], weights=mean["n"]) == pytest.approx(coverage(y, intervals))
    assert f"{length_error_corr(y, intervals):.2f}" in caption_of(ax)


def test_infinite_intervals_alone_have_no_error():
    ax, frame = plot_length_error([0.0, 1.0], [[-np.inf, np.inf]] * 2)
    assert len(frame) == 0
    assert "undefined" in caption_of(ax)


def test_the_calibration_curve_is_that_of_the_metric(data):
    _, y, intervals = data
    levels = [0.9, 0.5]
    several = np.stack([intervals, 0.4 * intervals], axis=2)
    (left, right), frame = plot_calibration(y, several, levels)
    pd.testing.assert_frame_equal(frame, coverage_length_curve(y, several, levels).frame())
    curves = {line.get_label(): line.get_xydata() for line in [*left.lines, *right.lines]}
    np.testing.assert_allclose(curves["observed"], frame[["confidence_level", "coverage"]])
    np.testing.assert_allclose(curves["mean"], frame[["confidence_level", "mean_length"]])


def methods(intervals):
    return {"a": intervals, "wide": 1.5 * intervals, "same": intervals + 0.0}


def test_methods_have_the_numbers_of_the_metrics(data):
    _, y, intervals = data
    (left, *_), frame = plot_methods(y, methods(intervals), 0.9, baseline="wide")
    table = frame.pivot(index="method", columns="metric", values="value")
    for name, bounds in methods(intervals).items():
        assert table.loc[name, "coverage"] == pytest.approx(coverage(y, bounds))
        assert table.loc[name, "mean length"] == pytest.approx(mean_length(y, bounds))
        assert table.loc[name, "interval score"] == pytest.approx(interval_score(y, bounds, 0.9))
    assert [t.get_text() for t in left.get_yticklabels()] == ["a", "wide", "same"]
    np.testing.assert_allclose(np.sort(points(left)[:, 0]), np.sort(table["coverage"]))


def test_paired_bands_are_those_of_the_differences(data):
    _, y, intervals = data
    _, frame = plot_methods(y, methods(intervals))
    frame = frame.set_index(["metric", "method"])
    wide, narrow = (row_values(y, k * intervals, 0.9)["interval_score"] for k in (1.5, 1.0))
    difference = wide - narrow
    row = frame.loc[("interval score", "wide")]
    half = 1.96 * difference.std(ddof=1) / np.sqrt(N)
    assert row["difference"] == pytest.approx(difference.mean())
    assert row["upper"] - row["value"] == pytest.approx(half, rel=0.01)
    same = frame.loc[("mean length", "same")]
    assert same["lower"] == same["upper"] == same["value"]
    assert np.isnan(frame.loc[("mean length", "a"), "lower"])


def test_paired_bands_hold_the_difference_as_often_as_they_say():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(1000):
        one = rng.normal(1.0, 1.0, size=30)
        other = one + rng.normal(0.5, 0.3, size=30)
        held.append(abs((other - one).mean() - 0.5) <= paired_room(other, one, 0.95))
    low, high = binomial_band(int(np.sum(held)), len(held), 0.999)
    assert low <= 0.95 <= high


def test_an_unknown_baseline_is_refused(data):
    _, y, intervals = data
    with pytest.raises(ValueError, match="baseline is 'z'"):
        plot_methods(y, {"a": intervals}, baseline="z")
