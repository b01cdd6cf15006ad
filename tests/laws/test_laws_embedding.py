"""Rows of any kind as points: frames, models, functions, a learned map, layers of networks."""

import time
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localconformal import ForestLaw, HiddenLayer, KernelLaw, LearnedLaw, SLCPRegressor
from localconformal.laws.embedding import OutputEmbedding, fit_embedding
from localconformal.laws.features import MAX_CATEGORIES, FeatureEmbedding, typical_values
from localconformal.laws.metric import (
    LearnedMetric,
    Sample,
    held_out_error,
    leave_one_out,
    split,
    standardised,
)
from localconformal.laws.order import canonical_order
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
    assert np.all(np.isfinite(points))
    np.testing.assert_allclose(points[:, :4].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(points[:, :4].std(axis=0), 1.0)
    assert set(points[:, 4:].ravel()) == {0.0, 1.0}
    np.testing.assert_array_equal(points[:, 4:].sum(axis=1), 1.0)
    np.testing.assert_allclose(points[:, :4], points_of(frame("pandas"))[:, :4])


def test_a_typical_value_is_the_median_of_all_rows_in_any_order():
    column = np.repeat([0.0, 1.0], [100_000, 110_000])[:, None]
    for rows in (column, column[::-1]):
        np.testing.assert_array_equal(typical_values(rows), [1.0])
    np.testing.assert_array_equal(typical_values(np.full((3, 1), np.nan)), [0.0])
    np.testing.assert_array_equal(typical_values(np.array([[1.0, 5.0], [2.0, np.nan]])), [1.5, 5.0])
    # It stands in for a missing number.
    for kind in KINDS.values():
        embedding = FeatureEmbedding().fit(kind({"a": [1.0, 2.0, 9.0, None]}))
        missing, median = embedding.transform(kind({"a": [None, 2.0]}))
        np.testing.assert_array_equal(missing, median)


def test_dates_and_durations_are_numbers():
    days = pl.DataFrame({"d": [date(2020, 1, 1), date(2020, 1, 3), None]})
    spans = {"s": [timedelta(hours=1), timedelta(hours=3), timedelta(hours=2)]}
    for rows in (days, pl.DataFrame(spans), pd.DataFrame(spans)):
        first, second, third = FeatureEmbedding().fit(rows).transform(rows)[:, 0]
        assert first < third < second


@pytest.mark.parametrize("kind", KINDS)
def test_unseen_categories_and_all_missing_columns_are_taken(kind):
    empty = [None] * N
    embedding = FeatureEmbedding().fit(frame(kind))
    points = embedding.transform(frame(kind, colour=["green"] * N))
    np.testing.assert_array_equal(points[:, 4:], 0.0)
    gone = frame(kind, number=np.full(N, np.nan))
    assert np.all(np.isfinite(FeatureEmbedding().fit(gone).transform(gone)))
    assert np.all(np.isfinite(embedding.transform(frame(kind, colour=empty))))


def test_an_identifier_does_not_fill_the_memory_and_a_constant_column_adds_no_distance():
    rows = pd.DataFrame({"id": [f"row {i}" for i in range(500)]})
    assert points_of(rows).shape[1] <= MAX_CATEGORIES
    X = np.random.default_rng(0).normal(size=(50, 1))
    with_constant = np.column_stack([X, np.full(50, 0.1 + 0.2)])
    v = X[:, 0]
    for extra in (0.1 + 0.2, 0.3):
        queries = np.column_stack([X, np.full(50, extra)])
        got = KernelLaw(bandwidth=0.3).fit(with_constant, v).mean(queries)
        np.testing.assert_allclose(got, KernelLaw(bandwidth=0.3).fit(X, v).mean(X), rtol=1e-6)


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

    class OnlyPredict:
        def predict(self, X):
            return model.predict(X)

    for embedding in (model.predict, FrozenEstimator(model), OnlyPredict()):
        law = KernelLaw(bandwidth=0.5, embedding=embedding).fit(X, v)
        assert_same_law(law, X, expected, predictions)
    outputs = Outputs(model.predict, model.predict(X), v)
    law = KernelLaw(bandwidth=0.5, embedding="outputs").fit(X, v, outputs=outputs)
    assert_same_law(law, X, expected, predictions)


def test_transformers_are_cloned_and_frozen_ones_are_not_fitted_again(data):
    X, v = data
    pca = PCA(n_components=1)
    KernelLaw(embedding=pca).fit(X, v)
    assert not hasattr(pca, "components_")
    frozen = FrozenEstimator(PCA(n_components=1).fit(X[:20]))
    points = fit_embedding(frozen, X, v, None)[1]
    expected = frozen.transform(X)
    np.testing.assert_allclose(points, (expected - expected.mean()) / expected.std())


def test_the_name_outputs_needs_a_regressor_and_other_names_are_unknown(data):
    for name in ("outputs", "layers"):
        with pytest.raises(ValueError, match=rf"embedding is '{name}'; only 'outputs', "):
            KernelLaw(embedding=name).fit(*data)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_coordinates_are_refused_at_fit_and_later(data, bad):
    X, v = data
    broken = X.copy()
    broken[3, 1] = bad
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


def outputs_of(X, shift=0.0):
    return Outputs(lambda rows: np.asarray(rows)[:, 0] + shift, X[:, 0] + shift, X[:, 0] + shift)


def test_a_spread_is_learned_where_it_is_asked_for_and_zero_may_lie_anywhere(data):
    X, v = data
    for spread in (False, True):
        embedding = OutputEmbedding(outputs_of(X), spread=spread)
        assert embedding.fit_transform(X, v).shape == (60, 1 + spread)
        assert embedding.transform(X[:5]).shape == (5, 1 + spread)
    _, here = fit_view(None, X, v, outputs_of(X))
    view, there = fit_view(None, X, v, outputs_of(X, shift=50.0))
    np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(view(X), there, rtol=1e-9, atol=1e-9)


# ---- a learned linear map ---------------------------------------------------------------------


def sample(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return Sample(rng.normal(size=(n, p)), rng.normal(size=n))


def by_hand(A, rows):
    """Leave-one-out kernel regression with an observation of weight 1 at 0, in plain loops."""
    total, n = 0.0, len(rows.y)
    for i in range(n):
        above, below = 0.0, 1.0
        for j in range(n):
            if j != i:
                K = np.exp(-np.mean((A @ (rows.points[i] - rows.points[j])) ** 2))
                above, below = above + K * rows.y[j], below + K
        total += (rows.y[i] - above / below) ** 2
    return total / n


@pytest.mark.parametrize(("r", "p"), [(1, 1), (2, 5), (3, 3)])
def test_the_loss_is_that_of_kernel_regression_and_its_gradient_is_right(r, p):
    rows, A = sample(25, p), np.random.default_rng(1).normal(size=(r, p))
    loss, gradient = leave_one_out(A, rows)
    assert loss == pytest.approx(by_hand(A, rows))
    numeric = approx_fprime(A.ravel(), lambda flat: by_hand(flat.reshape(r, p), rows), 1e-6)
    np.testing.assert_allclose(gradient.ravel(), numeric, atol=1e-5)
    held, expected = sample(4, p, seed=1), 0.0
    for x, y in zip(held.points, held.y, strict=True):
        K = np.exp(-np.mean(((rows.points - x) @ A.T) ** 2, axis=1))
        expected += (y - K @ rows.y / (1.0 + K.sum())) ** 2
    assert held_out_error(A, rows, held) == pytest.approx(expected)


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


def test_the_descent_helps_and_the_best_map_is_kept():
    """More steps never make the error on the held rows worse, as later maps would at times."""
    X, y = wave(80, 12)
    errors = []
    for n_iter in (0, 5, 50):
        metric = LearnedMetric(n_iter=n_iter).fit(X, y)
        points = metric.features_.transform(X)
        rows = canonical_order(points, y)[np.random.default_rng(0).permutation(len(y))]
        parts = split(points[rows], standardised(y[rows]))
        errors.append(held_out_error(metric.map_, *parts))
    assert errors[0] > errors[1] >= errors[2]


def test_bad_input_is_refused():
    X, y = wave(20, 2)
    with pytest.raises(ValueError, match="n_components"):
        LearnedMetric(n_components=0).fit(X, y)
    with pytest.raises(ValueError, match="X has 20 rows and v has 19"):
        LearnedMetric().fit(X, y[:-1])
    with pytest.raises(ValueError, match="NaN"):
        LearnedMetric().fit(X, np.where(y > 0, np.nan, y))


def test_laws_learn_it_from_responses_inside_a_regressor_and_from_scores_alone():
    X, y = wave(200, 3)
    v = np.abs(X[:, 2])
    alone = KernelLaw(bandwidth=1.0, embedding=LearnedMetric()).fit(X, v)
    np.testing.assert_array_equal(alone.embedding_.embedding.map_, LearnedMetric().fit(X, v).map_)
    for embedding in ("metric", LearnedMetric()):
        law = KernelLaw(bandwidth=1.0, embedding=embedding)
        model = SLCPRegressor(
            LinearRegression(), law=law, calibration_size=None, random_state=0
        ).fit(X, y)
        inside = model.law_.laws[0].embedding_
        learned = inside.embedding.embedding
        # By name it has the seed of the law, as an object its own.
        assert (learned.random_state == 0) == (embedding != "metric")
        expected = LearnedMetric(random_state=learned.random_state).fit(X, y).map_
        np.testing.assert_array_equal(learned.map_, expected)
        assert inside.scaler_ is None


@pytest.mark.ci
def test_it_takes_seconds_whatever_the_number_of_rows():
    X, y = wave(20_000, 60)
    start = time.process_time()
    LearnedMetric().fit(X, y)
    assert time.process_time() - start < 6


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
    layer = HiddenLayer(fitted).transform(X)
    assert layer.shape == (120, 4)
    assert np.all(layer >= 0.0)
    first = HiddenLayer(fitted, layer=0).transform(X)
    np.testing.assert_allclose(
        first, np.maximum(X @ fitted.coefs_[0] + fitted.intercepts_[0], 0), atol=1e-12
    )


def test_layers_that_are_not_there_are_refused(network):
    for layer in (2, -3, 7):
        with pytest.raises(ValueError, match="the network has 2 hidden layers; a number from -2"):
            HiddenLayer(network, layer).transform(X)
    with pytest.raises(ValueError, match="a fitted MLPRegressor was expected"):
        HiddenLayer(LinearRegression().fit(X, Y)).transform(X)
