"""Rows of any kind as points: frames, models, functions, a learned map, layers of networks."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localconformal import ForestLaw, HiddenLayer, KernelLaw, LearnedLaw, SLCPRegressor, StackedLaw
from localconformal.laws.features import MAX_CATEGORIES, FeatureEmbedding
from localconformal.laws.metric import (
    LearnedMetric,
    Sample,
    held_out_error,
    leave_one_out,
)
from localconformal.laws.outputs import Outputs, blank_outputs
from localconformal.laws.view import fit_view
from registry import ci_but, smooth_data

N = 12
TABLE = {
    "number": [0.5, None, 2.0, 3.5] * 3,
    "count": [1, 2, 3, 4] * 3,
    "flag": [True, False, True, True] * 3,
    "colour": ["red", "blue", "red", None] * 3,
    "when": [datetime(2020, 1, 1) + timedelta(days=i) for i in range(N)],
}
KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame}


def frame(kind, **changes):
    return KINDS[kind]({**TABLE, **changes})


def points_of(rows):
    return FeatureEmbedding().fit(rows).transform(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_mixed_frames_become_finite_points(kind):
    points = points_of(frame(kind))
    # number, count, flag, when; red, blue and missing as three columns.
    assert points.shape == (N, 7)
    np.testing.assert_allclose(points[:, :4].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(points[:, :4].std(axis=0), 1.0)
    assert set(points[:, 4:].ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(points[:, 4:].sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_median_stands_in_for_a_missing_number(kind):
    embedding = FeatureEmbedding().fit(KINDS[kind]({"a": [1.0, 2.0, 9.0, None]}))
    missing, median = embedding.transform(KINDS[kind]({"a": [None, 2.0]}))
    np.testing.assert_array_equal(missing, median)


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_categories_and_all_missing_columns_are_taken(kind):
    embedding = FeatureEmbedding().fit(frame(kind))
    for colours in (["green"] * N, [None] * N):
        assert np.all(np.isfinite(embedding.transform(frame(kind, colour=colours))))
    assert np.all(np.isfinite(points_of(frame(kind, number=np.full(N, np.nan)))))


def test_an_identifier_does_not_fill_the_memory_and_a_constant_column_adds_no_distance():
    rows = pd.DataFrame({"id": [f"row {i}" for i in range(500)]})
    assert points_of(rows).shape[1] <= MAX_CATEGORIES
    X = np.random.default_rng(0).normal(size=(50, 1))
    law = KernelLaw(bandwidth=0.3)
    expected = law.fit(X, X[:, 0]).mean(X)
    law.fit(np.column_stack([X, np.full(50, 0.1 + 0.2)]), X[:, 0])
    for extra in (0.1 + 0.2, 0.3):
        found = law.mean(np.column_stack([X, np.full(50, extra)]))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, X[:, 0] ** 2 + rng.normal(size=60)


def assert_same_law(one, X, other, Q):
    np.testing.assert_allclose(one.mean(X), other.mean(Q))
    np.testing.assert_array_equal(one.quantile(X, [0.1, 0.9]), other.quantile(Q, [0.1, 0.9]))


def test_points_are_standardised_whatever_gives_them(data):
    X, v = data
    plain, cube = KernelLaw(bandwidth=0.5).fit(X, v), X.reshape(60, 3, 1)
    scaled = KernelLaw(bandwidth=0.5, embedding=StandardScaler()).fit(X, v)
    assert_same_law(plain, X, scaled, X)
    # Rows of more dimensions are flattened.
    assert_same_law(KernelLaw(bandwidth=0.5).fit(cube, v), cube, plain, X)
    model = LinearRegression().fit(X, v)
    predictions = model.predict(X)[:, None]
    expected = KernelLaw(bandwidth=0.5).fit(predictions, v)
    only_predicts = SimpleNamespace(predict=model.predict)
    outputs = Outputs(model.predict, model.predict(X), v)
    for embedding in (model.predict, FrozenEstimator(model), only_predicts, "outputs"):
        law = KernelLaw(bandwidth=0.5, embedding=embedding).fit(X, v, outputs=outputs)
        assert_same_law(law, X, expected, predictions)


def test_transformers_are_cloned_and_frozen_ones_are_not_fitted_again(data):
    X, v = data
    pca = PCA(n_components=1)
    KernelLaw(embedding=pca).fit(X, v)
    assert not hasattr(pca, "components_")
    frozen = FrozenEstimator(pca.fit(X[:20]))
    law = KernelLaw(embedding=frozen, bandwidth=0.5).fit(X, v)
    points = frozen.transform(X)
    assert_same_law(law, X, KernelLaw(bandwidth=0.5).fit(points, v), points)


def test_the_name_outputs_needs_a_regressor_and_other_names_are_unknown(data):
    for name in ("outputs", "layers"):
        with pytest.raises(ValueError, match=rf"embedding is '{name}'; only 'outputs', "):
            KernelLaw(embedding=name).fit(*data)


def test_infinite_coordinates_are_refused_at_fit_and_later(data):
    X, v = data
    broken = X.copy()
    broken[3, 1] = -np.inf
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        KernelLaw().fit(broken, v)
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        KernelLaw().fit(X, v).mean(broken)
    with pytest.raises(ValueError, match="NaN or infinite coordinates"):
        KernelLaw(embedding=lambda X: np.full(len(X), np.nan)).fit(X, v)


@pytest.mark.parametrize("name", ci_but(["metric"], ["metric", "outputs-spread"]))
@pytest.mark.parametrize("kind", ci_but([KernelLaw], [KernelLaw, LearnedLaw, ForestLaw]))
def test_the_seed_of_a_law_is_that_of_its_embedding(kind, name):
    rng = np.random.default_rng(0)
    X, v = rng.normal(size=(60, 12)), rng.normal(size=60)
    light = {"levels": (0.4, 0.6)} if kind is LearnedLaw else {}
    seen = [
        kind(embedding=name, random_state=seed, **light).fit(X, v, outputs=blank_outputs(v))
        for seed in (0, 0, 1)
    ]
    first, same, other = (
        (law.embedding_ if kind is KernelLaw else law.view_.embedding).transform(X) for law in seen
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_zero_may_lie_anywhere(data):
    X, v = data

    def seen(zero):
        mu = X[:, 0] + zero
        return fit_view(None, X, v, Outputs(lambda rows: rows[:, 0] + zero, mu, mu))

    (_, here), (view, there) = seen(0.0), seen(50.0)
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(view(X), there, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "law",
    [
        ForestLaw(),
        LearnedLaw(QuantileRegressor(alpha=0), levels=(0.1, 0.5, 0.9)),
        StackedLaw([KernelLaw(bandwidth=0.2, embedding="outputs"), "kernel"]),
    ],
    ids=lambda law: type(law).__name__,
)
def test_laws_see_what_the_point_model_says(law):
    """Only mu tells where scores are large."""
    rng = np.random.default_rng(0)
    X, mu = rng.normal(size=(300, 1)), rng.uniform(size=300)
    v = mu * rng.normal(size=300)
    outputs = Outputs(lambda Q: np.array([0.1, 0.9]), mu, mu + v)
    law.set_params(random_state=0, n_jobs=1).fit(X, v, outputs=outputs)
    narrow, wide = np.ptp(law.quantile(np.zeros((2, 1)), [0.1, 0.9]), axis=1)
    assert wide > 2 * narrow


# ---- a learned linear map ---------------------------------------------------------------------


def by_hand(A, rows):
    """Leave-one-out kernel regression with an observation of weight 1 at 0."""
    K = np.exp(-cdist(rows.points @ A.T, rows.points @ A.T, "sqeuclidean") / len(A))
    np.fill_diagonal(K, 0.0)
    return np.mean((rows.y - K @ rows.y / (1.0 + K.sum(axis=1))) ** 2)


@pytest.mark.parametrize(("r", "p"), [(1, 1), (2, 5), (3, 3)])
def test_the_loss_is_that_of_kernel_regression_and_its_gradient_is_right(r, p):
    rng = np.random.default_rng(1)
    rows, A = Sample(rng.normal(size=(25, p)), rng.normal(size=25)), rng.normal(size=(r, p))
    loss, gradient = leave_one_out(A, rows)
    assert loss == pytest.approx(by_hand(A, rows))
    numeric = approx_fprime(A.ravel(), lambda flat: by_hand(flat.reshape(r, p), rows), 1e-6)
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-5)


def wave(n, p, seed=0):
    """The first column speaks; the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, p))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("p", ci_but([8], [1, 3, 8, 20]))
