"""The frame of each plot says what the metrics say, and odd rows are drawn."""

import io
import re
import sys
from inspect import signature

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from inner import Rows
from localconformal import metrics, plots
from localconformal.datasets import load_simulation
from localconformal.text import say_number
from registry import ci_but

pytestmark = pytest.mark.filterwarnings("error")
N = 600
EDGES = np.arange(6.0)
#: A feature that scales the noise, y, and intervals that know it.
X_ = np.random.default_rng(0).uniform(0.2, 1.0, N)
Y = X_ * np.random.default_rng(1).normal(size=N)
INTERVALS = X_[:, None] * [-1.6, 1.6]
COVERAGE = metrics.coverage(Y, INTERVALS)


def caption_of(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid()).replace("\n", " ")


LEVELS = [0.5, 0.8, 0.95]


def make(n):
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
    law = lc.KernelLaw(bandwidth=0.5).fit(numbers, y)
    return plots.plot_local_weights(law, numbers[0], numbers, **options)


PLOTS = {
    "bands": lambda X, y, i, **on: plots.plot_bands(X["num$ber$"], y, {"$A$": i}, **on),
    "bands of labels": lambda X, y, i, **on: plots.plot_bands(
        X["label"], y, {"_a": i, "b": i}, oracle=i, **on
    ),
    "bands of days": lambda X, y, i, **on: plots.plot_bands(X["day"], y, {"a": i}, **on),
    "sorted": lambda X, y, i, **on: plots.plot_sorted(y, i, **on),
    "sorted, predicted": lambda X, y, i, **on: plots.plot_sorted(y, i, y_pred=y, **on),
    "groups": lambda X, y, i, **on: plots.plot_group_coverage(y, i, X["label"], **on),
    "feature": lambda X, y, i, **on: plots.plot_feature_coverage(X["num$ber$"], y, i, **on),
    "feature of labels": lambda X, y, i, **on: plots.plot_feature_coverage(X["label"], y, i, **on),
    "feature of days": lambda X, y, i, **on: plots.plot_feature_coverage(X[["day"]], y, i, **on),
    "length and error": lambda X, y, i, **on: plots.plot_length_error(y, i, **on),
    "calibration": lambda X, y, i, **on: plots.plot_calibration(y, several(i), LEVELS, **on),
    "weights": lambda X, y, i, **on: weights(X, y, **on),
    "weights and scores": lambda X, y, i, **on: weights(X, y, v=y, **on),
    "methods": lambda X, y, i, **on: plots.plot_methods(y, {"$A$": i, "b": i - 0.1}, **on),
}
PANELS = {"calibration": 2, "methods": 3}


def axes_of(result):
    return [result[0]] if isinstance(result[0], Axes) else list(result[0])


def render(axes):
    axes[0].figure.savefig(io.BytesIO(), dpi=50)


@pytest.mark.parametrize("n", ci_but([2], [1, 2, 100]))
@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_drawn_whatever_comes(name, n):
    result = PLOTS[name](*make(n))
    axes = axes_of(result)
    assert isinstance(result[1], pd.DataFrame)
    assert any(ax.has_data() for ax in axes)
    render(axes)


@pytest.mark.ci
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
    assert "2 of 400 intervals are infinite" in caption_of(ax)
    assert "1 of 400 intervals is empty" in caption_of(ax)
    assert np.abs(ax.get_ylim()).max() < 20.0


@pytest.mark.parametrize("name", [name for name in PLOTS if "weights" not in name])
def test_no_rows_are_refused_and_several_levels_where_one_is_drawn(name):
    X, y, intervals = make(5)
    with pytest.raises(ValueError, match=r"at least (one|1)"):
        PLOTS[name](X[:0], y[:0], intervals[:0])
    if name != "calibration":
        with pytest.raises(ValueError, match="expected one level"):
            PLOTS[name](X, y, several(intervals))


