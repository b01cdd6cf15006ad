import io
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from localconformal.datasets import load_simulation
from localconformal.metrics import coverage
from localconformal.plots import plot_bands, plot_comparison, plot_regions
from localconformal.plots._axes import CAPTION

EDGES = np.arange(6.0)


@pytest.fixture
def data():
    simulation = load_simulation("sim2")
    X, y = simulation.sample(300, random_state=0)
    oracle = simulation.quantile(X, [0.05, 0.95])
    return X, y, oracle, {"narrow": oracle * 0.5, "wide": oracle + np.array([-1.0, 1.0])}


def caption_of(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid() == CAPTION).replace("\n", " ")


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


def test_no_method_may_have_the_name_of_the_oracle(data):
    X, y, oracle, bands = data
    with pytest.raises(ValueError, match="the name of oracle"):
        plot_bands(X, y, {"true quantiles": bands["wide"]}, oracle=oracle)
    ax, frame = plot_bands(X, y, {"true quantiles": oracle})
    assert frame["covered"].mean() == coverage(y, oracle)
    assert len(ax.lines) == 2


def test_several_features_are_refused(data):
    X, y, _, bands = data
    with pytest.raises(ValueError, match="one feature"):
        plot_bands(np.hstack([X, X]), y, bands)


def test_regions_average_to_the_coverage_of_all_rows(data):
    X, y, _, bands = data
    _, frame = plot_regions(X, y, bands, EDGES)
    for name, part in frame.groupby("method"):
        assert part["rows"].sum() == len(y)
        average = np.average(part["coverage"], weights=part["rows"])
        assert average == pytest.approx(coverage(y, bands[name]))


def test_regions_are_named_counted_and_in_per_cent(data):
    X, y, _, bands = data
    ax, _ = plot_regions(pd.Series(X[:, 0], name="depth"), y, bands, EDGES[:4])
    ax.figure.savefig(io.BytesIO(), dpi=30)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "coverage, %")
    assert max(float(tick.get_text()) for tick in ax.get_yticklabels()) >= 90
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(bands)
    outside = int((X[:, 0] > 3).sum())
    assert f"{outside} of 300 rows are in no region" in caption_of(ax)


def test_a_region_without_rows_has_no_coverage(data):
    X, y, _, bands = data
    _, frame = plot_regions(X, y, bands, [0.0, 5.0, 6.0])
    assert frame.loc[frame["left"] == 5.0, "coverage"].isna().all()


def test_the_last_region_is_closed():
    _, frame = plot_regions([1.0], [0.0], {"a": [[0, 0]]}, [0.0, 1.0])
    assert frame["rows"].tolist() == [1]


def test_comparison_returns_both_frames_and_draws_a_column_a_method(data, tmp_path):
    X, y, oracle, bands = data
    figure = Figure(layout="constrained")
    axes, frame = plot_comparison(X, y, bands, EDGES, oracle=oracle, title="Title", figure=figure)
    drawn, counted = frame.loc["bands"], frame.loc["regions"]
    assert axes.ravel().tolist() == figure.axes
    assert len(figure.axes) == 2 * len(bands)
    assert set(counted["method"]) == set(bands)
    assert set(drawn["method"]) == {*bands, "true quantiles"}
    figure.savefig(tmp_path / "figure.png")


def test_comparison_without_oracle(data):
    X, y, _, bands = data
    _, frame = plot_comparison(X, y, bands, EDGES)
    assert set(frame.loc["bands", "method"]) == set(bands)


def test_regions_of_labels_are_refused(data):
    _, y, _, bands = data
    with pytest.raises(ValueError, match="labels; numbers were expected"):
        plot_regions(["a", "b"] * 150, y, bands, EDGES)


def test_regions_count_no_missing_feature(data):
    X, y, _, bands = data
    X = X.copy()
    X[:10] = np.nan
    _, frame = plot_regions(X, y, bands, EDGES)
    assert frame.groupby("method")["rows"].sum().tolist() == [290, 290]


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
        "for draw in (getattr(plots, name) for name in plots.__all__):\n"
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
