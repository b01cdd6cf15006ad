"""Weights on the simplex: as good as the best candidate, in any order and unit."""

import numpy as np
import pytest

from localconformal.laws.simplex import ENTROPY, pinball, simplex_weights

LEVELS = np.array([0.1, 0.9])


def problem(seed, n=150, candidates=4):
    """Candidates of various quality: (K, n, L) and the target (n,)."""
    rng = np.random.default_rng(seed)
    centre, target = rng.normal(size=n), rng.normal(size=n)
    target = target + centre
    noise = rng.normal(size=(candidates, n, 2)) * np.linspace(0.1, 3.0, candidates)[:, None, None]
    return centre[:, None] + np.array([-1.3, 1.3]) + noise, target


@pytest.mark.parametrize("seed", range(3))
def test_weights_are_on_the_simplex_and_as_good_as_the_best(seed):
    table, target = problem(seed)
    weights = simplex_weights(table, target, LEVELS)
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1.0)
    loss = pinball(np.tensordot(weights, table, axes=1), target, LEVELS)
    best = pinball(table, target, LEVELS).min()
    # A vertex costs nothing in entropy, and spreading can earn log K at most.
    allowed = min(ENTROPY / len(target), 0.3) * np.log(len(table))
    assert loss <= best * (1.0 + allowed) + 1e-9


def test_candidates_in_another_order_get_the_same_weights():
    table, target = problem(0)
    order = np.array([2, 0, 3, 1])
    weights = simplex_weights(table, target, LEVELS)
    permuted = simplex_weights(table[order], target, LEVELS)
    np.testing.assert_allclose(permuted, weights[order], atol=1e-6)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("perfect", [False, True])
def test_the_unit_of_the_target_does_not_matter(scale, perfect):
    table, target = problem(0)
    if perfect:
        table[1] = target[:, None]
    weights = simplex_weights(table, target, LEVELS)
    np.testing.assert_array_equal(simplex_weights(scale * table, scale * target, LEVELS), weights)
    if perfect:
        assert weights[1] > 0.95


def test_equal_candidates_share_and_errors_average_out():
    table, target = problem(0)
    same = np.repeat(table[:1], 5, axis=0)
    np.testing.assert_allclose(simplex_weights(same, target, LEVELS), 0.2)
    exact = np.zeros((3, 10, 2))
    np.testing.assert_allclose(simplex_weights(exact, np.zeros(10), LEVELS), 1 / 3)
    np.testing.assert_array_equal(simplex_weights(table[:1], target, LEVELS), [1.0])
    # Two errors that cancel are better than either candidate.
    sign = np.resize([1.0, -1.0], len(target))[:, None]
    pair = np.stack([target[:, None] + sign, target[:, None] - sign])
    np.testing.assert_allclose(simplex_weights(pair, target, np.array([0.5])), 0.5, atol=0.05)


def test_a_wild_candidate_gets_nothing():
    table, target = problem(0)
    table[3] = 1e12
    weights = simplex_weights(table, target, LEVELS)
    assert weights[3] == 0.0
    np.testing.assert_array_equal(weights[:3], simplex_weights(table[:3], target, LEVELS))


def test_the_pinball_loss_by_hand():
    found = pinball(np.array([[1.0, 1.0], [0.0, 4.0]]), np.array([2.0, 2.0]), LEVELS)
    assert found == pytest.approx((0.1 * 1 + 0.1 * 2) / 2 + (0.9 * 1 + 0.1 * 2) / 2)


@pytest.mark.parametrize("offsets", [(1.0, 1.05, -1.0), (-1.0, -1.02, 1.05)])
def test_the_loss_is_hardly_above_that_of_the_best_weights_on_a_grid(offsets):
    rng, median = np.random.default_rng(0), np.array([0.5])
    target = rng.normal(size=2_000)
    errors = np.stack([offset + rng.normal(size=2_000) for offset in offsets])
    predictions = (target + errors)[:, :, None]

    def loss(weights):
        return pinball(np.tensordot(weights, predictions, axes=1), target, median)

    shares = np.linspace(0.0, 1.0, 11)
    best = min(loss([a, b, 1.0 - a - b]) for a in shares for b in shares if a + b <= 1.0)
    # Equal weights, where the descent starts, are worse by a tenth.
    assert loss(np.full(3, 1 / 3)) > 1.08 * best
    assert loss(simplex_weights(predictions, target, median)) < 1.03 * best
