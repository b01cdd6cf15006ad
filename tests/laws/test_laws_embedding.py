"""Rows of any kind as points: frames, models, functions, a learned map, layers of networks."""

from datetime import datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import localconformal as lc
from inner import features
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


V = np.random.default_rng(0).normal(size=N)
AS_IS = FunctionTransformer()


def law_on(rows, v=V, **params):
    return lc.KernelLaw(bandwidth=0.5, **params).fit(rows, v)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_filled_standardised_and_labels_one_column_each(kind):
    when = np.arange(N, dtype=float)
    numbers = [np.nan_to_num(np.array(TABLE["number"], dtype=float), nan=2.0), TABLE["count"]]
    numbers = np.array([*numbers, TABLE["flag"], when], dtype=float).T
    labels = [[colour == one for one in ("red", "blue", None)] for colour in TABLE["colour"]]
    points = np.hstack([(numbers - numbers.mean(axis=0)) / numbers.std(axis=0), labels])
    expected, rows = law_on(points, embedding=AS_IS).mean(points), frame(kind)
    np.testing.assert_allclose(law_on(rows).mean(rows), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_medians_stand_in_for_gaps_and_unseen_labels_and_empty_columns_are_taken(kind):
    law = law_on(KINDS[kind]({"a": [1.0, 2.0, 9.0, None]}), V[:4])
    missing, median = law.mean(KINDS[kind]({"a": [None, 2.0]}))
    assert missing == median
    law = law_on(frame(kind))
    for colours in (["green"] * N, [None] * N):
        assert np.all(np.isfinite(law.mean(frame(kind, colour=colours))))
    empty = frame(kind, number=np.full(N, np.nan))
    assert np.all(np.isfinite(law_on(empty).mean(empty)))


def test_an_identifier_does_not_fill_the_memory_and_a_constant_column_adds_no_distance():
    assert features(pd.DataFrame({"id": [f"row {i}" for i in range(500)]})).shape[1] <= 50
    X, law = np.random.default_rng(0).normal(size=(50, 1)), lc.KernelLaw(bandwidth=0.3)
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
    plain, cube = lc.KernelLaw(bandwidth=0.5).fit(X, v), X.reshape(60, 3, 1)
    scaled = lc.KernelLaw(bandwidth=0.5, embedding=StandardScaler()).fit(X, v)
    assert_same_law(plain, X, scaled, X)
    assert_same_law(lc.KernelLaw(bandwidth=0.5).fit(cube, v), cube, plain, X)
    model = LinearRegression().fit(X, v)
    predictions = model.predict(X)[:, None]
    expected = lc.KernelLaw(bandwidth=0.5).fit(predictions, v)
    only_predicts = SimpleNamespace(predict=model.predict)
    for embedding in (model.predict, FrozenEstimator(model), only_predicts):
        law = lc.KernelLaw(bandwidth=0.5, embedding=embedding).fit(X, v)
        assert_same_law(law, X, expected, predictions)


def bounds(law, X, y, model=LinearRegression(), **params):  # noqa: B008
    fitted = lc.SLCPRegressor(model, law=law, random_state=0, **params).fit(X, y)
    return fitted.predict_interval(X)


def test_what_a_point_model_predicts_can_be_the_embedding(data):
    X, y = data
    model = FrozenEstimator(LinearRegression().fit(X, y))
    named, given = (
        bounds(lc.KernelLaw(bandwidth=0.5, embedding=embedding), X, y, model)
        for embedding in ("outputs", model.predict)
    )
    np.testing.assert_allclose(named, given)


def test_transformers_are_cloned_and_frozen_ones_are_not_fitted_again(data):
    X, v = data
    pca = PCA(n_components=1)
    lc.KernelLaw(embedding=pca).fit(X, v)
    assert not hasattr(pca, "components_")
    frozen = FrozenEstimator(pca.fit(X[:20]))
    law, points = lc.KernelLaw(embedding=frozen, bandwidth=0.5).fit(X, v), frozen.transform(X)
    assert_same_law(law, X, lc.KernelLaw(bandwidth=0.5).fit(points, v), points)


def test_the_name_outputs_needs_a_regressor_and_other_names_are_unknown(data):
    for name in ("outputs", "layers"):
        with pytest.raises(ValueError, match=rf"embedding='{name}'; .* one of 'outputs', "):
            lc.KernelLaw(embedding=name).fit(*data)


def test_infinite_coordinates_are_refused_at_fit_and_later(data):
    X, v = data
    broken = X.copy()
    broken[3, 1] = -np.inf
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        lc.KernelLaw().fit(broken, v)
    with pytest.raises(ValueError, match=r"infinite .*clean X"):
        lc.KernelLaw().fit(X, v).mean(broken)
    with pytest.raises(ValueError, match="NaN or infinite coordinates"):
        lc.KernelLaw(embedding=lambda X: np.full(len(X), np.nan)).fit(X, v)


@pytest.mark.parametrize("name", ci_but(["metric"], ["metric", "outputs-spread"]))
@pytest.mark.parametrize(
    "kind", ci_but([lc.KernelLaw], [lc.KernelLaw, lc.LearnedLaw, lc.ForestLaw])
)
def test_the_seed_of_a_law_is_that_of_its_embedding(kind, name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 12)), rng.normal(size=60)
    light = {"levels": (0.4, 0.6)} if kind is lc.LearnedLaw else {}
    first, same, other = (
        bounds(kind(embedding=name, random_state=seed, **light), X, y) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def secret(X):
    """A point model that a law cannot learn from the column it is made of."""
    return np.modf(1e3 * np.abs(np.sin(1e5 * np.asarray(X)[:, 0])))[0]


@pytest.mark.parametrize(
    "law",
    [
        lc.ForestLaw(random_state=0, n_jobs=1),
        lc.LearnedLaw(QuantileRegressor(alpha=0), levels=(0.1, 0.5, 0.9), n_jobs=1),
        lc.StackedLaw([lc.KernelLaw(bandwidth=0.2, embedding="outputs"), "kernel"], random_state=0),
    ],
    ids=lambda law: type(law).__name__,
)
def test_laws_see_what_the_point_model_says_wherever_zero_lies(law):
    """Only mu tells where scores are large."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1))
    mu = secret(X)
    y, point = mu + mu * rng.normal(size=400), SimpleNamespace(predict=secret)
    found = bounds(law, X, y, point)
    width = np.ptp(found, axis=1)
    assert width[mu > 0.8].mean() > 2 * width[mu < 0.2].mean()
    moved = bounds(law, X, y + 64.0, SimpleNamespace(predict=lambda X: secret(X) + 64.0))
    np.testing.assert_allclose(moved - 64.0, found, rtol=1e-6, atol=1e-6)


def wave(n, p, seed=0):
    """The first column speaks; the others are noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, p))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("p", ci_but([8], [1, 3, 8, 20]))
