"""The kernel law against Nadaraya-Watson written as a loop; its mini-batch; the neighbours."""

import math

import numpy as np
import pytest
from sklearn.utils._param_validation import InvalidParameterError

from localconformal import KernelLaw, NeighborsLaw, UniformLaw
from localconformal.quantiles import weighted_quantile

KERNEL = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "boxcar": lambda u: float(u <= 1),
    "epanechnikov": lambda u: max(1 - u * u, 0.0),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) * [1.0, 50.0] + [3.0, -7.0]
    shift = np.array([0.1, 3.0])
    return X, rng.integers(-5, 6, 80).astype(float), X[::7] + shift


def nadaraya_watson(X, v, x, h, kernel):
    """Weights at one x, in standardised features."""
    mean, scale = X.mean(axis=0), X.std(axis=0)
    raw = [KERNEL[kernel](math.dist((x - mean) / scale, (row - mean) / scale) / h) for row in X]
    return np.array(raw) / sum(raw)


@pytest.mark.parametrize("kernel", KERNEL)
def test_the_law_is_nadaraya_watson(data, kernel):
    X, v, queries = data
    law = KernelLaw(kernel, bandwidth=1.3, min_effective_samples=1).fit(X, v)
    levels = np.array([0.07, 0.31, 0.77, 0.93])
    quantile, mean = law.quantile(queries, levels), law.mean(queries)
    for i, x in enumerate(queries):
        w = nadaraya_watson(X, v, x, 1.3, kernel)
        assert law.cdf(x[None], [0.0])[0] == pytest.approx(w[v <= 0].sum(), abs=1e-9)
        assert law.cdf(x[None], [0.0], side="left")[0] == pytest.approx(w[v < 0].sum(), abs=1e-9)
        assert mean[i] == pytest.approx(w @ v, abs=1e-9)
        assert law.effective_sample_size(x[None])[0] == pytest.approx(1 / (w @ w))
        np.testing.assert_array_equal(quantile[i], weighted_quantile(v, w, levels))


@pytest.mark.parametrize("kernel", KERNEL)
@pytest.mark.parametrize("minimum", [1, 20])
def test_mean_and_effective_sample_size_follow_from_the_weights(data, kernel, minimum):
    X, v, queries = data
    law = KernelLaw(kernel, bandwidth=0.2, min_effective_samples=minimum).fit(X, v)
    w, ordered = law.engine_.weigh(law.rows(queries))[0], np.sort(v)
    w /= w.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(law.mean(queries), w @ ordered, atol=1e-12)
    np.testing.assert_allclose(law.mean(queries, absolute=True), w @ np.abs(ordered), atol=1e-12)
    np.testing.assert_allclose(law.effective_sample_size(queries), 1 / (w**2).sum(axis=1))
    assert np.all(law.effective_sample_size(queries) >= minimum * (1 - 1e-5))


def test_no_rows_and_no_numbers(data):
    X, v, _ = data
    law = KernelLaw().fit(X, v)
    assert law.quantile(X[:0], [0.1, 0.9]).shape == (0, 2)
    with pytest.raises(ValueError, match="NaN"):
        law.cdf(X, np.full(len(X), np.nan))


def test_an_infinite_bandwidth_is_no_localization(data):
    X, v, queries = data
    law, uniform = KernelLaw(bandwidth=np.inf).fit(X, v), UniformLaw().fit(X, v)
    levels = np.linspace(0.01, 0.99, 33)
    np.testing.assert_array_equal(law.quantile(queries, levels), uniform.quantile(queries, levels))
    np.testing.assert_allclose(law.mean(queries), uniform.mean(queries))
    assert not law.fallback(queries).any()


def test_the_minibatch_is_drawn_once_and_by_the_seed(data):
    X, v, queries = data
    laws = [
        KernelLaw(engine="minibatch", batch_size=size, bandwidth=1.0, random_state=seed).fit(X, v)
        for size, seed in ((0.25, 0), (20, 0), (0.25, 1), (None, 0), (10_000, 0))
    ]
    assert [len(law.engine_.v) for law in laws] == [20, 20, 20, 24, 80]
    quarter, twenty, other, _, everything = (law.mean(queries) for law in laws)
    np.testing.assert_array_equal(quarter, twenty)
    assert not np.array_equal(quarter, other)
    exact = KernelLaw(bandwidth=1.0).fit(X, v).mean(queries)
    np.testing.assert_allclose(everything, exact, rtol=1e-12)


def test_minibatch_rows_keep_their_own_scores(data):
    """The weight of a subset's row multiplies the score of that row, not of another."""
    X, _, _ = data
    v = 2.0 * X[:, 0] - X[:, 1]
    narrow = KernelLaw(
        engine="minibatch", batch_size=30, bandwidth=1e-6, min_effective_samples=1, random_state=0
    ).fit(X, v)
    kept = [row for row in range(80) if v[row] in narrow.engine_.v]
    assert len(kept) == 30
    np.testing.assert_allclose(narrow.mean(X[kept]), v[kept])


def test_bad_parameters_are_refused(data):
    X, v, _ = data
    for bad in ({"kernel": "cosine"}, {"engine": "gpu"}, {"batch_size": 1.5}, {"batch_size": 0}):
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            KernelLaw(**bad).fit(X, v)
    for bandwidth in (0.0, -1.0, "wide", float("nan"), None, True):
        with pytest.raises(ValueError, match=r"bandwidth is .*positive number"):
            KernelLaw(bandwidth=bandwidth).fit(X, v)


@pytest.mark.parametrize("k", [1, 5, 80, 500])
def test_neighbours_are_the_k_nearest_and_all_as_near(k):
    rng = np.random.default_rng(0)
    # A grid: many distances tie.
    X, v = rng.integers(0, 4, (80, 2)).astype(float), rng.normal(size=80)
    law = NeighborsLaw(n_neighbors=k).fit(X, v)
    for x in rng.integers(0, 4, (10, 2)).astype(float):
        distance = [math.dist(x / X.std(axis=0), row / X.std(axis=0)) for row in X]
        radius = sorted(distance)[min(k, 80) - 1] + 1e-9
        near = [score for score, d in zip(v, distance, strict=True) if d <= radius]
        assert law.mean(x[None])[0] == pytest.approx(np.mean(near))
        assert law.effective_sample_size(x[None])[0] == pytest.approx(len(near))
        assert law.cdf(x[None], [0.0])[0] == pytest.approx(np.mean(np.array(near) <= 0))


@pytest.mark.parametrize("k", [0, -1, 2.5, "many", None])
def test_a_bad_number_of_neighbours_is_refused(data, k):
    with pytest.raises(ValueError, match=r"n_neighbors is .*at least 1"):
        NeighborsLaw(n_neighbors=k).fit(*data[:2])
