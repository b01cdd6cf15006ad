import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from localconformal import (
    ForestLaw,
    KernelLaw,
    LCPRegressor,
    NeighborsLaw,
    SLCPRegressor,
    SplitConformalRegressor,
    UniformLaw,
)
from localconformal.plots import plot_local_weights
from localconformal.plots._axes import CAPTION
from localconformal.text import say_number

N = 200


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 2))
    return X, X[:, 0] * rng.normal(size=N)


def caption_of(ax):
    return " ".join(t.get_text() for t in ax.texts if t.get_gid() == CAPTION).replace("\n", " ")


LAWS = [KernelLaw(bandwidth=0.4), NeighborsLaw(n_neighbors=20), ForestLaw(random_state=0)]


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
    learned = SLCPRegressor(LinearRegression(), law="learned", random_state=0).fit(X, y)
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
