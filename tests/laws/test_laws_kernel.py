"""Kernel and neighbour laws: bandwidth rules, Nadaraya-Watson as a loop, nearest neighbours."""

import math
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

import localconformal as lc
from localconformal.quantiles import weighted_quantile
from registry import ci_but

#: K of a squared distance in units of the bandwidth.
KERNELS = {
    "gaussian": lambda u2: np.exp(-u2 / 2),
    "boxcar": lambda u2: (u2 <= 1.0).astype(float),
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}
EACH = pytest.mark.parametrize("kernel", KERNELS)


def chosen(rule, points, v=None, kernel="gaussian", minimum=10.0):
    law = lc.KernelLaw(kernel, bandwidth=rule, embedding=FunctionTransformer(), random_state=3)
    law.set_params(min_effective_samples=minimum)
    return law.fit(points, np.zeros(len(points)) if v is None else v).bandwidth_


def drawn(n=60, d=2):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, d)), rng.normal(size=n)


@pytest.fixture(scope="module")
def points():
    rows = np.random.default_rng(0).normal(size=(41, 3))
    # A third of the rows coincide: zero distances must not drag the median down.
    rows[20:34] = rows[20]
    return rows


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        ("median", 1.0),
        ("median-log", 1 / math.sqrt(2 * math.log(41))),
    ],
)
def test_rules_are_the_median_of_the_positive_distances_times_their_factor(rule, factor, points):
    positive = pdist(points)[pdist(points) > 0]
    assert chosen(rule, points) == pytest.approx(statistics.median(positive) * factor)


def test_any_quantile_of_the_distances_of_many_rows_nearly_and_by_the_seed(points):
    positive = pdist(points)[pdist(points) > 0]
    for q in (0.0, 0.1, 0.9, 1.0):
        below, above = (np.quantile(positive, q, method=name) for name in ("lower", "higher"))
        found = chosen(lc.DistanceQuantile(q), points)
        assert below * (1 - 1e-12) <= found <= above * (1 + 1e-12)
    many = np.random.default_rng(0).normal(size=(2_500, 2))
    sampled, again = (chosen("median", many) for _ in range(2))
    assert sampled == again == pytest.approx(np.median(pdist(many)), rel=0.05)


