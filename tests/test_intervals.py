"""Uncrossing and nesting only enlarge."""

import numpy as np

from localconformal.intervals import collapse_crossed, crossed, nest, round_up

INF, LARGEST = np.inf, np.finfo(float).max


def random_intervals(n, levels, seed):
    return np.random.default_rng(seed).normal(size=(n, 2, levels))


def test_crossed_bounds_collapse_to_their_midpoint_and_others_stay():
    intervals = random_intervals(50, 3, seed=1)
    got = collapse_crossed(intervals)
    for i, level in np.ndindex(50, 3):
        lower, upper = intervals[i, :, level]
        assert crossed(intervals)[i, level] == (lower > upper)
        expected = [(lower + upper) / 2] * 2 if lower > upper else [lower, upper]
        np.testing.assert_array_equal(got[i, :, level], expected)
    assert not crossed(got).any()
    assert not crossed(np.array([[[1.0], [1.0]]])).any()
    huge = np.array([[[LARGEST], [0.9 * LARGEST]], [[LARGEST], [-LARGEST]]])
    assert np.all(np.isfinite(collapse_crossed(huge)))


def test_infinite_bounds_and_sums_stay_infinite_without_a_warning():
    intervals = np.array([[[-INF], [INF]], [[0.0], [INF]], [[-INF], [0.0]]])
    np.testing.assert_array_equal(collapse_crossed(intervals), intervals)
    np.testing.assert_array_equal(round_up(np.array([-INF, 1.0]), -INF), [-INF, -INF])
    np.testing.assert_array_equal(round_up(np.array([-INF, 0.0, INF])), [-INF, 0.0, INF])


def test_nested_intervals_are_hulls_of_the_lower_levels_in_any_order():
    levels = np.array([0.8, 0.5, 0.95, 0.9])
    intervals = random_intervals(30, 4, seed=2)
    got = nest(intervals, levels)
    for i, asked in np.ndindex(30, 4):
        hull = [l for l in range(4) if levels[l] <= levels[asked]]
        assert got[i, 0, asked] == min(intervals[i, 0, l] for l in hull)
        assert got[i, 1, asked] == max(intervals[i, 1, l] for l in hull)
    np.testing.assert_array_equal(nest(intervals[:, :, :1], np.array([0.9])), intervals[:, :, :1])
