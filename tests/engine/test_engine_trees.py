"""Compiled trees and boosting against walks, leaves and sums written out in plain Python."""

import numpy as np
import pytest

from localconformal.engine.trees import Bins, Boosting, Forest, Grids, unpacked

LEVELS = np.array([1e-9, 0.05, 0.3, 0.5, 0.95, 1.0])
#: Rows, columns, rows per leaf.
SHAPES = pytest.mark.parametrize(
    ("n", "d", "leaf"), [(1, 1, 1), (2, 1, 1), (2, 3, 5), (7, 2, 1), (90, 1, 2), (250, 4, 5)]
)
equal, close = np.testing.assert_array_equal, np.testing.assert_allclose


def table(n, d):
    """Codes with ties, the last column constant where there are several; two targets."""
    rng = np.random.default_rng(0)
    Z = np.round(rng.normal(size=(n, d)), 1)
    Z[:, -1] *= d == 1
    return Bins().fit(Z, 64, 0).codes(Z), rng.normal(size=(n, 2)) + np.sin(3 * Z[:, :1])


def grown(codes, targets, leaf, **options):
    options = {"n_trees": 6, "rows": max(1, len(codes) // 2), "share": 0.6, "seed": 0, **options}
    return Forest().grow(codes, targets, leaf=leaf, **{"n_jobs": 1, **options})


def paths(forest, codes):
    """The nodes that rows meet, the leaf last: tree by tree, row by row."""

    column, cut, right = unpacked(forest.nodes_)

    def path(x, node):
        if (f := column[node]) < 0:
            return [node]
        return [node, *path(x, right[node] if x[f] > cut[node] else node + 1)]

    return [[path(x, root) for x in codes] for root in forest.roots_]


def answering(forest, nodes, least):
    """The nearest node on a path that was grown on so many rows; the root where none was."""
    return next((p for p in nodes[::-1] if forest.size_[p] >= least), nodes[0])


@SHAPES
def test_nodes_hold_the_rows_that_walk_through_them(n, d, leaf):
    codes, targets = table(n, d)
    forest = grown(codes, targets, leaf)
    through = paths(forest, codes)
    equal(forest.leaves(codes).T, [[nodes[-1] for nodes in tree] for tree in through])
    # Cells that name their row: what a node holds can be read off.
    forest.fill(codes, np.arange(n, dtype=np.uint8)[:, None], 0)
    for tree, drawn in zip(through, forest.drawn_, strict=True):
        for node in {p for nodes in tree for p in nodes}:
            rows = [i for i in range(n) if node in tree[i]]
            assert forest.size_[node] == np.isin(drawn, rows).sum() >= min(leaf, len(drawn))
            assert sorted(forest.kept_[forest.first_[node] : forest.last_[node], 0]) == rows
    for least in (5, 20, 80):
        forest.set_depth(least)
        for nodes in (nodes for tree in through for nodes in tree):
            node = answering(forest, nodes, least)
            found = forest.low_[nodes[-1]], forest.high_[nodes[-1]]
            assert found == (forest.first_[node], forest.last_[node])


def masses(forest, through, cells, n_cells, least, held_out):
    """Sum over trees of shares of cells among the rows of the answering node: (n, V, G)."""
    out = np.zeros((*cells.shape, n_cells))
    for tree, drawn, kept in zip(through, forest.drawn_, forest.kept_rows_, strict=True):
        for i in range(len(cells)):
            node = answering(forest, tree[i], least)
            rows = [k for k in kept if node in tree[k] and not (held_out and k == i)]
            if rows and not (held_out and i in drawn):
                out[i] += [np.bincount(one, minlength=n_cells) / len(rows) for one in cells[rows].T]
    return out


def quantiles(mass, low, high):
    """Of one histogram: the mass of a cell lies evenly between its ends."""
    mass = np.maximum(mass, 0.0)
    up_to, there = np.cumsum(mass), np.flatnonzero(mass > 1e-12)
    wanted = LEVELS * up_to[-1]
    at = there[np.minimum(np.searchsorted(up_to[there], wanted), len(there) - 1)]
    share = np.clip((wanted - np.append(0.0, up_to)[at]) / mass[at], 0.0, 1.0)
    return low[at] + share * (high[at] - low[at])


@pytest.mark.parametrize(("most", "per_leaf"), [(10**6, 10**6), (40, 64), (10**6, 2)])
@SHAPES
def test_laws_are_those_of_the_leaves_held_out_or_not(n, d, leaf, most, per_leaf, monkeypatch):
    monkeypatch.setattr("localconformal.engine.trees._KEPT", most)
    monkeypatch.setattr("localconformal.engine.trees._KEPT_PER_LEAF", per_leaf)
    codes, targets = table(n, d)
    values = [targets[:, 0], np.round(targets[:, 1]), np.ones(n)]
    grids = Grids.of(values, np.linspace(0, 1, 9))
    cells, n_cells = grids.cells(values), grids.high.shape[1]
    for v, cell, low, high in zip(values, cells.T, grids.low, grids.high, strict=True):
        for c in cell:
            assert (low[c], high[c]) == (v[cell == c].min(), v[cell == c].max())
    forest = grown(codes, targets, leaf).fill(codes, cells, 0)
    through, leaves = paths(forest, codes), forest.leaves(codes)
    for least in (5, 20):
        forest.set_depth(least)
        for own in ((), (cells, forest.held(np.arange(n)))):
            mass = forest.histograms(leaves, n_cells, *own)
            expected = masses(forest, through, cells, n_cells, least, bool(own))
            close(mass, expected, atol=1e-12)
            found = grids.quantiles(mass, LEVELS)
            for v, k in enumerate(grids.lengths):
                ends = grids.low[v, :k], grids.high[v, :k]
                for i in np.flatnonzero(expected[:, v].any(axis=1)):
                    close(found[v, i], quantiles(mass[i, v, :k], *ends), atol=1e-12)


def best_cut(codes, T, rows, leaf, l2=0.0):
    """Gain and the two sides of the best cut of these rows: T (n, k); no gain where none is."""
    best = 1e-9, rows, rows[:0]
    for column in codes[rows].T:
        for x in np.unique(column)[:-1]:
            sides = rows[column <= x], rows[column > x]
            if min(map(len, sides)) >= leaf:
                a, b, both = ((T[p].sum(axis=0) ** 2).sum() / (len(p) + l2) for p in (*sides, rows))
                best = max(best, (a + b - both, *sides), key=lambda cut: cut[0])
    return best


@SHAPES
def test_the_root_is_cut_where_most_is_explained(n, d, leaf):
    codes, targets = table(n, d)
    forest = grown(codes, targets, leaf, n_trees=1, rows=n, share=1.0)
    (column, *_), (cut, *_), _ = unpacked(forest.nodes_)
    left = codes[:, column] <= cut
    _, *sides = best_cut(codes, targets - targets.mean(axis=0), np.arange(n), leaf)
    assert (column < 0) == (len(sides[1]) == 0)
    assert column < 0 or np.flatnonzero(left).tolist() == sides[0].tolist()
    assert len(grown(codes, np.ones((n, 2)), leaf).nodes_) == 6


def boosted(codes, y, plan):
    """The answer at training rows: step by step, the leaf that gains most is cut first."""
    left = (y - y.mean())[:, None]
    for _ in range(plan.most_steps):
        leaves = [best_cut(codes, left, np.arange(len(y)), plan.least, plan.l2)]
        while len(leaves) < plan.leaves and leaves[-1][0] > 1e-9:
            _, *sides = leaves.pop()
            leaves += [best_cut(codes, left, side, plan.least, plan.l2) for side in sides]
            leaves.sort(key=lambda cut: cut[0])
        for rows in (np.concatenate(sides) for _, *sides in leaves):
            left[rows] -= plan.rate * left[rows].sum() / (len(rows) + plan.l2)
    return y - left[:, 0]


@pytest.mark.parametrize("leaves", [2, 6, 64])
@SHAPES
def test_boosting_cuts_the_leaf_that_gains_most_where_it_gains_most(n, d, leaf, leaves):
    codes, (y, _) = table(n, d)[0], table(n, d)[1].T
    for more in ({}, {"l2": 5.0, "rate": 1.0}):
        plan = Boosting(share=1.0, leaves=leaves, most_steps=3, least=leaf, **more)
        close(plan.fit(codes, y, codes, y).predict(codes), boosted(codes, y, plan), atol=1e-5)


def test_rows_held_out_stop_boosting_at_the_best_step():
    codes, y = table(600, 3)[0], table(600, 3)[1][:, 0]
    fitted, held = (codes[:300], y[:300]), (codes[300:], y[300:])
    # Where the rows themselves tell, all steps are taken.
    steps = [Boosting(most_steps=k).fit(*fitted, *fitted) for k in range(1, 81)]
    losses = [((held[1] - one.predict(held[0])) ** 2).sum() for one in steps]
    for patience in (1, 3, 80):
        stopped = Boosting(most_steps=80, patience=patience).fit(*fitted, *held)
        kept = len(stopped.roots)
        assert kept == 1 + np.argmin(losses[: kept + patience]) < 80
        equal(stopped.values, steps[kept - 1].values)


def test_threads_and_batches_change_no_bit_and_seeds_fix_everything():
    codes, targets = table(5000, 4)
    y, cells = targets[:, 0], codes[:, :2]

    def answers(k=5000, n_jobs=1, seed=0):
        forest = grown(codes, targets, 5, seed=seed, n_jobs=n_jobs).fill(codes, cells, seed)
        leaves = forest.set_depth(20).leaves(codes[:k])
        own = cells[:k], forest.held(np.arange(k))
        mass = forest.histograms(leaves, 64), forest.histograms(leaves, 64, *own)
        model = Boosting(most_steps=9, seed=seed).fit(codes, y, codes, y)
        return leaves, *mass, model.predict(codes[:k])

    expected = answers()
    for found in (answers(n_jobs=3), *map(answers, (1, 2, 3, 7))):
        for one, other in zip(found, expected, strict=True):
            equal(one, other[: len(one)])
    for one, other in zip(answers(seed=1), expected, strict=True):
        assert not np.array_equal(one, other)
