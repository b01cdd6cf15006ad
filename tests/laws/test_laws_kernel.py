"""Kernel and neighbour laws: bandwidth rules, Nadaraya-Watson as a loop, localizers and draws."""

import math
import statistics
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.metrics import mean_pinball_loss

from localconformal import (
    CrossValidated,
    DistanceQuantile,
    EffectiveSize,
    FiniteThresholds,
    KernelLaw,
    MedianLog,
    NeighborsLaw,
    Rate,
    UniformLaw,
)
from localconformal.laws import bandwidth
from localconformal.laws.bandwidth import BANDWIDTHS, BandwidthProblem, choose_bandwidth
from localconformal.laws.effective_bandwidth import effective_size
from localconformal.laws.noise import coarse, draw
from localconformal.quantiles import weighted_quantile
from registry import ci_but

#: K of a squared distance in units of the bandwidth.
KERNELS = {
    "gaussian": lambda u2: np.exp(-u2 / 2),
    "boxcar": lambda u2: (u2 <= 1.0).astype(float),
    "epanechnikov": lambda u2: np.maximum(1.0 - u2, 0.0),
}
EACH = pytest.mark.parametrize("kernel", KERNELS)


def task(points, v=None, kernel="gaussian", minimum=10.0):
    v = np.zeros(len(points)) if v is None else v
    order = np.argsort(v, kind="stable")
    return BandwidthProblem(points[order], v[order], kernel, minimum, seed=3)


def drawn(n=60, d=2, kernel="gaussian"):
    """A task of rows and scores that know nothing of each other."""
    rng = np.random.default_rng(0)
    return task(rng.normal(size=(n, d)), rng.normal(size=n), kernel, 1.0)


# ---- bandwidths -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def points():
    rows = np.random.default_rng(0).normal(size=(41, 3))
    # A third of the rows coincide: zero distances must not drag the median down.
    rows[20:34] = rows[20]
    return rows


@pytest.fixture(scope="module")
def positive(points):
    return pdist(points)[pdist(points) > 0]


@pytest.mark.parametrize(
    ("rule", "factor"),
    [
        (BANDWIDTHS["median"], 1.0),
        (MedianLog(), 1 / math.sqrt(2 * math.log(41))),
        *((Rate(beta), 41 ** (-1 / (2 * beta + 3))) for beta in (0.5, 1.0, 2.0)),
    ],
)
def test_rules_are_the_median_of_the_positive_distances_times_their_factor(
    rule, factor, points, positive
):
    assert rule.choose(task(points)) == pytest.approx(statistics.median(positive) * factor)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.9, 1.0])
def test_any_quantile_of_the_distances(points, positive, q):
    below, above = (
        np.quantile(positive, q, method="lower"),
        np.quantile(positive, q, method="higher"),
    )
    chosen = DistanceQuantile(q).choose(task(points))
    assert below * (1 - 1e-12) <= chosen <= above * (1 + 1e-12)


def test_sampled_distances_are_near_the_full_ones_and_seeded(monkeypatch):
    points = np.random.default_rng(0).normal(size=(1_500, 2))
    full = task(points).distance_quantile(0.5)
    monkeypatch.setattr(bandwidth, "DISTANCE_ROWS", 300)
    sampled = task(points).distance_quantile(0.5)
    assert sampled != full
    assert sampled == pytest.approx(full, rel=0.1)
    assert sampled == task(points).distance_quantile(0.5)


