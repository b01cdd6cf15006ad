"""Densities: masses that sum to one, on a grid that scores of any kind fit on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import QuantileRegressor

from inner import BINS, EVERYWHERE, Grid, Rows, law_mass
from localconformal import HPDSplitRegressor, LearnedLaw, UniformLaw
from registry import ci_but


def grid_of(v):
    return Grid.around(np.asarray(v), y=np.asarray(v))


def density_of(law, X, v):
    """The grid of responses v, and their masses (n, M) at any rows."""
    model = HPDSplitRegressor(DummyRegressor(), law=law, conformity_score="response")
    parts = model.set_params(calibration_size=None, random_state=0).fit(X, v).parts_
    return parts.adjustment.grid_, lambda X: parts.adjustment.masses(parts.law.at(Rows(X)))


def two_modes(n, seed):
    """Modes 2 x apart: one at x = 0, two at x = 4."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, size=(n, 1))
    return X, X[:, 0] * rng.choice([-1, 1], n) + 0.5 * rng.normal(size=n)


ODD = {
    **{"one": [3.0], "two": [1.0, 2.0], "constant": [5.0] * 50, "zero": [0.0] * 50},
    "discrete": [0.0, 1.0, 2.0] * 30,
    "mostly-zero": [0.0] * 97 + [1.0, 2.0, 1e6],
    "far": 1e9 + np.linspace(0, 1e-3, 60),
    "far-constant": np.nextafter(1e9, [0.0, 2e9] * 30),
    "huge": 1e150 * np.linspace(-1, 1, 60),
    "tiny": 1e-150 * np.linspace(-1, 1, 60),
    "wild": np.random.default_rng(0).standard_cauchy(300),
}


@pytest.mark.parametrize("case", ci_but(["one", "constant", "mostly-zero", "wild"], ODD))
def test_masses_are_positive_sum_to_one_and_the_grid_holds_the_scores(case):
    grid, masses = density_of(UniformLaw(), np.zeros((len(ODD[case]), 1)), ODD[case])
    mass = masses(np.array([[0.0], [1e9]]))
    assert mass.shape == (2, BINS)
    assert (mass >= 0.99 * EVERYWHERE / BINS).all()
    np.testing.assert_allclose(mass.sum(axis=1), 1.0)
    np.testing.assert_array_equal(masses(np.array([[1e9]])), mass[1:])
    assert (grid.widths > 0).all()
    assert (grid.bins(np.asarray(ODD[case]))[0] >= 0).all()


def test_wild_scores_leave_bins_for_the_others():
    v = np.append(np.linspace(-1.0, 1.0, 999), 1e6)
    left, _ = grid_of(v).bins(np.array([-1.0, 1.0]))
    assert left[1] - left[0] > 20


@given(
    v=st.lists(st.integers(-50, 50), min_size=2, max_size=30),
    scale=st.sampled_from([0.25, 8.0, 1024.0]),
)
def test_the_grid_scales_with_the_scores(v, scale):
    scores = np.asarray(v, dtype=np.float64)
    if scores.any():
        expected = scale * grid_of(scores).edges
        np.testing.assert_allclose(grid_of(scale * scores).edges, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [2.0**-40, 1.0, 2.0**40])
@pytest.mark.parametrize("v", [0.0, 3.0])
def test_the_grid_of_equal_scores_scales_with_the_responses(v, scale):
    expected = scale * Grid.around(np.full(20, v), np.full(20, 5.0)).widths
    grid = Grid.around(np.full(20, scale * v), np.full(20, scale * 5.0))
    np.testing.assert_allclose(grid.widths, expected)
    assert grid.edges[-1] - grid.edges[0] < 1e-8 * scale * 5.0


@given(v=st.lists(st.integers(-50, 50), min_size=2, max_size=30), units=st.floats(0.0, 1e6))
def test_an_extended_grid_just_holds_what_lies_so_far_beyond(v, units):
    grid = grid_of(np.asarray(v, dtype=np.float64))
    ends = np.array([grid.edges[0] - grid.unit * units, grid.edges[-1] + grid.unit * units])
    (start,), (end,) = grid.extended(grid.beyond(ends).max()[None])
    assert start <= ends[0] <= grid.edges[0]
    assert grid.edges[-1] <= ends[1] <= end
    assert end - start <= (ends[1] - ends[0]) * (1.0 + 1e-12) + 1e-12 * np.abs(ends).max()


@settings(max_examples=30, deadline=None)
@given(st.floats(-4.0, 4.0), st.integers(0, BINS))
def test_bins_are_closed(v, edge):
    grid = grid_of(np.linspace(-1.0, 2.0, 40))
    for value in (v, grid.edges[edge]):
        left, right = (bins[0] for bins in grid.bins(np.array([value])))
        holding = [k for k in range(BINS) if grid.edges[k] <= value <= grid.edges[k + 1]]
        assert sorted({int(left), int(right)} - {-1}) == holding


def test_two_modes_are_kept_apart():
    grid, masses = density_of(None, *two_modes(1000, seed=1))
    one, two = masses(np.array([[0.2], [3.5]])) / grid.widths
    at = {v: grid.bins(np.array([v]))[0][0] for v in (-3.5, 0.0, 3.5)}
    assert two[at[0.0]] < 0.2 * min(two[at[-3.5]], two[at[3.5]])
    assert one[at[0.0]] > 5 * max(one[at[-3.5]], one[at[3.5]])


def test_mass_beyond_the_grid_counts_for_its_ends():
    X, v = two_modes(200, seed=0)
    law = LearnedLaw(QuantileRegressor(alpha=0), n_jobs=1).fit(X, 100.0 * v)
    mass = law_mass(law.at(Rows(X[:5])), grid_of(v), 5)
    np.testing.assert_allclose(mass.sum(axis=1), 1.0)
    assert (mass[:, [0, -1]].sum(axis=1) > 0.3).all()
