"""The leaf engine and its NumPy twin against weights written down one by one."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from inner import LeafWeights
from localconformal.engine.leaves import LeafEngine
from localconformal.laws.base import ReferenceEngine
from localconformal.laws.forest import _ForestTrees
from localconformal.quantiles import weighted_quantile
from registry import ci_but

LEVELS = np.array([0.05, 0.3, 0.5, 0.95])
BELOW = np.zeros(len(LEVELS), dtype=bool)


def problem(n, trees, leaves, seed=0):
    """Sorted scores, codes of the references and of 40 queries; some leaves are empty."""
    rng = np.random.default_rng(seed)
    v = np.sort(np.round(rng.normal(size=n), 1))
    offsets = leaves * np.arange(trees)
    # Leaves of very unequal size; the last of each tree has no reference.
    drawn = (leaves - 1) * rng.random((n, trees)) ** 3
    codes = (drawn.astype(np.int32) + offsets).astype(np.int32)
    asked = (rng.integers(-1, leaves, (40, trees)) + offsets).astype(np.int32)
    asked[asked < offsets] = -1
    asked[0] = -1
    asked[1] = offsets + leaves - 1
    return v, codes, asked, trees * leaves


def oracle(codes, asked):
    """Weights (m, n) tree by tree, and where no tree had any."""
    weights = np.zeros((len(asked), len(codes)))
    for i, row in enumerate(asked):
        for t, leaf in enumerate(row):
            inside = (codes[:, t] == leaf) & (leaf >= 0)
            if inside.any():
                weights[i] += inside / inside.sum()
    empty = weights.sum(axis=1) == 0
    weights[empty] = 1.0
    return weights, empty


def compiled(v, leaves, n_jobs=1):
    return LeafEngine(v, leaves.starts, leaves.members, np.asarray, n_jobs)


ENGINES = pytest.mark.parametrize("make", [compiled, ReferenceEngine])
#: In the last, members beyond sixteen bits.
SHAPES = [(1, 1, 2), (2, 5, 3), (70, 7, 9), (900, 20, 4), (3000, 30, 150), (70_000, 2, 2)]


@ENGINES
@pytest.mark.parametrize("shape", ci_but(SHAPES[:-1], SHAPES), ids=str)
def test_answers_are_inverses_and_equal_those_of_the_weights_written_out(make, shape):
    v, codes, asked, count = problem(*shape)
    engine = make(v, LeafWeights.of(codes, count))
    weights, empty = oracle(codes, asked)
    shares = weights / weights.sum(axis=1, keepdims=True)
    expected = [shares @ v, shares @ np.abs(v), 1 / (shares**2).sum(axis=1), empty]
    np.testing.assert_allclose(engine.moments(asked), np.column_stack(expected), atol=1e-12)
    at = np.sort(np.concatenate([v[::37], np.linspace(v[0] - 1, v[-1] + 1, 17)]))
    for side, below, upper in (("right", np.less_equal, False), ("left", np.less, True)):
        F = engine.cdf(asked, np.tile(at, (len(asked), 1)), side)
        np.testing.assert_allclose(F, shares @ below.outer(v, at), atol=1e-12)
        assert np.all(np.diff(F, axis=1) >= 0)
        inverse = engine.quantiles(asked, F, np.full(len(at), upper))
        assert np.all(at <= inverse if upper else inverse <= at)
    for upper in (BELOW, ~BELOW):
        expected = [weighted_quantile(v, w, LEVELS, upper) for w in weights]
        np.testing.assert_array_equal(engine.quantiles(asked, LEVELS, upper), expected)


def test_batches_threads_and_the_number_of_bins_do_not_matter():
    v, codes, asked, count = problem(5000, 10, 100)
    leaves, many = LeafWeights.of(codes, count), np.tile(asked, (60, 1))
    batch = compiled(v, leaves, n_jobs=2).quantiles(many, LEVELS, BELOW)
    one_by_one = [compiled(v, leaves).quantiles(row[None], LEVELS, BELOW)[0] for row in asked]
    np.testing.assert_array_equal(batch, np.tile(one_by_one, (60, 1)))
    assert compiled(v, leaves).quantiles(asked[:0], LEVELS, BELOW).shape == (0, len(LEVELS))


def test_compiled_trees_find_the_leaves_that_scikit_learn_finds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)).astype(np.float32)
    model = RandomForestRegressor(3, random_state=0).fit(X, rng.normal(size=80))
    # Values on thresholds, huge ones, and float32 neighbours of both.
    near = np.concatenate([tree.tree_.threshold for tree in model.estimators_]).astype(np.float32)
    parts = [near, np.nextafter(near, np.float32(9e9)), np.nextafter(near, np.float32(-9e9))]
    odd = np.tile(np.concatenate([*parts, [3e38, -3e38]])[:, None], (1, 3)).astype(np.float32)
    trees = _ForestTrees(model)
    packed = trees.packed()
    for rows in (odd, *(X[:n] for n in (1, 2, 3, 4, 5, 8, 11))):
        np.testing.assert_array_equal(packed(np.ascontiguousarray(rows)), trees(rows))
    leaves, codes = model.apply(odd), trees(odd)
    for t in range(3):
        pairs = np.unique(np.column_stack([leaves[:, t], codes[:, t]]), axis=0)
        assert len(pairs) == len(np.unique(leaves[:, t])) == len(np.unique(codes[:, t]))