def narrow_signal(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, np.sin(20 * X[:, 0]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", ci_but(["gaussian"], KERNELS))
def test_cross_validation_is_narrow_for_a_narrow_signal_and_wide_for_none(kernel):
    X, v = narrow_signal(500)
    median = DistanceQuantile(0.5).choose(task(X))
    assert CrossValidated().choose(task(X, v, kernel)) < 0.3 * median
    noise = np.random.default_rng(1).normal(size=(5, 500))
    without_signal = [CrossValidated().choose(task(X, v, kernel)) for v in noise]
    assert statistics.median(without_signal) > 0.8 * median


def test_the_cross_validated_loss_is_the_pinball_loss_of_held_out_rows():
    X, v = narrow_signal(30)
    of, rule = task(X, v), CrossValidated(levels=(0.2, 0.9), n_folds=30)
    # As many folds as rows: each row is answered by all the others, and never by itself.
    losses = []
    for i in range(30):
        points, scores = np.delete(of.points, i, axis=0), np.delete(of.v, i)
        law = KernelLaw(bandwidth=0.3 / points.std(), min_effective_samples=10)
        answers = law.fit(points, scores).quantile(of.points[[i]], rule.levels)[0]
        losses += [
            mean_pinball_loss(of.v[[i]], [q], alpha=t)
            for q, t in zip(answers, rule.levels, strict=True)
        ]
    assert rule.loss(of, 0.3)[0] == pytest.approx(np.mean(losses))
    # Of equal losses the widest bandwidth wins.
    widest = 4 * DistanceQuantile(0.5).choose(task(X))
    assert CrossValidated().choose(task(X, np.zeros(30))) == pytest.approx(widest)


@EACH
def test_the_effective_size_is_that_of_the_row_stochastic_matrix(kernel):
    squared = cdist(drawn().points, drawn().points, "sqeuclidean")
    W = KERNELS[kernel](squared / 0.7**2)
    W = W / W.sum(axis=1, keepdims=True)
    assert effective_size(kernel, squared, 0.7) == pytest.approx(60 / np.sum(W**2) - 1.0)
    for target in (3.0, 20.0):
        h = EffectiveSize(target).choose(drawn(kernel=kernel))
        assert effective_size(kernel, squared, 1.01 * h) >= target
        assert effective_size(kernel, squared, 0.99 * h) <= target


def test_more_neighbours_than_rows_need_an_infinite_bandwidth_and_copies_none():
    assert EffectiveSize(60).choose(drawn()) == np.inf
    assert np.isfinite(EffectiveSize(58).choose(drawn()))
    twins = task(np.repeat([[0.0], [1.0]], 10, axis=0), np.arange(20.0), "boxcar", 1)
    assert EffectiveSize(8.5).choose(twins) < 0.1
    assert EffectiveSize(9.5).choose(twins) == pytest.approx(1.0, rel=1e-3)


def test_the_more_thresholds_may_be_infinite_the_narrower_the_kernel():
    of = drawn(90, d=1)
    shares = (0.0, 0.05, 0.15, 0.4, 1.0)
    chosen = [FiniteThresholds(0.7, most_infinite=share).choose(of) for share in shares]
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[-1]
    # By default half of what may be missed.
    assert FiniteThresholds(0.7).choose(of) == chosen[2]
    # Where even the widest leaves too many infinite, the widest is taken.
    few = drawn(6, d=1)
    widest = 2.0 * few.distance_quantile(1.0)
    assert FiniteThresholds(level=0.95, most_infinite=0.0).choose(few) == pytest.approx(widest)
    assert FiniteThresholds().choose(task(np.zeros((1, 1)), np.zeros(1))) == 2.0


def test_numbers_and_a_user_s_own_rule_are_asked():
    own = SimpleNamespace(choose=lambda problem: 0.25 * len(problem.points))
    for given, chosen in (
        *((own, 15.0), (2, 2.0), (np.float32(2), 2.0), (1e150, np.inf), (np.inf, np.inf)),
        *((9e149, 9e149), (1e-300, 1e-100)),
    ):
        assert choose_bandwidth(given, drawn()) == chosen
    law = KernelLaw(bandwidth=Rate(beta=2.0))
    assert clone(law).bandwidth.beta == 2.0
    law.set_params(bandwidth__beta=3.0)
    assert law.get_params()["bandwidth__beta"] == 3.0


BAD_BANDWIDTHS = [
    *((bad, r"bandwidth is .*positive number") for bad in (0, np.nan, True, "wide", [1.0], None)),
    (DistanceQuantile(1.5), r"is .*; a number"),
    (Rate(np.nan), r"beta is .*positive"),
    *((EffectiveSize(bad), r"target is .*positive") for bad in (0, np.nan, "many")),
    (CrossValidated(n_folds=1), "n_folds"),
    (CrossValidated(n_candidates=0), "n_candidates"),
    (CrossValidated(levels=(1.5,)), "levels"),
    (FiniteThresholds(level=1.0), r"level is .* expected"),
    (FiniteThresholds(penalty=-0.1), r"penalty is .* expected"),
    (FiniteThresholds(most_infinite=1.1), r"(level is|penalty is) .* expected"),
]


@pytest.mark.parametrize(("bad", "message"), BAD_BANDWIDTHS, ids=str)
def test_what_is_no_bandwidth_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        KernelLaw(bandwidth=bad).fit(drawn().points, drawn().v)


# ---- laws -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2)) * [1.0, 50.0] + [3.0, -7.0]
    return X, rng.integers(-5, 6, 80).astype(float), X[::7] + np.array([0.1, 3.0])


@EACH
def test_the_law_is_nadaraya_watson(data, kernel):
    X, v, queries = data
    law = KernelLaw(kernel, bandwidth=1.3, min_effective_samples=1).fit(X, v)
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
    law, uniform = KernelLaw(bandwidth=np.inf).fit(X, v), UniformLaw().fit(X, v)
    levels = np.linspace(0.01, 0.99, 33)
    np.testing.assert_array_equal(law.quantile(queries, levels), uniform.quantile(queries, levels))
    np.testing.assert_allclose(law.mean(queries), uniform.mean(queries))
    assert not law.fallback(queries).any()
    assert law.quantile(X[:0], levels).shape == (0, 33)


@pytest.mark.parametrize(
    "law",
    [
        *(NeighborsLaw(n_neighbors=k) for k in (0, 2.5, "many", None)),
        *(KernelLaw(batch_size=1.5), KernelLaw(kernel="cosine"), KernelLaw(engine="gpu")),
        KernelLaw("boxcar", engine="sketch"),
    ],
)
def test_bad_parameters_are_refused(data, law):
    known = r"n_neighbors is .*at least 1|The '(batch_size|kernel|engine)' param|needs the Gaussian"
    with pytest.raises(ValueError, match=known):
        law.fit(*data[:2])


def test_the_minibatch_is_drawn_by_the_seed_and_its_rows_keep_their_own_scores(data):
    X, v, queries = data

    def fitted(v, size, seed=0, **params):
        law = KernelLaw(engine="minibatch", batch_size=size, random_state=seed)
        return law.set_params(**{"bandwidth": 1.0, **params}).fit(X, v)

    # The share or the number of rows that is asked for.
    for size, kept in ((None, 24), (0.25, 20), (0.01, 1), (4, 4), (400, 80)):
        assert fitted(v, size).engine_report_.n_references == kept
    quarter, twenty, other = (fitted(v, *args).mean(queries) for args in ((0.25,), (20,), (20, 1)))
    np.testing.assert_array_equal(quarter, twenty)
    assert not np.array_equal(quarter, other)
    exact = KernelLaw(bandwidth=1.0).fit(X, v).mean(queries)
    np.testing.assert_allclose(fitted(v, 10_000).mean(queries), exact, rtol=1e-12)
    # The weight of a row multiplies the score of that row, not of another.
    v = 2.0 * X[:, 0] - X[:, 1]
    narrow = fitted(v, 30, bandwidth=1e-6, min_effective_samples=1)
    kept = np.isin(v, narrow.engine_.v)
    assert np.count_nonzero(kept) == 30
    np.testing.assert_allclose(narrow.mean(X[kept]), v[kept])


def test_a_law_that_is_added_to_counts_its_rows(data):
    X, v, _ = data
    law = KernelLaw(engine="sketch", bandwidth=2.0, random_state=0, n_jobs=1).fit(X, v)
    for added in (1, 2):
        law.update(X[:40], v[:40])
        assert (law.engine_report_.n_references, law.n_updates_) == (80 + 40 * added, added)
    assert np.isnan(law.engine_report_.certified_error)
    assert law.engine_report_.reason.count("added to since") == 1
    assert law.fit(X, v).n_updates_ == 0


@pytest.mark.parametrize("k", [1, 5, 80, 500])
def test_neighbours_are_the_k_nearest_and_all_as_near(k):
    rng = np.random.default_rng(0)
    # A grid: many distances tie.
    X, v = rng.integers(0, 4, (80, 2)).astype(float), rng.normal(size=80)
    law, queries = NeighborsLaw(n_neighbors=k).fit(X, v), X[:10]
    distance = cdist(queries / X.std(axis=0), X / X.std(axis=0))
    near = distance <= np.sort(distance, axis=1)[:, [min(k, 80) - 1]] + 1e-9
    W = near / near.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(law.mean(queries), W @ v)
    np.testing.assert_allclose(law.effective_sample_size(queries), near.sum(axis=1))
    np.testing.assert_allclose(law.cdf(queries, np.zeros(10)), W @ (v <= 0))


# ---- localizers and draws ---------------------------------------------------------------------


@EACH
def test_the_localizer_of_a_kernel_law_is_its_kernel(kernel):
    X = np.random.default_rng(0).normal(size=(30, 2))
    localizer = KernelLaw(kernel, bandwidth=0.8, embedding=lambda x: x).fit(X, X[:, 0]).localizer()
    scale = X.std(axis=0)
    u2 = cdist(X / scale, X / scale, "sqeuclidean") / 0.64
    view = localizer.view(X)
    np.testing.assert_allclose(localizer(view, view[:4]), KERNELS[kernel](u2[:, :4]), atol=1e-12)


@pytest.mark.parametrize("n", [30, 2_000])
def test_the_localizer_of_neighbours_reaches_as_far_as_the_kth_reference(n):
    X, new = np.random.default_rng(0).normal(size=(n, 1)), np.array([[0.0], [3.0]])
    distance = np.abs(new - X[:, 0])
    for k in (1, 99, 1_999):
        localizer = NeighborsLaw(k).fit(X, X[:, 0]).localizer()
        H = localizer(localizer.view(new), localizer.view(X))
        reach = np.sort(distance, axis=1)[:, min(k, n) - 1]
        np.testing.assert_array_equal(H, distance <= reach[:, None] * (1 + 1e-9))


@pytest.mark.parametrize("k", [1, 3])
def test_draws_have_the_density_of_the_kernel(k):
    points = np.random.default_rng(0).normal(size=(4_000, k))
    radius = {name: np.linalg.norm(draw(name, 1, points), axis=1) for name in KERNELS}
    assert kstest(draw("gaussian", 1, points)[:, -1], "norm").pvalue > 1e-3
    assert kstest(radius["boxcar"] ** k, "uniform").pvalue > 1e-3
    assert kstest(radius["epanechnikov"] ** 2, "beta", (k / 2, 2)).pvalue > 1e-3
    for name in KERNELS:
        made = draw(name, 1, points)
        assert np.all(np.abs(np.mean(np.sign(made), axis=0)) < 0.06)
        assert not np.array_equal(made, draw(name, 2, points))
    # The last bits of a row do not change its draw.
    np.testing.assert_array_equal(coarse(points), coarse(points * (1.0 + 1e-14)))
    assert not np.array_equal(coarse(points), coarse(points * (1.0 + 1e-7)))