def test_groups_and_levels_are_those_of_the_metrics_and_of_many_groups_the_largest():
    several = np.stack([INTERVALS, 0.4 * INTERVALS], axis=2)
    _, frame = plots.plot_calibration(Y, several, [0.9, 0.5])
    assert frame["confidence_level"].tolist() == [0.5, 0.9]
    for row, one in zip(frame.itertuples(), (0.4 * INTERVALS, INTERVALS), strict=True):
        share = metrics.coverage(Y, one)
        band = metrics.binomial_band(round(share * N), N)
        assert (row.coverage, row.lower, row.upper) == (share, *band)
        assert row.gap == share - row.confidence_level
        lengths = metrics.mean_length(Y, one), metrics.median_length(Y, one)
        assert (row.mean_length, row.median_length) == pytest.approx(lengths)
    with pytest.raises(ValueError, match="as the intervals have"):
        plots.plot_calibration(Y, several, 0.9)
    groups = np.array(["b", "a", "c"])[np.arange(N) % 3]
    _, frame = plots.plot_group_coverage(Y, 0 * INTERVALS, groups, 0.8)
    expected = metrics.group_coverage(Y, 0 * INTERVALS, groups, 0.8).frame()
    pd.testing.assert_frame_equal(frame, expected)
    many = np.concatenate([np.arange(100), np.zeros(N - 100, dtype=int)])
    ax, frame = plots.plot_group_coverage(Y, INTERVALS, many)
    assert (len(frame), frame["n"].iloc[0]) == (30, N - 99)
    assert "the 30 of 100 with the most rows" in caption_of(ax)


