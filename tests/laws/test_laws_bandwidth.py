"""Bandwidth rules against their formulas."""

import itertools
import math
import statistics

import numpy as np
import pytest
from sklearn.base import clone

from localconformal import CrossValidated, DistanceQuantile, KernelLaw, MedianLog, Rate
from localconformal.engine.kernels import KERNELS
from localconformal.laws import bandwidth
from localconformal.laws.bandwidth import BANDWIDTHS, BandwidthProblem
from localconformal.laws.finite_bandwidth import FiniteThresholds


def problem(points, v=None, kernel="gaussian", minimum=10.0):
    v = np.zeros(len(points)) if v is None else v
    order = np.argsort(v, kind="stable")
    return BandwidthProblem(points[order], v[order], kernel, minimum, seed=0)


@pytest.fixture(scope="module")
def points():
    rows = np.random.default_rng(0).normal(size=(41, 3))
    # A third of the rows coincide: zero distances must not drag the median down.
    rows[20:34] = rows[20]
    return rows


@pytest.fixture(scope="module")
def positive(points):
    pairs = (math.dist(a, b) for a, b in itertools.combinations(points, 2))
    return [distance for distance in pairs if distance > 0]


def test_the_median_is_that_of_the_positive_distances(points, positive):
    expected = statistics.median(positive)
    assert BANDWIDTHS["median"].choose(problem(points)) == pytest.approx(expected)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.9, 1.0])
def test_any_quantile_of_the_distances(points, positive, q):
    chosen = DistanceQuantile(q).choose(problem(points))
    assert min(positive) * (1 - 1e-12) <= chosen <= max(positive) * (1 + 1e-12)
    # A share q of the distances lies below, within one pair.
    assert sum(d < chosen * (1 - 1e-12) for d in positive) <= q * len(positive) + 1
    assert sum(d > chosen * (1 + 1e-12) for d in positive) <= (1 - q) * len(positive) + 1


def test_the_median_log_rule(points, positive):
    expected = statistics.median(positive) / math.sqrt(2 * math.log(len(points)))
    assert MedianLog().choose(problem(points)) == pytest.approx(expected)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_the_rate_rule(points, positive, beta):
    expected = statistics.median(positive) * len(points) ** (-1 / (2 * beta + 3))
    assert Rate(beta).choose(problem(points)) == pytest.approx(expected)


def test_rules_that_shrink_shrink_with_n():
    rng = np.random.default_rng(0)
    for rule in (Rate(), MedianLog()):
        few, many = (rule.choose(problem(rng.normal(size=(n, 2)))) for n in (100, 1_600))
        assert many < few


@pytest.mark.parametrize("rule", BANDWIDTHS)
def test_coinciding_points_get_a_positive_bandwidth(rule):
    assert BANDWIDTHS[rule].choose(problem(np.ones((30, 2)), np.arange(30.0))) > 0


def test_sampled_distances_are_near_the_full_ones_and_seeded(monkeypatch):
    points = np.random.default_rng(0).normal(size=(1_500, 2))
    full = problem(points).distance_quantile(0.5)
    monkeypatch.setattr(bandwidth, "DISTANCE_ROWS", 300)
    sampled = problem(points).distance_quantile(0.5)
    assert sampled != full
    assert sampled == pytest.approx(full, rel=0.1)
    assert sampled == problem(points).distance_quantile(0.5)


def narrow_signal(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 1))
    return X, np.sin(20 * X[:, 0]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", KERNELS)
def test_cross_validation_is_narrow_for_a_narrow_signal_and_wide_for_none(kernel):
    X, v = narrow_signal(500)
    median = DistanceQuantile(0.5).choose(problem(X))
    assert CrossValidated().choose(problem(X, v, kernel)) < 0.3 * median
    noise = np.random.default_rng(1).normal(size=(5, 500))
    without_signal = [CrossValidated().choose(problem(X, v, kernel)) for v in noise]
    assert statistics.median(without_signal) > 0.8 * median


def test_the_cross_validated_loss_never_uses_the_row_s_own_fold():
    """v is fresh noise: a law that saw the row itself would have less loss when narrow."""
    rng = np.random.default_rng(0)
    task = problem(rng.normal(size=(400, 1)), rng.normal(size=400), minimum=1.0)
    rule = CrossValidated(levels=(0.5,))
    assert rule.loss(task, 1e-6)[0] > 1.2 * rule.loss(task, 10.0)[0]


def test_the_cross_validated_loss_is_the_pinball_loss_of_held_out_rows():
    X, v = narrow_signal(30)
    task, rule = problem(X, v), CrossValidated(levels=(0.2, 0.9), n_folds=30)
    # As many folds as rows: each row is answered by all the others.
    total = 0.0
    for i in range(30):
        law = KernelLaw(bandwidth=0.3, min_effective_samples=10, embedding=lambda x: x)
        others = np.delete(np.arange(30), i)
        scale = task.points[others].std()
        law.set_params(bandwidth=0.3 / scale).fit(task.points[others], task.v[others])
        for level, q in zip(
            rule.levels, law.quantile(task.points[[i]], rule.levels)[0], strict=True
        ):
            error = task.v[i] - q
            total += level * error if error > 0 else (level - 1) * error
    assert rule.loss(task, 0.3)[0] == pytest.approx(total / 60)


def test_of_equal_losses_the_widest_bandwidth_wins():
    X, _ = narrow_signal(60)
    chosen = CrossValidated().choose(problem(X, np.zeros(60)))
    assert chosen == pytest.approx(4 * DistanceQuantile(0.5).choose(problem(X)))


def test_rules_are_parameters_that_clone_and_can_be_set():
    law = KernelLaw(bandwidth=Rate(beta=2.0))
    assert clone(law).bandwidth.beta == 2.0
    law.set_params(bandwidth__beta=3.0)
    assert law.get_params()["bandwidth__beta"] == 3.0


def test_a_user_s_own_rule_is_asked():
    class Fixed:
        def choose(self, problem):
            return 0.25 * len(problem.points)

    assert KernelLaw(bandwidth=Fixed()).fit(np.zeros((8, 1)), np.arange(8.0)).bandwidth_ == 2.0


@pytest.mark.parametrize("rule", [DistanceQuantile(1.5), DistanceQuantile(-0.1), Rate(0.0)])
def test_bad_parameters_of_rules_are_refused(rule, points):
    with pytest.raises(ValueError, match=r"is .*; a (number|positive)"):
        rule.choose(problem(points))


@pytest.mark.parametrize("rule", [{"n_folds": 1}, {"n_candidates": 0}, {"levels": (1.5,)}])
def test_bad_parameters_of_cross_validation_are_refused(rule):
    with pytest.raises(ValueError, match=next(iter(rule))):
        CrossValidated(**rule).choose(problem(*narrow_signal(40)))


def test_where_even_the_widest_leaves_too_many_infinite_the_widest_is_taken():
    rng = np.random.default_rng(0)
    few = BandwidthProblem(rng.normal(size=(6, 1)), np.sort(rng.normal(size=6)), "gaussian", 1.0, 0)
    widest = 2.0 * few.distance_quantile(1.0)
    assert FiniteThresholds(level=0.95, most_infinite=0.0).choose(few) == pytest.approx(widest)
