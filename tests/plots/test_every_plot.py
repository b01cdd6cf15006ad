"""What all plots have in common, on rows made to be awkward."""

import io
import re
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from localconformal import KernelLaw, plots
from localconformal.plots._axes import CAPTION
from registry import ci_but

LEVELS = [0.5, 0.8, 0.95]


def make(n, seed=0):
    """A frame with numbers, labels, dates and missing values; y; intervals, two infinite."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(size=n)
    X = pd.DataFrame({"num$ber$": x})
    X.loc[X.index % 7 == 3, "num$ber$"] = np.nan
    X["label"] = pd.Categorical(rng.choice(["$a$", "<b>", "_c", "a very long " * 5], n))
    X.loc[X.index % 9 == 4, "label"] = None
    X["day"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.round(x * 9e5), unit="s")
    y = x + x * rng.normal(size=n)
    intervals = np.stack([x - 1.4 * x, x + 1.4 * x], axis=1)
    intervals[n // 2] = -np.inf, np.inf
    intervals[n // 3, 1] = np.inf
    intervals[n // 4] = 1.0, 0.0
    return X, y, intervals


def several(intervals):
    return np.stack([0.5 * intervals, intervals, 2.0 * intervals], axis=2)


def weights(X, y, axes, **options):
    numbers = np.column_stack([X["num$ber$"].fillna(0.5), y])
    law = KernelLaw(bandwidth=0.5).fit(numbers, y)
    return plots.plot_local_weights(law, numbers[0], numbers, ax=axes, **options)


#: name -> (panels, function of X, y, intervals, axes)
PLOTS = {
    "bands": (1, lambda X, y, i, ax: plots.plot_bands(X["num$ber$"], y, {"$A$": i}, ax=ax)),
    "bands of labels": (
        1,
        lambda X, y, i, ax: plots.plot_bands(X["label"], y, {"_a": i, "b": i}, oracle=i, ax=ax),
    ),
    "bands of days": (1, lambda X, y, i, ax: plots.plot_bands(X["day"], y, {"a": i}, ax=ax)),
    "regions": (
        1,
        lambda X, y, i, ax: plots.plot_regions(X["num$ber$"], y, {"a": i}, [0, 0.5, 2], ax=ax),
    ),
    "sorted": (1, lambda X, y, i, ax: plots.plot_sorted(y, i, ax=ax)),
    "sorted by prediction": (
        1,
        lambda X, y, i, ax: plots.plot_sorted(y, i, by="prediction", y_pred=y, ax=ax),
    ),
    "groups": (1, lambda X, y, i, ax: plots.plot_group_coverage(y, i, X["label"], ax=ax)),
    "feature": (1, lambda X, y, i, ax: plots.plot_feature_coverage(X["num$ber$"], y, i, ax=ax)),
    "feature of labels": (
        1,
        lambda X, y, i, ax: plots.plot_feature_coverage(X["label"], y, i, ax=ax),
    ),
    "feature of days": (
        1,
        lambda X, y, i, ax: plots.plot_feature_coverage(X[["day"]], y, i, ax=ax),
    ),
    "length and error": (1, lambda X, y, i, ax: plots.plot_length_error(y, i, ax=ax)),
    "calibration": (2, lambda X, y, i, ax: plots.plot_calibration(y, several(i), LEVELS, ax=ax)),
    "weights": (1, lambda X, y, i, ax: weights(X, y, ax)),
    "weights and scores": (1, lambda X, y, i, ax: weights(X, y, ax, v=y)),
    "weights of two": (1, lambda X, y, i, ax: weights(X, y, ax, feature=(0, 1))),
    "methods": (3, lambda X, y, i, ax: plots.plot_methods(y, {"$A$": i, "b": i - 0.1}, ax=ax)),
}


def axes_of(result):
    return [result[0]] if isinstance(result[0], Axes) else list(result[0])


def render(axes):
    axes[0].figure.savefig(io.BytesIO(), dpi=50)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("n", ci_but([2], [1, 2, 100]))
@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_drawn_whatever_comes(name, n):
    _, draw = PLOTS[name]
    result = draw(*make(n), None)
    axes = axes_of(result)
    assert isinstance(result[1], pd.DataFrame)
    assert any(ax.has_data() for ax in axes)
    render(axes)


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_uses_the_axes_it_is_given_and_reads_no_text_as_mathematics(name):
    panels, draw = PLOTS[name]
    given = list(Figure(layout="constrained").subplots(1, panels, squeeze=False)[0])
    result = draw(*make(50), given[0] if panels == 1 else given)
    assert axes_of(result) == given
    render(given)
    for ax in given:
        for text in ax.findobj(Text):
            assert not re.search(r"(?<!\\)\$", text.get_text())
    assert plt.get_fignums() == []


def captions(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid() == CAPTION).replace("\n", " ")


@pytest.mark.parametrize("name", ["bands", "sorted", "length and error", "methods"])
def test_infinite_and_empty_intervals_are_counted(name):
    axes = axes_of(PLOTS[name][1](*make(400), None))
    assert "2 of 400 intervals are infinite" in captions(axes[0])
    assert "1 of 400 intervals is empty" in captions(axes[0])


@pytest.mark.parametrize("name", ["bands", "sorted", "sorted by prediction"])
def test_infinite_intervals_end_at_the_edge(name):
    X, y, intervals = make(100)
    ax, _ = PLOTS[name][1](X, y, intervals, None)
    ends = np.array(ax.get_ylim())
    assert np.isfinite(ends).all()
    assert np.abs(ends).max() < 20.0


@pytest.mark.parametrize("name", [name for name in PLOTS if "weights" not in name])
def test_no_rows_are_refused(name):
    X, y, intervals = make(5)
    with pytest.raises(ValueError, match=r"at least one|empty"):
        PLOTS[name][1](X[:0], y[:0], intervals[:0], None)


@pytest.mark.parametrize("name", ["bands", "sorted", "groups", "feature", "length and error"])
def test_several_levels_are_refused_where_one_is_drawn(name):
    X, y, intervals = make(20)
    with pytest.raises(ValueError, match="3 levels; one level was expected"):
        PLOTS[name][1](X, y, several(intervals), None)


def test_panels_are_counted():
    y, intervals = [0.0], np.zeros((1, 2, 1))
    with pytest.raises(ValueError, match="ax has 1 axes; 2 were expected"):
        plots.plot_calibration(y, intervals, [0.5], ax=Figure().subplots())


@pytest.mark.parametrize("name", ["bands", "sorted", "length and error"])
def test_many_rows_are_drawn_in_part_and_counted_in_full(name):
    X, y, intervals = make(12_000)
    first, second = (PLOTS[name][1](X, y, intervals, None) for _ in range(2))
    assert len(first[1]) < 6000
    assert first[1].equals(second[1])
    assert "of 1" in captions(first[0])
    render(axes_of(first))


@pytest.mark.parametrize("kind", [pd, pl])
def test_columns_of_pandas_and_polars_are_the_same_feature(kind):
    _, y, intervals = make(60)
    labels = [("a", "b", None)[i % 3] for i in range(60)]
    numbers = [None if i % 5 == 0 else i / 7 for i in range(60)]
    for values in (labels, numbers):
        named = pd.Series(values, name="c") if kind is pd else pl.Series("c", values)
        _, plain = plots.plot_feature_coverage(values, y, intervals)
        _, series = plots.plot_feature_coverage(named, y, intervals)
        _, frame = plots.plot_feature_coverage(kind.DataFrame({"c": values}), y, intervals)
        assert plain.equals(series)
        assert plain.equals(frame)
        assert plain["group"].iloc[-1] == "missing"
