"""Bands, regions and weights: frames that hold every row, and artists that show them."""

import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    LCPRegressor,
    LearnedLaw,
    NeighborsLaw,
    SLCPRegressor,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.datasets import load_simulation
from localconformal.metrics import coverage
from localconformal.plots import plot_bands, plot_comparison, plot_local_weights, plot_regions
from localconformal.text import say_number

EDGES = np.arange(6.0)


@pytest.fixture
def data():
    simulation = load_simulation("sim2")
    X, y = simulation.sample(300, random_state=0)
    oracle = simulation.quantile(X, [0.05, 0.95])
    return X, y, oracle, {"narrow": oracle * 0.5, "wide": oracle + np.array([-1.0, 1.0])}


def caption_of(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid()).replace("\n", " ")


def test_the_frame_holds_every_row_of_every_method(data):
    X, y, oracle, bands = data
    _, frame = plot_bands(X, y, bands, oracle=oracle)
    assert list(frame.columns) == [
        "method", "x", "position", "y", "lower", "upper", "covered", "strip",
        "shape", "band_lower", "band_upper",
    ]  # fmt: skip
    assert frame.groupby("method").size().to_dict() == {
        "narrow": 300,
        "wide": 300,
        "true quantiles": 300,
    }
    for name, intervals in {**bands, "true quantiles": oracle}.items():
        assert frame.loc[frame["method"] == name, "covered"].mean() == coverage(y, intervals)


def test_bands_are_drawn_in_the_order_of_x(data):
    X, y, oracle, bands = data
    ax = Figure().subplots()
    assert plot_bands(X, y, bands, oracle=oracle, ax=ax)[0] is ax
    assert len(ax.lines) == 2 * (len(bands) + 1)
    for line in ax.lines:
        assert (np.diff(line.get_xdata()) >= 0).all()


def test_one_column_or_none_is_the_same_feature(data):
    X, y, _, bands = data
    assert plot_bands(X, y, bands)[1].equals(plot_bands(X[:, 0], y, bands)[1])


def jumping(n, seed=0):
    """Intervals that depend on another feature, along one of whole numbers."""
    rng = np.random.default_rng(seed)
    x, centre = rng.integers(0, 30, n).astype(float), rng.normal(size=n)
    return x, centre + rng.normal(size=n), centre[:, None] + np.array([-1.6, 1.6])


def test_a_smooth_band_is_a_line_through_its_rows(data):
    X, y, oracle, bands = data
    _, frame = plot_bands(X, y, bands, oracle=oracle)
    assert set(frame["shape"]) == {"line"}
    np.testing.assert_array_equal(frame["band_lower"], frame["lower"])


def test_bounds_that_jump_are_medians_in_bins_not_a_zigzag():
    x, y, intervals = jumping(2_000)
    ax, frame = plot_bands(x, y, {"a": intervals})
    assert set(frame["shape"]) == {"bins"}
    line = ax.lines[0].get_xydata()
    np.testing.assert_array_equal(line, frame[["position", "band_lower"]])
    assert len(np.unique(line, axis=0)) <= 40
    in_bins = frame.groupby("x")[["lower", "band_lower"]].agg(["median", "std"])
    centre, middle = in_bins["lower"]["median"], in_bins["band_lower"]["median"]
    np.testing.assert_allclose(centre, middle, atol=0.2)
    assert (in_bins["band_lower"]["std"] == 0).all()
    assert "medians of the bounds" in caption_of(ax)
    assert frame["covered"].mean() == coverage(y, intervals)


def test_a_few_rows_that_jump_are_bars():
    x, y, intervals = jumping(100)
    ax, frame = plot_bands(x, y, {"a": intervals})
    assert set(frame["shape"]) == {"bars"}
    assert len(ax.lines) == 0
    assert len(ax.collections[0].get_segments()) == 100


@pytest.mark.parametrize("bounds", [[-np.inf, np.inf], [1.0, 0.0], [-1e300, 1e300]])
def test_odd_intervals_among_those_that_jump(bounds):
    x, y, intervals = jumping(1_000)
    intervals[x < 15] = bounds
    ax, frame = plot_bands(x, y, {"a": intervals})
    ax.figure.savefig(io.BytesIO(), dpi=30)
    assert (frame["band_lower"].isna() == (frame["lower"] > frame["upper"])).all()


def test_what_cannot_be_drawn_is_refused(data):
    X, y, oracle, bands = data
    with pytest.raises(ValueError, match="one feature"):
        plot_bands(np.hstack([X, X]), y, bands)
    with pytest.raises(ValueError, match="labels; numbers were expected"):
        plot_regions(["a", "b"] * 150, y, bands, EDGES)
    with pytest.raises(ValueError, match="the name of oracle"):
        plot_bands(X, y, {"true quantiles": bands["wide"]}, oracle=oracle)
    ax, frame = plot_bands(X, y, {"true quantiles": oracle})
    assert frame["covered"].mean() == coverage(y, oracle)
    assert len(ax.lines) == 2


