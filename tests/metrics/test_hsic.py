"""HSIC against its n x n definition, and its p-value against enumeration."""

import sys
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from localconformal.metrics import hsic


def by_matrices(length, covered):
    """trace(K H L H) / (n - 1)^2 as written; infinite lengths far from finite ones."""
    n = len(length)
    u = length / np.std(length[np.isfinite(length)])
    far = np.isinf(u)
    u = np.where(far, 1e6, u)
    K = np.exp(-((u[:, None] - u[None]) ** 2))
    L = np.exp(-((covered[:, None] - covered[None]) ** 2))
    H = np.eye(n) - 1.0 / n
    return np.trace(K @ H @ L @ H) / (n - 1) ** 2


def covering(length, covered):
    """y and intervals with these lengths and this coverage."""
    bounds = np.stack([np.zeros_like(length), length], axis=1)
    return np.where(covered, 0.0, -1.0), bounds


@pytest.mark.parametrize("tail", [0.0, 5.0])
@pytest.mark.parametrize("infinite", [0, 7])
def test_the_value_is_that_of_the_definition(tail, infinite):
    rng = np.random.default_rng(0)
    length = np.exp(tail * rng.normal(size=150)) + rng.random(150)
    length[:infinite] = np.inf
    covered = rng.random(150) < 0.8
    value = hsic(*covering(length, covered), n_permutations=0).value
    assert value == pytest.approx(by_matrices(length, covered.astype(float)), rel=1e-10)


def test_the_p_value_is_the_share_of_all_ways_to_miss():
    length = np.array([1.0, 1.5, 1.7, 4.0, 4.5, 4.0, 9.0])
    covered = np.array([1, 1, 1, 0, 0, 1, 1], dtype=bool)
    observed = by_matrices(length, covered.astype(float))
    values = []
    for missed in combinations(range(7), 2):
        c = np.ones(7)
        c[list(missed)] = 0.0
        values.append(by_matrices(length, c))
    share = np.mean(np.array(values) >= observed - 1e-12)
    result = hsic(*covering(length, covered), n_permutations=4_000)
    assert result.p_value == pytest.approx(share, abs=4.0 * np.sqrt(share / 4_000))


def test_p_values_are_uniform_under_independence():
    rng = np.random.default_rng(1)
    p = []
    for repeat in range(100):
        length, covered = rng.exponential(size=40), rng.random(40) < 0.8
        pair = covering(length, covered)
        p.append(hsic(*pair, n_permutations=99, random_state=repeat).p_value)
    for level in (0.1, 0.3, 0.5, 0.7):
        low, high = binom.ppf([1e-3, 1 - 1e-3], 100, level)
        assert low <= np.sum(np.array(p) <= level) <= high


def test_dependence_without_correlation_is_found():
    rng = np.random.default_rng(2)
    length = rng.uniform(0.0, 2.0, size=600)
    covered = rng.random(600) < np.where(np.abs(length - 1.0) < 0.5, 0.95, 0.7)
    assert abs(np.corrcoef(length, covered)[0, 1]) < 0.1
    assert hsic(*covering(length, covered)).p_value < 0.01


def test_rounding_many_lengths_hardly_changes_the_value(monkeypatch):
    rng = np.random.default_rng(3)
    length = rng.exponential(size=3_000) ** 2
    covered = rng.random(3_000) < np.where(length > 2.0, 0.8, 0.95)
    length[:20] = np.inf
    exact = hsic(*covering(length, covered), n_permutations=0)
    monkeypatch.setattr(sys.modules["localconformal.metrics.hsic"], "MAX_PLACES", 1_000)
    rounded = hsic(*covering(length, covered), n_permutations=0)
    assert (exact.rounded, rounded.rounded) == (False, True)
    assert rounded.value == pytest.approx(exact.value, rel=1e-3)


def test_nothing_to_depend_on():
    y, bounds = covering(np.full(30, 2.0), np.arange(30) > 4)
    assert (hsic(y, bounds).value, hsic(y, bounds).p_value) == (0.0, 1.0)
    all_covered = hsic(np.zeros(30), covering(np.arange(1.0, 31.0), True)[1])
    assert (float(all_covered), all_covered.p_value) == (0.0, 1.0)
    one = hsic(y[:1], bounds[:1])
    assert np.isnan(one.value)
    assert one.p_value == 1.0


def test_many_rows_and_the_order_of_rows():
    rng = np.random.default_rng(4)
    length, covered = rng.exponential(size=300_000), rng.random(300_000) < 0.9
    pair = covering(length, covered)
    result = hsic(*pair, n_permutations=99)
    assert (result.rounded, result.n) == (True, 300_000)
    assert result.p_value > 0.01
    shuffled = rng.permutation(300_000)
    again = hsic(pair[0][shuffled], pair[1][shuffled], n_permutations=99)
    assert again.value == pytest.approx(result.value, rel=1e-6)
    assert again.p_value == result.p_value


def test_the_result_is_a_number_and_a_frame():
    rng = np.random.default_rng(5)
    pair = covering(rng.random(50), rng.random(50) < 0.8)
    result = hsic(*pair)
    assert float(result) == result.value
    assert list(result.frame().columns) == ["value", "p_value", "n_permutations", "n", "rounded"]
    assert hsic(*pair) == result
    with pytest.raises(ValueError, match="n_permutations is -1"):
        hsic(*pair, n_permutations=-1)
