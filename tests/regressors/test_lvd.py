"""LVD: the weighted quantile around the row itself, and what it does and does not promise."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

from localconformal import (
    ForestLaw,
    KernelLaw,
    NeighborsLaw,
    NormalisedScore,
    SplitConformalRegressor,
)
from localconformal.engine.kernels import KERNELS
from localconformal.laws.layers import HiddenLayer
from localconformal.laws.metric import LearnedMetric
from localconformal.quantiles import weighted_conformal_quantile
from localconformal.regressors.lvd import LVDRegressor
from registry import awkward_data, smooth_data


def lvd(law=None, estimator=None, **params):
    estimator = LinearRegression() if estimator is None else estimator
    return LVDRegressor(estimator, law=law, **{"random_state": 0, **params})


def quietly(model, X, **params):
    """Intervals, of which some are infinite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.predict_interval(X, **params)


@pytest.mark.parametrize("score", ["residual", "absolute", "normalised"])
def test_intervals_equal_those_of_the_formula(score):
    X, y = smooth_data(500, seed=1)
    model = lvd(score=score, calibration_size=None).fit(X, y)
    X_cal, y_cal = smooth_data(200, seed=2)
    new = smooth_data(50, seed=3)[0]
    model.conformalize(X_cal, y_cal)
    A = model.localizer_.embedding.embedding.embedding.map_

    def units(rows):
        return (rows - X.mean(axis=0)) / X.std(axis=0) @ A.T

    K = np.exp(-cdist(units(new), units(X_cal), "sqeuclidean") / len(A))
    scores = model.score_.values(model.score_.band(X_cal), y_cal).max(axis=1)
    half = weighted_conformal_quantile(scores, K, np.ones(50), 0.9)
    spread = model.score_.values(model.score_.band(new), model.predict(new) + 1.0)[:, 1]
    bounds = model.predict(new)[:, None] + np.array([-1.0, 1.0]) * (half / spread)[:, None]
    np.testing.assert_allclose(quietly(model, new), bounds, rtol=1e-6)
    np.testing.assert_array_equal(np.isinf(half), 1.0 / (1.0 + K.sum(axis=1)) > 0.1)


def test_the_metric_learns_from_the_response_by_object_and_by_name():
    X, y = smooth_data(400, seed=0)
    for embedding in ("metric", LearnedMetric()):
        law = KernelLaw(bandwidth=1.0, embedding=embedding, engine="reference")
        learned = lvd(law, calibration_size=None).fit(X, y).localizer_.embedding.embedding.embedding
        # By name it has the seed of the law.
        expected = LearnedMetric(random_state=learned.random_state).fit(X, y).map_
        np.testing.assert_array_equal(learned.map_, expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_infinite_bandwidth_is_split_conformal(kernel):
    X, y = awkward_data(300, seed=0)
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    local = lvd(KernelLaw(kernel, bandwidth=np.inf, engine="reference")).fit(X, y)
    levels = [0.5, 0.9, 0.95]
    np.testing.assert_array_equal(
        local.predict_interval(X, levels), split.predict_interval(X, levels)
    )


@pytest.mark.parametrize("law", [NeighborsLaw(60), ForestLaw(n_jobs=1), "uniform"])
def test_the_kernel_of_any_law_will_do(law):
    X, y = smooth_data(300, seed=0)
    model = lvd(law).fit(X, y)
    assert quietly(model, X).shape == (300, 2)
    if law == "uniform":
        split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.predict_interval(X), split.predict_interval(X))


def test_one_by_one_equals_batch():
    X, y = awkward_data(400, seed=0, d=4)
    model, new = lvd().fit(X, y), awkward_data(40, seed=9, d=4)[0]
    points = model.localizer_.view(new)
    for rows in (new, np.asfortranarray(new)):
        alone = np.concatenate([model.localizer_.view(rows[i : i + 1]) for i in range(40)])
        np.testing.assert_array_equal(points, alone)
    single = np.concatenate([quietly(model, row[None]) for row in new])
    np.testing.assert_allclose(quietly(model, new), single, rtol=1e-12, atol=1e-12)


def test_infinite_intervals_are_reported():
    X, y = smooth_data(120, seed=0)
    model = lvd(KernelLaw(bandwidth=1e-3, engine="reference")).fit(X, y)
    new = smooth_data(20, seed=5)[0]
    with pytest.warns(UserWarning, match="20 of 20 intervals are infinite"):
        assert np.isinf(model.predict_interval(new)).all()
    assert model.diagnose(new)["infinite"].all()


def test_nothing_is_promised():
    promise = lvd().fit(*smooth_data(200, seed=0)).guarantee_
    assert not promise.marginal
    assert not promise.finite_sample
    assert str(promise).startswith("No coverage level is guaranteed.")
    for words in ("fixed in advance", "too high", "infinite"):
        assert words in str(promise)


def test_narrow_kernels_cover_too_much_by_infinite_intervals():
    """n = 100, h = 0.1, X ~ N(0, 1): 70 % are infinite where the definition is simulated."""
    law = KernelLaw(bandwidth=0.1, embedding=_Same(), engine="reference")
    model = LVDRegressor(_Zero(), law=law, calibration_size=100, random_state=0)
    infinite, covered = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(310, 1))
        y = (0.2 + np.abs(X[:, 0])) * rng.normal(size=310)
        lower, upper = quietly(model.fit(X[:110], y[:110]), X[110:]).T
        infinite.append(np.mean(np.isinf(upper)))
        covered.append(np.mean((lower <= y[110:]) & (y[110:] <= upper)))
    assert np.mean(infinite) == pytest.approx(0.70, abs=0.03)
    assert np.mean(covered) > 0.94


class _Zero:
    def predict(self, X):
        return np.zeros(len(X))


class _Same:
    """The rows themselves, neither centred nor scaled."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, v=None):
        return self

    def transform(self, X):
        return np.asarray(X)


@pytest.mark.ci
@pytest.mark.parametrize("score", ["residual", NormalisedScore(LinearRegression())])
def test_it_covers_at_least_the_level_on_average_over_seeds(score):
    """Not a promise: what happens on heteroscedastic data."""
    shares = []
    for seed in range(60):
        X, y = smooth_data(900, seed=seed)
        model = lvd(score=score, random_state=seed).fit(X[:600], y[:600])
        lower, upper = quietly(model, X[600:]).T
        shares.append(np.mean((lower <= y[600:]) & (y[600:] <= upper)))
    assert np.mean(shares) >= 0.9


def test_the_metric_of_a_hidden_layer_by_object_and_by_name():
    X, y = smooth_data(300, seed=0)
    network = MLPRegressor(hidden_layer_sizes=(6, 4), max_iter=300, random_state=0).fit(X, y)
    layer = HiddenLayer(network)
    for embedding in ("hidden-metric", LearnedMetric(layer=layer)):
        law = KernelLaw(bandwidth=1.0, embedding=embedding, engine="reference")
        model = lvd(law, FrozenEstimator(network), calibration_size=None).fit(X, y)
        learned = model.localizer_.embedding.embedding.embedding
        expected = LearnedMetric(random_state=learned.random_state).fit(layer.transform(X), y)
        np.testing.assert_array_equal(learned.map_, expected.map_)
        model.conformalize(X, y)
        one_by_one = np.concatenate([quietly(model, X[i : i + 1]) for i in range(5)])
        # Not to the last bit: the network's own predictions depend on the batch there.
        np.testing.assert_allclose(quietly(model, X)[:5], one_by_one, rtol=1e-12)