def narrow_signal(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, np.sin(20 * X[:, 0]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", ci_but(["gaussian"], KERNELS))
def test_cross_validation_is_narrow_for_a_narrow_signal_and_wide_for_none(kernel):
    """A row that answered for itself would make the narrowest win always."""
    X, v = narrow_signal(500)
    median = chosen("median", X)
    assert chosen("cv", X, v, kernel) < 0.3 * median
    noise = np.random.default_rng(1).normal(size=(5, 500))
    without_signal = [chosen("cv", X, v, kernel) for v in noise]
    assert statistics.median(without_signal) > 0.8 * median
    # Of equal losses the widest bandwidth wins.
    assert chosen("cv", X, np.zeros(500), kernel) == pytest.approx(4 * median)


def effective_size(kernel, squared, h):
    """n / |W|^2 - 1 of the row-stochastic matrix W."""
    W = KERNELS[kernel](squared / h**2)
    W = W / W.sum(axis=1, keepdims=True)
    return len(W) / np.sum(W**2) - 1.0


@EACH
def test_the_effective_size_is_that_of_the_row_stochastic_matrix(kernel):
    X, v = drawn()
    squared = cdist(X, X, "sqeuclidean")
    for target in (3.0, 20.0):
        h = chosen(lc.EffectiveSize(target), X, v, kernel, 1.0)
        assert effective_size(kernel, squared, 1.01 * h) >= target
        assert effective_size(kernel, squared, 0.99 * h) <= target


def test_more_neighbours_than_rows_need_an_infinite_bandwidth_and_copies_none():
    assert chosen(lc.EffectiveSize(60), *drawn()) == np.inf
    assert np.isfinite(chosen(lc.EffectiveSize(58), *drawn()))
    twins = np.repeat([[0.0], [1.0]], 10, axis=0), np.arange(20.0), "boxcar", 1
    assert chosen(lc.EffectiveSize(8.5), *twins) < 0.1
    assert chosen(lc.EffectiveSize(9.5), *twins) == pytest.approx(1.0, rel=1e-3)


def test_the_lower_the_level_the_narrower_the_kernel_and_few_rows_have_the_widest():
    found = [chosen(lc.FiniteThresholds(level), *drawn(90, d=1)) for level in (0.95, 0.7, 0.3)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]
    few = drawn(6, d=1)
    assert chosen(lc.FiniteThresholds(0.95), *few) == pytest.approx(2.0 * pdist(few[0]).max())
    assert chosen(lc.FiniteThresholds(), np.zeros((1, 1))) == 2.0


def test_numbers_and_a_user_s_own_rule_are_asked():
    own = SimpleNamespace(choose=lambda problem: 0.25 * len(problem.points))
    for given, found in (
        *((own, 15.0), (2, 2.0), (np.float32(2), 2.0), (1e150, np.inf), (np.inf, np.inf)),
        *((9e149, 9e149), (1e-300, 1e-100)),
    ):
        assert chosen(given, *drawn()) == found
    law = lc.KernelLaw(bandwidth=lc.DistanceQuantile(0.2))
    assert clone(law).bandwidth.q == 0.2
    law.set_params(bandwidth__q=0.3)
    assert law.get_params()["bandwidth__q"] == 0.3


BAD_BANDWIDTHS = [
    *((bad, r"bandwidth=.*positive number") for bad in (0, np.nan, True, "wide", [1.0], None)),
    (lc.DistanceQuantile(1.5), r"q=.*; "),
    *((lc.EffectiveSize(bad), r"target=.*positive") for bad in (0, np.nan, "many")),
    (lc.FiniteThresholds(level=1.0), r"level=.*expected"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_BANDWIDTHS, ids=str)
def test_what_is_no_bandwidth_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        lc.KernelLaw(bandwidth=bad).fit(*drawn())


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) * [1.0, 50.0] + [3.0, -7.0]
    return X, rng.integers(-5, 6, 80).astype(float), X[::7] + np.array([0.1, 3.0])


@EACH
def test_the_law_is_nadaraya_watson(data, kernel):
    X, v, queries = data
    law = lc.KernelLaw(kernel, bandwidth=1.3, min_effective_samples=1).fit(X, v)
    levels, zero = np.array([0.07, 0.31, 0.77, 0.93]), np.zeros(len(queries))
    W = KERNELS[kernel](cdist(queries / X.std(axis=0), X / X.std(axis=0), "sqeuclidean") / 1.3**2)
    W = W / W.sum(axis=1, keepdims=True)
    for found, expected in (
        (law.cdf(queries, zero), W @ (v <= 0)),
        (law.cdf(queries, zero, side="left"), W @ (v < 0)),
        (law.mean(queries), W @ v),
        (law.mean(queries, absolute=True), W @ np.abs(v)),
        (law.effective_sample_size(queries), 1 / (W**2).sum(axis=1)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)
    expected = [weighted_quantile(v, w, levels) for w in W]
    np.testing.assert_array_equal(law.quantile(queries, levels), expected)
    # Thin neighbourhoods are widened until enough rows speak.
    law.set_params(bandwidth=0.2, min_effective_samples=20).fit(X, v)
    assert np.all(law.effective_sample_size(queries) >= 20 * (1 - 1e-5))


def test_an_infinite_bandwidth_is_no_localization(data):
    X, v, queries = data
    law, uniform = lc.KernelLaw(bandwidth=np.inf).fit(X, v), lc.UniformLaw().fit(X, v)
    levels = np.linspace(0.01, 0.99, 33)
    np.testing.assert_array_equal(law.quantile(queries, levels), uniform.quantile(queries, levels))
    np.testing.assert_allclose(law.mean(queries), uniform.mean(queries))
    assert not law.fallback(queries).any()
    assert law.quantile(X[:0], levels).shape == (0, 33)


@pytest.mark.parametrize(
    "law",
    [
        *(lc.NeighborsLaw(n_neighbors=k) for k in (0, 2.5, "many", None)),
        *(lc.KernelLaw(batch_size=1.5), lc.KernelLaw(kernel="cosine"), lc.KernelLaw(engine="gpu")),
        lc.KernelLaw("boxcar", engine="sketch"),
    ],
)
def test_bad_parameters_are_refused(data, law):
    known = r"n_neighbors=.*at least 1|The '(batch_size|kernel|engine)' param|the Gaussian"
    with pytest.raises(ValueError, match=known):
        law.fit(*data[:2])


def test_the_minibatch_is_drawn_by_the_seed_and_its_rows_keep_their_own_scores(data):
    X, v, queries = data

    def fitted(v, size, seed=0, **params):
        law = lc.KernelLaw(engine="minibatch", batch_size=size, random_state=seed)
        return law.set_params(**{"bandwidth": 1.0, **params}).fit(X, v)

    for size, kept in ((None, 24), (0.25, 20), (0.01, 1), (4, 4), (400, 80)):
        assert fitted(v, size).engine_report_.n_references == kept
    quarter, twenty, other = (fitted(v, *args).mean(queries) for args in ((0.25,), (20,), (20, 1)))
    np.testing.assert_array_equal(quarter, twenty)
    assert not np.array_equal(quarter, other)
    exact = lc.KernelLaw(bandwidth=1.0).fit(X, v).mean(queries)
    np.testing.assert_allclose(fitted(v, 10_000).mean(queries), exact, rtol=1e-12)
    # The weight of a row multiplies the score of that row: those that were kept answer their own.
    v = 2.0 * X[:, 0] - X[:, 1]
    narrow = fitted(v, 30, bandwidth=1e-6, min_effective_samples=1)
    assert np.count_nonzero(np.isclose(narrow.mean(X), v)) == 30


@pytest.mark.parametrize("k", [1, 5, 80, 500])
def test_neighbours_are_the_k_nearest_and_all_as_near(k):
    rng = np.random.default_rng(0)
    # A grid: many distances tie.
    X, v = rng.integers(0, 4, (80, 2)).astype(float), rng.normal(size=80)
    law, queries = lc.NeighborsLaw(n_neighbors=k).fit(X, v), X[:10]
    distance = cdist(queries / X.std(axis=0), X / X.std(axis=0))
    near = distance <= np.sort(distance, axis=1)[:, [min(k, 80) - 1]] + 1e-9
    W = near / near.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(law.mean(queries), W @ v)
    np.testing.assert_allclose(law.effective_sample_size(queries), near.sum(axis=1))
    np.testing.assert_allclose(law.cdf(queries, np.zeros(10)), W @ (v <= 0))