def test_noise_columns_are_ignored_and_kernel_regression_is_better_under_the_map(p):
    X, y = wave(600, p)
    metric = LearnedMetric().fit(X, y)
    signal, *noise = np.linalg.norm(metric.map_, axis=0)
    assert metric.map_.shape == (min(10, p), p)
    assert signal > 3 * max(noise, default=0.0)
    (X_new, y_new), to_points = wave(300, p, seed=1), metric.features_.transform
    learned, plain = (
        held_out_error(A, Sample(to_points(X), y), Sample(to_points(X_new), y_new))
        for A in (metric.map_, np.eye(p)[: len(metric.map_)])
    )
    assert learned < plain


def test_points_make_the_gaussian_of_bandwidth_one_the_kernel():
    X, y = wave(100, 4)
    metric = LearnedMetric(n_components=2).fit(X, y)
    u, f = metric.transform(X), (X - X.mean(axis=0)) / X.std(axis=0)
    squared = np.sum((u[:1] - u) ** 2, axis=1)
    expected = np.mean(((f[:1] - f) @ metric.map_.T) ** 2, axis=1)
    np.testing.assert_allclose(squared / 2, expected)


def test_neither_the_order_of_rows_nor_the_unit_of_y_matters_but_the_seed_does():
    X, y = wave(300, 4)
    metric = LearnedMetric(max_rows=200, n_iter=20)
    expected = clone(metric).fit(X, y).map_
    # Means of the features may differ in their last bits.
    turned = clone(metric).fit(X[::-1], y[::-1]).map_
    np.testing.assert_allclose(turned, expected, rtol=1e-7, atol=1e-9)
    for scale, shift in ((1e3, 0.0), (1e-6, 0.0), (1.0, 100.0)):
        moved = clone(metric).fit(X, scale * y + shift).map_
        np.testing.assert_allclose(moved, expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(expected, clone(metric).set_params(random_state=1).fit(X, y).map_)


def test_bad_input_is_refused():
    X, y = wave(20, 2)
    for metric, v, message in (
        (LearnedMetric(n_components=0), y, "n_components"),
        (LearnedMetric(), y[:-1], "X has 20 rows and v has 19"),
        (LearnedMetric(), np.where(y > 0, np.nan, y), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            metric.fit(X, v)


@pytest.mark.parametrize("embedding", ["metric", LearnedMetric()], ids=str)
def test_laws_learn_it_from_responses_inside_a_regressor(embedding):
    X, y = wave(200, 3)
    law = KernelLaw(bandwidth=1.0, embedding=embedding)
    model = SLCPRegressor(LinearRegression(), law=law, calibration_size=None, random_state=0)
    learned = model.fit(X, y).law_.laws[0].embedding_.embedding.embedding
    # By name it has the seed of the law, as an object its own.
    assert (learned.random_state == 0) == (embedding != "metric")
    expected = LearnedMetric(random_state=learned.random_state).fit(X, y).map_
    np.testing.assert_array_equal(learned.map_, expected)


# ---- hidden layers ----------------------------------------------------------------------------

X, Y = smooth_data(120, seed=0)


@pytest.fixture(scope="module")
def network():
    """A fitted network of two hidden layers."""
    model = MLPRegressor(hidden_layer_sizes=(6, 4), solver="lbfgs", max_iter=9999, random_state=0)
    return model.fit(X[:30], Y[:30])


def test_a_hidden_layer_survives_the_cloning_of_its_law(network):
    for model in (make_pipeline(StandardScaler().fit(X), network), FrozenEstimator(network)):
        law = KernelLaw(embedding=HiddenLayer(model))
        model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, Y)
        assert np.isfinite(model.predict_interval(X[:30])).all()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_last_hidden_layer_of_the_regressors_own_network():
    small = MLPRegressor(hidden_layer_sizes=(6, 4), max_iter=5, random_state=0)
    model = SLCPRegressor(small, law=KernelLaw(embedding="hidden"), random_state=0).fit(X, Y)
    fitted = model.score_.model_
    assert HiddenLayer(fitted).transform(X).shape == (120, 4)
    first = np.maximum(X @ fitted.coefs_[0] + fitted.intercepts_[0], 0)
    np.testing.assert_allclose(HiddenLayer(fitted, layer=0).transform(X), first, atol=1e-12)


def test_layers_that_are_not_there_are_refused(network):
    for model, layer, message in (
        (network, 2, "the network has 2 hidden layers; a number from -2"),
        (network, -3, "the network has 2 hidden layers; a number from -2"),
        (LinearRegression().fit(X, Y), 0, "a fitted MLPRegressor was expected"),
    ):
        with pytest.raises(ValueError, match=message):
            HiddenLayer(model, layer).transform(X)