def test_noise_columns_are_ignored_and_kernel_regression_is_better_under_the_map(p):
    X, y = wave(600, p)
    metric = lc.LearnedMetric().fit(X, y)
    signal, *noise = np.linalg.norm(metric.map_, axis=0)
    assert metric.map_.shape == (min(10, p), p)
    assert signal > 3 * max(noise, default=0.0)
    X_new, y_new = wave(300, p, seed=1)
    learned, plain = (
        np.mean((y_new - lc.KernelLaw(bandwidth=1.0, embedding=one).fit(X, y).mean(X_new)) ** 2)
        for one in (metric, None)
    )
    assert learned < plain


def test_points_make_the_gaussian_of_bandwidth_one_the_kernel():
    X, y = wave(100, 4)
    metric = lc.LearnedMetric(n_components=2).fit(X, y)
    u, f = metric.transform(X), (X - X.mean(axis=0)) / X.std(axis=0)
    squared = np.sum((u[:1] - u) ** 2, axis=1)
    expected = np.mean(((f[:1] - f) @ metric.map_.T) ** 2, axis=1)
    np.testing.assert_allclose(squared / 2, expected)


def test_neither_the_order_of_rows_nor_the_unit_of_y_matters_but_the_seed_does():
    X, y = wave(300, 4)
    metric = lc.LearnedMetric(max_rows=200, n_iter=20)
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
        (lc.LearnedMetric(n_components=0), y, "n_components"),
        (lc.LearnedMetric(), y[:-1], "X has 20 rows and v has 19"),
        (lc.LearnedMetric(), np.where(y > 0, np.nan, y), "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            metric.fit(X, v)


X, Y = smooth_data(120, seed=0)


@pytest.fixture(scope="module")
def network():
    model = MLPRegressor(hidden_layer_sizes=(6, 4), solver="lbfgs", max_iter=9999, random_state=0)
    return model.fit(X[:30], Y[:30])


def test_the_last_hidden_layer_of_the_regressors_own_network(network):
    first = np.maximum(X @ network.coefs_[0] + network.intercepts_[0], 0)
    np.testing.assert_allclose(lc.HiddenLayer(network, layer=0).transform(X), first, atol=1e-12)
    last = lc.HiddenLayer(network).transform
    assert last(X).shape == (120, 4)
    named, given = (
        bounds(lc.KernelLaw(bandwidth=0.5, embedding=embedding), X, Y, FrozenEstimator(network))
        for embedding in ("hidden", last)
    )
    np.testing.assert_array_equal(named, given)


def test_layers_that_are_not_there_are_refused(network):
    for model, layer, message in (
        (network, 2, "a network with 2 hidden layers; expected a number from -2"),
        (network, -3, "a network with 2 hidden layers; expected a number from -2"),
        (LinearRegression().fit(X, Y), 0, "expected a fitted MLPRegressor"),
    ):
        with pytest.raises(ValueError, match=message):
            lc.HiddenLayer(model, layer).transform(X)