def test_regions_average_to_the_coverage_of_all_rows(data):
    X, y, _, bands = data
    _, frame = plot_regions(X, y, bands, EDGES)
    for name, part in frame.groupby("method"):
        assert part["rows"].sum() == len(y)
        average = np.average(part["coverage"], weights=part["rows"])
        assert average == pytest.approx(coverage(y, bands[name]))
    # The last region is closed, one without rows has no coverage, and a missing feature no region.
    _, frame = plot_regions([1.0, np.nan], [0.0, 0.0], {"a": [[0, 0]] * 2}, [0.0, 0.5, 1.0])
    assert frame["rows"].tolist() == [0, 1]
    assert frame["coverage"].isna().tolist() == [True, False]


def test_regions_are_named_counted_and_in_per_cent(data):
    X, y, _, bands = data
    ax, _ = plot_regions(pd.Series(X[:, 0], name="depth"), y, bands, EDGES[:4])
    ax.figure.savefig(io.BytesIO(), dpi=30)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "coverage, %")
    assert max(float(tick.get_text()) for tick in ax.get_yticklabels()) >= 90
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(bands)
    outside = int((X[:, 0] > 3).sum())
    assert f"{outside} of 300 rows are in no region" in caption_of(ax)


def test_comparison_returns_both_frames_and_draws_a_column_a_method(data):
    X, y, oracle, bands = data
    figure = Figure(layout="constrained")
    axes, frame = plot_comparison(X, y, bands, EDGES, oracle=oracle, title="Title", figure=figure)
    drawn, counted = frame.loc["bands"], frame.loc["regions"]
    assert axes.ravel().tolist() == figure.axes
    assert len(figure.axes) == 2 * len(bands)
    assert set(counted["method"]) == set(bands)
    assert set(drawn["method"]) == {*bands, "true quantiles"}
    figure.savefig(io.BytesIO(), dpi=30)
    _, frame = plot_comparison(X, y, bands, EDGES)
    assert set(frame.loc["bands", "method"]) == set(bands)


def test_labels_and_missing_values_have_strips_of_their_own(data):
    _, y, _, bands = data
    labels = np.array(["a", "b", None], dtype=object)[np.arange(300) % 3]
    _, frame = plot_bands(labels, y, bands)
    assert set(frame["x"]) == {"a", "b", "missing"}
    for name, strip in (("a", 0), ("b", 1), ("missing", 2)):
        part = frame[frame["x"] == name]
        assert set(part["strip"]) == {strip}
        assert (np.abs(part["position"] - strip) < 0.5).all()
        lengths = (part["upper"] - part["lower"])[part["method"] == "narrow"]
        assert (np.diff(lengths) >= 0).all()


def test_missing_numbers_stand_after_all_others(data):
    X, y, _, bands = data
    x = X[:, 0].copy()
    x[:10] = np.nan
    _, frame = plot_bands(x, y, bands)
    missing = frame["x"].isna()
    assert missing.sum() == 20
    assert frame.loc[missing, "position"].min() > np.nanmax(x)
    assert frame.loc[~missing, "position"].equals(frame.loc[~missing, "x"].rename("position"))


def test_a_few_numbers_that_return_are_strips_in_their_order(data):
    _, y, _, bands = data
    _, frame = plot_bands(np.arange(300) % 4, y, bands)
    assert frame.drop_duplicates("x")["x"].tolist() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5, 3e9])
def test_numbers_on_axes_are_written_out_and_differ(data, unit):
    X, y, _, bands = data
    scaled = {name: unit * band for name, band in bands.items()}
    ax, _ = plot_bands(unit * X, unit * y, scaled)
    ax.figure.draw_without_rendering()
    for axis in (ax.xaxis, ax.yaxis):
        places = axis.get_majorticklocs()
        texts = [label.get_text() for label in axis.get_ticklabels()]
        read = [float(text.replace(",", "").replace("−", "-")) for text in texts]
        np.testing.assert_allclose(read, places, atol=1e-9 * unit)
        assert len(set(texts)) == len(texts)
        assert not any("e" in text for text in texts)
        assert axis.get_offset_text().get_text() == ""


# ---- weights of rows -----------------------------------------------------------------------

N = 200


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    return X, X[:, 0] * rng.normal(size=N)


FOREST = ForestLaw(RandomForestRegressor(10, random_state=0))
LAWS = [KernelLaw(bandwidth=0.4), NeighborsLaw(n_neighbors=20), FOREST]