def test_bins_of_a_feature_hold_all_rows_and_average_to_the_coverage():
    x = np.where(np.arange(N) % 10 == 0, np.nan, X_)
    _, frame = plots.plot_feature_coverage(x, Y, INTERVALS)
    assert frame["n"].sum() == N
    assert (frame["group"].iloc[-1], frame["n"].iloc[-1]) == ("missing", N // 10)
    assert np.average(frame["coverage"], weights=frame["n"]) == pytest.approx(COVERAGE)
    k = np.rint(frame["coverage"] * frame["n"]).astype(int).to_numpy()
    low, high = metrics.binomial_band(k, frame["n"].to_numpy())
    np.testing.assert_allclose(frame[["lower", "upper"]], np.column_stack([low, high]))
    labels = pd.Series(["rare"] * 3 + ["frequent"] * (N - 3), dtype="category")
    _, frame = plots.plot_feature_coverage(labels, Y, INTERVALS)
    assert frame.set_index("group")["n"].to_dict() == {"frequent": N - 3, "rare": 3}


def test_errors_and_lengths_of_rows_and_bins():
    _, frame = plots.plot_length_error(Y, INTERVALS)
    rows, bins = (frame[frame["kind"] == kind] for kind in ("row", "quantile"))
    np.testing.assert_allclose(rows["error"], np.abs(Y))
    np.testing.assert_allclose(rows["length"], 3.2 * X_)
    assert bins["n"].sum() == N
    assert np.average(bins["coverage"], weights=bins["n"]) == pytest.approx(COVERAGE)
    sorted_rows = np.array_split(np.argsort(X_), 10)
    assert bins["error"].tolist() == [np.sort(np.abs(Y[rows]))[53] for rows in sorted_rows]


def test_methods_have_the_numbers_of_the_metrics_and_paired_bands():
    methods = {"a": INTERVALS, "wide": 1.5 * INTERVALS, "same": INTERVALS + 0.0}
    _, frame = plots.plot_methods(Y, methods)
    table = frame.pivot(index="method", columns="metric", values="value")
    for name, bounds in methods.items():
        score = metrics.interval_score(Y, bounds, 0.9)
        measured = [metrics.coverage(Y, bounds), metrics.mean_length(Y, bounds), score]
        columns = ["coverage", "mean length", "interval score"]
        assert table.loc[name, columns].tolist() == pytest.approx(measured)
    # Of lengths, whose differences are known row by row: half the narrow length.
    row = frame.set_index(["metric", "method"]).loc[("mean length", "wide")]
    half = 1.96 * (1.6 * X_).std(ddof=1) / np.sqrt(N)
    assert row["difference"] == pytest.approx((1.6 * X_).mean())
    ends = row["upper"] - row["value"], row["value"] - row["lower"]
    assert ends == pytest.approx((half, half), rel=0.01)


def test_bands_have_all_rows_and_regions_average_to_their_coverage():
    simulation = load_simulation("sim2")
    X, y = simulation.sample(300, random_state=0)
    oracle = simulation.quantile(X, [0.05, 0.95])
    bands = {"narrow": oracle * 0.5, "wide": oracle + np.array([-1.0, 1.0])}
    _, frame = plots.plot_bands(X, y, bands, oracle=oracle)
    for name, intervals in {**bands, "true quantiles": oracle}.items():
        part = frame[frame["method"] == name]
        assert (len(part), part["covered"].mean()) == (300, metrics.coverage(y, intervals))
    ax, frame = plots.plot_bands([0.0, np.nan, 1.0], np.zeros(3), {"a": [[0, 1]] * 3})
    assert (len(frame), "because the feature is missing: 1 row." in caption_of(ax)) == (2, True)
    _, frame = plots.plot_bands([np.nan] * 3, np.zeros(3), {"a": [[0, 1]] * 3})
    assert frame["x"].tolist() == ["missing"] * 3
    axes, frame = plots.plot_comparison(X, y, bands, EDGES, oracle=oracle)
    assert axes.shape == (2, 2)
    for name, part in frame.loc["regions"].groupby("method"):
        assert part["rows"].sum() == len(y)
        average = np.average(part["coverage"], weights=part["rows"])
        assert average == pytest.approx(metrics.coverage(y, bands[name]))
    # The last region is closed, one without rows has no coverage, and a missing feature no region.
    given = [1.0, np.nan], [0.0, 0.0], {"a": [[0, 0]] * 2}, [0.0, 0.5, 1.0]
    frame = plots.plot_comparison(*given)[1].loc["regions"]
    assert frame["rows"].tolist() == [0, 1]
    assert frame["coverage"].isna().tolist() == [True, False]


ROWS = np.random.default_rng(0).uniform(size=(200, 2))
V = ROWS[:, 0] * np.random.default_rng(1).normal(size=200)
FOREST = lc.ForestLaw(RandomForestRegressor(10, random_state=0))
LAWS = [lc.KernelLaw(bandwidth=0.4), FOREST, lc.UniformLaw()]
weights_of = plots.plot_local_weights


def slcp(law):
    return lc.SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(ROWS, V)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_weights_are_those_of_the_kernel_between_rows(law):
    model = slcp(law)
    law = model.law_.laws[-1]
    ax, frame = weights_of(model, ROWS[3], ROWS, V)
    kernel = law.localizer()
    found = kernel.weigh(kernel.view(Rows(ROWS[3:4])), kernel.view(Rows(ROWS)))[0]
    np.testing.assert_allclose(frame["weight"], (found / found.sum())[frame["row"]])
    np.testing.assert_array_equal(frame["v"], V[frame["row"]])
    assert (np.diff(frame["weight"]) >= 0).all()
    size = found.sum() ** 2 / (found**2).sum()
    assert f"Effective sample size {say_number(size)}" in caption_of(ax)
    assert weights_of(law, ROWS[3], ROWS, V)[1].equals(frame)


TABLE = pd.DataFrame(ROWS)
KERNEL = lc.KernelLaw().fit(ROWS, V)
SPLIT = lc.SplitConformalRegressor(LinearRegression())
LINES = lc.LearnedLaw(QuantileRegressor(alpha=0))
BANDS = {"true quantiles": INTERVALS}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.plot_bands(np.column_stack([X_, X_]), Y, BANDS), "one feature"),
        (lambda: plots.plot_bands(X_, Y, BANDS, oracle=INTERVALS), "the name of oracle"),
        (lambda: plots.plot_comparison(["a", "b"] * 300, Y, BANDS, EDGES), "expected numbers"),
        (lambda: plots.plot_methods(Y, BANDS, baseline="z"), "baseline 'z'"),
        (lambda: weights_of(SPLIT.fit(ROWS, V), ROWS[0], ROWS), "no law with weights"),
        (lambda: weights_of(slcp(LINES), ROWS[0], ROWS), "no kernel between two rows"),
        (lambda: weights_of(lc.KernelLaw(), ROWS[0], ROWS), "not fitted"),
        (lambda: weights_of(KERNEL, ROWS[:2], ROWS), "one row x"),
        (lambda: weights_of(KERNEL, TABLE.iloc[0], TABLE), "expected the same kind"),
        (lambda: weights_of(KERNEL, ROWS[0], ROWS, V[:3]), "one score per row"),
        (lambda: weights_of(KERNEL, TABLE[:1], TABLE, feature="z"), "got feature='z'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("missing", ["pandas", "matplotlib"])
@pytest.mark.parametrize("name", [name for name in plots.__all__ if name.startswith("plot_")])
def test_a_package_that_is_missing_is_named_with_its_extra(monkeypatch, name, missing):
    draw = getattr(plots, name)
    needed = [1 for one in signature(draw).parameters.values() if one.default is one.empty]
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"^{name} needs {missing}.*'localconformal\[plots\]'"):
        draw(*[[0.0] for _ in needed])


