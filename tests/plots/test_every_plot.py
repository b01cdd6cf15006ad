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
from registry import ci_but

LEVELS, EDGES = [0.5, 0.8, 0.95], [0, 0.5, 2]


def make(n):
    """A frame with numbers, labels, dates and missing values; y; intervals, two infinite."""
    rng = np.random.default_rng(0)
    x = rng.uniform(size=n)
    X = pd.DataFrame({"num$ber$": np.where(np.arange(n) % 7 == 3, np.nan, x)})
    X["label"] = pd.Categorical(rng.choice(["$a$", "<b>", "_c", "a very long " * 5], n))
    X.loc[X.index % 9 == 4, "label"] = None
    X["day"] = pd.Timestamp("2024-03-01") + pd.to_timedelta(np.round(x * 9e5), unit="s")
    intervals = x[:, None] * np.array([-0.4, 2.4])
    intervals[n // 2] = -np.inf, np.inf
    intervals[n // 3, 1] = np.inf
    intervals[n // 4] = 1.0, 0.0
    return X, x + x * rng.normal(size=n), intervals


def several(intervals):
    return np.stack([0.5 * intervals, intervals, 2.0 * intervals], axis=2)


def weights(X, y, **options):
    numbers = np.column_stack([X["num$ber$"].fillna(0.5), y])
    law = KernelLaw(bandwidth=0.5).fit(numbers, y)
    return plots.plot_local_weights(law, numbers[0], numbers, **options)


#: Name -> function of X, y, intervals and the axes.
PLOTS = {
    "bands": lambda X, y, i, **on: plots.plot_bands(X["num$ber$"], y, {"$A$": i}, **on),
    "bands of labels": lambda X, y, i, **on: plots.plot_bands(
        X["label"], y, {"_a": i, "b": i}, oracle=i, **on
    ),
    "bands of days": lambda X, y, i, **on: plots.plot_bands(X["day"], y, {"a": i}, **on),
    "regions": lambda X, y, i, **on: plots.plot_regions(X["num$ber$"], y, {"a": i}, EDGES, **on),
    "sorted": lambda X, y, i, **on: plots.plot_sorted(y, i, **on),
    "predictions": lambda X, y, i, **on: plots.plot_sorted(y, i, by="prediction", y_pred=y, **on),
    "groups": lambda X, y, i, **on: plots.plot_group_coverage(y, i, X["label"], **on),
    "feature": lambda X, y, i, **on: plots.plot_feature_coverage(X["num$ber$"], y, i, **on),
    "feature of labels": lambda X, y, i, **on: plots.plot_feature_coverage(X["label"], y, i, **on),
    "feature of days": lambda X, y, i, **on: plots.plot_feature_coverage(X[["day"]], y, i, **on),
    "length and error": lambda X, y, i, **on: plots.plot_length_error(y, i, **on),
    "calibration": lambda X, y, i, **on: plots.plot_calibration(y, several(i), LEVELS, **on),
    "weights": lambda X, y, i, **on: weights(X, y, **on),
    "weights and scores": lambda X, y, i, **on: weights(X, y, v=y, **on),
    "weights of two": lambda X, y, i, **on: weights(X, y, feature=(0, 1), **on),
    "methods": lambda X, y, i, **on: plots.plot_methods(y, {"$A$": i, "b": i - 0.1}, **on),
}
PANELS = {"calibration": 2, "methods": 3}


def axes_of(result):
    return [result[0]] if isinstance(result[0], Axes) else list(result[0])


def render(axes):
    axes[0].figure.savefig(io.BytesIO(), dpi=50)


def captions(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid()).replace("\n", " ")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("n", ci_but([2], [1, 2, 100]))
@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_drawn_whatever_comes(name, n):
    result = PLOTS[name](*make(n))
    axes = axes_of(result)
    assert isinstance(result[1], pd.DataFrame)
    assert any(ax.has_data() for ax in axes)
    render(axes)


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_uses_the_axes_it_is_given_and_reads_no_text_as_mathematics(name):
    given = list(Figure(layout="constrained").subplots(1, PANELS.get(name, 1), squeeze=False)[0])
    result = PLOTS[name](*make(50), ax=given if name in PANELS else given[0])
    assert axes_of(result) == given
    render(given)
    for text in given[0].figure.findobj(Text):
        assert not re.search(r"(?<!\\)\$", text.get_text())
    assert plt.get_fignums() == []
    if name in PANELS:
        with pytest.raises(ValueError, match=r"ax: got 1 axes; expected \d"):
            PLOTS[name](*make(50), ax=given[0])


@pytest.mark.parametrize("name", ["bands", "sorted", "length and error", "methods"])
def test_infinite_and_empty_intervals_are_counted_and_end_at_the_edge(name):
    ax = axes_of(PLOTS[name](*make(400)))[0]
    assert "2 of 400 intervals are infinite" in captions(ax)
    assert "1 of 400 intervals is empty" in captions(ax)
    assert np.abs(ax.get_ylim()).max() < 20.0


@pytest.mark.parametrize("name", [name for name in PLOTS if "weights" not in name])
def test_no_rows_are_refused_and_several_levels_where_one_is_drawn(name):
    X, y, intervals = make(5)
    with pytest.raises(ValueError, match=r"at least (one|1)"):
        PLOTS[name](X[:0], y[:0], intervals[:0])
    if name != "calibration":
        with pytest.raises(ValueError, match="expected one level"):
            PLOTS[name](X, y, several(intervals))


@pytest.mark.parametrize("name", ["bands", "sorted", "length and error"])
def test_many_rows_are_drawn_in_part_and_counted_in_full(name):
    first, second = (PLOTS[name](*make(12_000)) for _ in range(2))
    assert len(first[1]) < 6000
    assert first[1].equals(second[1])
    assert "of 1" in captions(first[0])


@pytest.mark.parametrize("kind", [pd, pl])
def test_columns_of_pandas_and_polars_are_the_same_feature(kind):
    _, y, intervals = make(60)
    for values in ([("a", "b", None)[i % 3] for i in range(60)], [None, *np.arange(59.0)]):
        named = pd.Series(values, name="c") if kind is pd else pl.Series("c", values)
        _, plain = plots.plot_feature_coverage(values, y, intervals)
        for given in (named, kind.DataFrame({"c": values})):
            assert plots.plot_feature_coverage(given, y, intervals)[1].equals(plain)
        assert plain["group"].iloc[-1] == "missing"
