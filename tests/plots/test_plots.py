import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from localconformal.datasets import load_simulation
from localconformal.metrics import coverage
from localconformal.plots import bands_frame, plot_bands, plot_comparison, plot_regions

EDGES = np.arange(6.0)


@pytest.fixture
def data():
    simulation = load_simulation("sim2")
    X, y = simulation.sample(300, random_state=0)
    oracle = simulation.quantile(X, [0.05, 0.95])
    return X, y, oracle, {"narrow": oracle * 0.5, "wide": oracle + np.array([-1.0, 1.0])}


def test_bands_frame_holds_every_row_of_every_method(data):
    X, y, oracle, bands = data
    frame = plot_bands(Figure().subplots(), X, y, bands, oracle=oracle)
    assert list(frame.columns) == ["method", "x", "y", "lower", "upper", "covered"]
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
    plot_bands(ax, X, y, bands, oracle=oracle)
    assert len(ax.lines) == 2 * (len(bands) + 1)
    for line in ax.lines:
        assert (np.diff(line.get_xdata()) >= 0).all()


def test_one_column_or_none_is_the_same_feature(data):
    X, y, _, bands = data
    assert bands_frame(X, y, bands).equals(bands_frame(X[:, 0], y, bands))


def test_several_features_are_refused(data):
    X, y, _, bands = data
    with pytest.raises(ValueError, match="one feature"):
        plot_bands(Figure().subplots(), np.hstack([X, X]), y, bands)


def test_regions_average_to_the_coverage_of_all_rows(data):
    X, y, _, bands = data
    frame = plot_regions(Figure().subplots(), X, y, bands, EDGES)
    for name, part in frame.groupby("method"):
        assert part["rows"].sum() == len(y)
        average = np.average(part["coverage"], weights=part["rows"])
        assert average == pytest.approx(coverage(y, bands[name]))


def test_a_region_without_rows_has_no_coverage(data):
    X, y, _, bands = data
    frame = plot_regions(Figure().subplots(), X, y, bands, [0.0, 5.0, 6.0])
    assert frame.loc[frame["left"] == 5.0, "coverage"].isna().all()


def test_the_last_region_is_closed():
    frame = plot_regions(Figure().subplots(), [1.0], [0.0], {"a": [[0, 0]]}, [0.0, 1.0])
    assert frame["rows"].tolist() == [1]


def test_comparison_returns_both_frames_and_draws_a_column_a_method(data, tmp_path):
    X, y, oracle, bands = data
    figure = Figure(layout="constrained")
    drawn, counted = plot_comparison(figure, X, y, bands, EDGES, oracle=oracle, title="Title")
    assert len(figure.axes) == 2 * len(bands)
    assert set(counted["method"]) == set(bands)
    assert set(drawn["method"]) == {*bands, "true quantiles"}
    figure.savefig(tmp_path / "figure.png")


def test_comparison_without_oracle(data):
    X, y, _, bands = data
    drawn, _ = plot_comparison(Figure(), X, y, bands, EDGES)
    assert set(drawn["method"]) == set(bands)


def test_importing_the_plots_loads_no_matplotlib_and_drawing_no_pyplot():
    code = (
        "import sys, localconformal.plots as plots\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from matplotlib.figure import Figure\n"
        "plots.plot_comparison(Figure(), [0, 1], [0, 1], {'a': [[0, 1], [0, 1]]}, [0, 1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