@pytest.mark.parametrize("law", [*LAWS, UniformLaw()], ids=lambda law: type(law).__name__)
def test_weights_are_those_of_the_kernel_between_rows(rows, law):
    X, v = rows
    law = law.fit(X, v)
    ax, frame = plot_local_weights(law, X[3], X)
    kernel = law.localizer()
    found = kernel(kernel.view(X[3:4]), kernel.view(X))[0]
    by_row = frame.set_index("row")["weight"].sort_index()
    np.testing.assert_allclose(by_row, found / found.sum())
    assert (np.diff(frame["weight"]) >= 0).all()
    size = found.sum() ** 2 / (found**2).sum()
    assert f"Effective sample size {say_number(size)}" in caption_of(ax)
    assert len(ax.collections[-1].get_offsets()) > 0


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_a_model_speaks_through_its_law(rows, law):
    X, y = rows
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
    _, of_model = plot_local_weights(model, X[0], X, y)
    _, of_law = plot_local_weights(model.law_.laws[-1], X[0], X, y)
    assert of_model.equals(of_law)
    np.testing.assert_array_equal(of_model["v"], y[of_model["row"]])


def test_methods_that_weigh_calibration_rows_have_their_own_kernel(rows):
    X, y = rows
    model = LCPRegressor(LinearRegression(), random_state=0).fit(X, y)
    _, frame = plot_local_weights(model, X[0], X)
    assert frame["weight"].sum() == pytest.approx(1.0)


def test_labels_and_missing_values_of_frames(rows):
    X, v = rows
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.loc[::5, "b"] = np.nan
    frame["kind"] = pd.Categorical(np.where(X[:, 0] > 0.5, "high", "low"))
    law = KernelLaw().fit(frame, v)
    _, drawn = plot_local_weights(law, frame[:1], frame, feature=("kind", "b"))
    assert set(drawn["x"]) == {"high", "low"}
    assert drawn["x2"].isna().sum() == N // 5
    ax, _ = plot_local_weights(law, frame[:1], frame, v, feature="kind")
    assert ax.get_xlabel() == "kind"


def test_the_heaviest_rows_are_always_drawn(rows):
    X, v = rows
    law = NeighborsLaw(n_neighbors=10).fit(X, v)
    ax, frame = plot_local_weights(law, X[0], X, max_points=40)
    assert len(frame) == 40
    assert frame["row"].is_unique
    assert frame["weight"].sum() == pytest.approx(1.0)
    assert f"of {N} rows drawn" in caption_of(ax)


def test_an_x_for_which_no_row_speaks(rows):
    X, v = rows
    law = KernelLaw("boxcar", bandwidth=0.1).fit(X, v)
    ax, frame = plot_local_weights(law, [50.0, 50.0], X)
    assert (frame["weight"] == 0.0).all()
    assert f"None of {N} rows speaks" in caption_of(ax)


def test_laws_without_a_kernel_are_refused(rows):
    X, y = rows
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="SplitConformalRegressor has no law with a kernel"):
        plot_local_weights(split, X[0], X)
    lines = LearnedLaw(QuantileRegressor(alpha=0))
    learned = SLCPRegressor(LinearRegression(), law=lines, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="no kernel between two rows"):
        plot_local_weights(learned, X[0], X)
    with pytest.raises(NotFittedError):
        plot_local_weights(KernelLaw(), X[0], X)


def test_shapes_that_do_not_match_are_refused(rows):
    X, v = rows
    law, frame = KernelLaw().fit(X, v), pd.DataFrame(X)
    with pytest.raises(ValueError, match="one row x"):
        plot_local_weights(law, X[:2], X)
    with pytest.raises(ValueError, match="same kind was expected"):
        plot_local_weights(law, frame.iloc[0], frame)
    with pytest.raises(ValueError, match="v is drawn upwards"):
        plot_local_weights(law, X[0], X, v, feature=(0, 1))
    with pytest.raises(ValueError, match="one column, or two"):
        plot_local_weights(law, X[0], X, feature=(0, 1, 0))
    with pytest.raises(ValueError, match="a column of X was expected"):
        plot_local_weights(law, frame[:1], frame, feature="z")


# ---- packages ------------------------------------------------------------------------------


@pytest.mark.ci
def test_importing_the_plots_loads_no_matplotlib_and_drawing_no_pyplot():
    code = (
        "import sys, localconformal.plots as plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.plot_comparison([0, 1], [0, 1], {'a': [[0, 1], [0, 1]]}, [0, 1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.ci
@pytest.mark.parametrize("missing", ["pandas", "matplotlib"])
def test_a_package_that_is_missing_is_named_with_its_extra(missing):
    code = (
        f"import inspect, sys; sys.modules[{missing!r}] = None\n"
        "from localconformal import plots\n"
        "for draw in (getattr(plots, name) for name in plots.__all__ if 'plot_' in name):\n"
        "    needed = inspect.signature(draw).parameters.values()\n"
        "    try:\n"
        "        draw(*[[0.0] for each in needed if each.default is each.empty])\n"
        "    except ImportError as error:\n"
        f"        assert str(error).startswith(draw.__name__ + ' needs {missing}')\n"
        "        assert \"pip install 'localconformal[plots]'\" in str(error)\n"
        "    else:\n"
        "        raise AssertionError(draw)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