@pytest.mark.parametrize("end", [0, 1])
def test_one_side_is_drawn_to_the_edge_and_no_row_is_called_infinite(end):
    one = INTERVALS.copy()
    one[:, end] = np.inf if end else -np.inf
    drawn = [
        plots.plot_bands(X_, Y, {"a": one})[0],
        plots.plot_sorted(Y, one)[0],
        plots.plot_length_error(Y, one)[0],
        plots.plot_methods(Y, {"a": one})[0][0],
    ]
    for ax in drawn:
        assert "one bound; they are infinite at the other end" in caption_of(ax)
        assert "intervals are infinite" not in caption_of(ax)
    ax, frame = plots.plot_sorted(Y, one, y_pred=np.zeros(N))
    assert ax.get_xlabel() == "rows, sorted by bound"
    assert frame["lower" if end else "upper"].abs().is_monotonic_increasing
    axes, _ = plots.plot_comparison(X_, Y, {"a": one}, [0.2, 0.6, 1.0])
    assert any("one-sided" in text.get_text() for text in axes[0, 0].findobj(Text))


def explained(rows=4):
    rng = np.random.default_rng(0)
    parts = pd.DataFrame(rng.normal(size=(rows, 14)), columns=[f"$f{j}$" for j in range(14)])
    return parts.assign(base=3.0, width=3.0 + parts.sum(axis=1))


def test_bars_lead_from_the_base_to_the_width():
    found = explained()
    ax, drawn = plots.plot_width(found, row=2, max_features=5)
    assert drawn["feature"].iloc[-1] == "9 others"
    np.testing.assert_allclose(drawn["stop"].iloc[-1], found["width"][2])
    np.testing.assert_allclose(drawn["start"], [3.0, *drawn["stop"][:-1]])
    sizes = drawn["part"][:5].abs().tolist()
    assert sizes == sorted(sizes, reverse=True)
    assert f"Line: {say_number(found['width'][2])}" in caption_of(ax)
    ax, means = plots.plot_width(found, max_features=14)
    np.testing.assert_allclose(means["part"].sum(), found.iloc[:, :14].abs().mean().sum())
    ax.figure.savefig(io.BytesIO())


def test_widths_that_cannot_be_drawn_are_refused():
    infinite = explained(1).assign(**{"$f0$": np.nan, "width": np.inf})
    for frame, row, said in (
        (infinite, 0, "only infinite widths"),
        (infinite, None, "only infinite widths"),
        (explained(), 4, "from 0 to 3"),
        (explained()[["width", "base"]], 0, "explain_width"),
        ([[1.0]], 0, "explain_width"),
    ):
        with pytest.raises(ValueError, match=said):
            plots.plot_width(frame, row)
