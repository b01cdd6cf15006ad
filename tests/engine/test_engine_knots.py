"""Laws of knots: inverses of each other under any rounding, and moments by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import trapezoid

from localconformal.engine.knots import KnotEngine, Knots
from localconformal.laws.knots import GRID
from localconformal.quantiles import MASS_GUARD

SETTINGS = settings(max_examples=150, deadline=None)
# Six decimals: below the smallest normal number, no relative rounding bound can hold.
VALUE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
SCALE = st.sampled_from([1e-9, 1.0, 3.7, 1e9])
LOWER, UPPER = np.array([False]), np.array([True])


def rows_of(values):
    """Knots of one or several rows, sorted."""
    table = np.sort(np.atleast_2d(np.asarray(values, dtype=float)), axis=1)
    return Knots(table, np.full(len(table), 5.0), np.zeros(len(table), dtype=bool))


@st.composite
def problems(draw):
    """Levels, one row of knots with ties and close neighbours, and values of interest (k,)."""
    inner = draw(st.lists(st.floats(0.001, 0.999), max_size=6))
    levels = np.unique([0.0, *np.round(inner, 4), 1.0])
    knots = draw(arrays(float, len(levels), elements=VALUE)) * draw(SCALE)
    twin = draw(st.integers(0, len(knots) - 1))
    knots = np.append(knots[:-1], np.nextafter(knots[twin], np.inf))
    rows = rows_of(knots)
    other = draw(arrays(float, 5, elements=VALUE))
    share = draw(st.floats(0, 1))
    between = rows.values[0, :-1] + share * np.diff(rows.values[0])
    near = [np.nextafter(knots, side) for side in (-np.inf, np.inf)]
    return KnotEngine(levels), rows, np.concatenate([knots, *near, between, other])


@given(problems(), st.floats(0, 1))
@SETTINGS
def test_a_left_cdf_up_to_t_implies_a_value_up_to_the_upper_quantile(problem, t):
    engine, rows, v = problem
    left = engine.cdf(rows, v[None], "left")[0]
    levels = np.append(left, t)
    upper = engine.quantiles(rows, levels, np.ones(len(levels), dtype=bool))[0]
    assert np.all((v <= upper[:, None])[left <= levels[:, None]])


@given(problems(), st.floats(0, 1))
@SETTINGS
def test_a_cdf_of_at_least_t_implies_a_quantile_up_to_the_value(problem, t):
    engine, rows, v = problem
    right = engine.cdf(rows, v[None], "right")[0]
    levels = np.append(right, t)
    quantile = engine.quantiles(rows, levels, np.zeros(len(levels), dtype=bool))[0]
    assert np.all((quantile[:, None] <= v)[right >= levels[:, None]])


@given(problems(), st.lists(st.floats(0, 1), min_size=2, max_size=8))
@SETTINGS
def test_quantiles_are_monotone_within_the_knots_and_ordered(problem, drawn):
    engine, rows, _ = problem
    # Levels at, just below and just above the knots' own.
    edges = [engine.levels, engine.levels - 2 * MASS_GUARD, engine.levels + 2 * MASS_GUARD]
    t = np.sort(np.clip(np.concatenate([drawn, *edges]), 0.0, 1.0))
    lower = engine.quantiles(rows, t, np.zeros(len(t), dtype=bool))[0]
    upper = engine.quantiles(rows, t, np.ones(len(t), dtype=bool))[0]
    assert np.all(lower[1:] >= lower[:-1])
    assert np.all(upper[1:] >= upper[:-1])
    assert np.all(lower <= upper)
    known = rows.values[0]
    assert np.all((lower == -np.inf) | ((known[0] <= lower) & (lower <= known[-1])))
    assert np.all((upper == np.inf) | ((known[0] <= upper) & (upper <= known[-1])))


@given(problems())
@SETTINGS
def test_the_cdf_is_monotone_and_the_left_one_below(problem):
    engine, rows, v = problem
    v = np.sort(np.append(v, [-np.inf, np.inf]))
    left, right = engine.cdf(rows, v[None], "left")[0], engine.cdf(rows, v[None], "right")[0]
    assert np.all(np.diff(left) >= 0)
    assert np.all(np.diff(right) >= 0)
    assert np.all(left <= right + MASS_GUARD)
    assert right[0] == 0.0
    assert right[-1] == 1.0


@given(problems())
@SETTINGS
def test_the_mean_is_the_area_under_the_quantile_function(problem):
    engine, rows, _ = problem
    a, g = rows.values[0], engine.levels
    mean, size = engine.mean(rows)[0], engine.mean(rows, absolute=True)[0]
    # Straight pieces: the trapezoid rule is exact, for |v| after a cut where v changes its sign.
    unit = 1e-12 * np.abs(a).max() + 1e-300
    np.testing.assert_allclose(mean, trapezoid(a, g), rtol=1e-9, atol=unit)
    cross = a[:-1] * a[1:] < 0
    cut = g[:-1][cross] - a[:-1][cross] * np.diff(g)[cross] / np.diff(a)[cross]
    fine = np.unique(np.concatenate([g, cut]))
    expected = trapezoid(np.abs(np.interp(fine, g, a)), fine)
    np.testing.assert_allclose(size, expected, rtol=1e-9, atol=unit)


def test_a_uniform_law_by_hand():
    engine, rows = KnotEngine(np.array([0.0, 0.5, 1.0])), rows_of([0.0, 1.0, 2.0])
    t = np.array([0.1, 0.5, 0.75])
    np.testing.assert_allclose(engine.quantiles(rows, t, LOWER)[0], 2 * t, rtol=1e-9)
    np.testing.assert_allclose(engine.cdf(rows, 2 * t[None], "right")[0], t, rtol=1e-12)
    np.testing.assert_allclose(engine.mean(rows), 1.0)


def test_atoms_are_steps():
    engine, rows = KnotEngine(np.array([0.0, 0.25, 0.75, 1.0])), rows_of([0.0, 1.0, 1.0, 2.0])
    at = np.array([[1.0]])
    assert engine.cdf(rows, at, "left").item() == pytest.approx(0.25)
    assert engine.cdf(rows, at, "right").item() == pytest.approx(0.75)
    inside = np.array([0.3, 0.5, 0.7])
    for upper in (LOWER, UPPER):
        np.testing.assert_array_equal(engine.quantiles(rows, inside, upper), 1.0)


def test_a_point_mass_is_exact():
    engine, rows = KnotEngine(GRID), rows_of(np.full(len(GRID), 0.1))
    t = np.array([0.01, 0.3, 0.999])
    for upper in (LOWER, UPPER):
        np.testing.assert_array_equal(engine.quantiles(rows, t, upper), 0.1)
    np.testing.assert_array_equal(engine.cdf(rows, np.array([[0.1]]), "left"), 0.0)
    np.testing.assert_array_equal(engine.cdf(rows, np.array([[0.1]]), "right"), 1.0)


def test_the_ends_are_infinite_by_definition():
    engine, rows = KnotEngine(GRID), rows_of(np.linspace(-1, 1, len(GRID)))
    assert engine.quantiles(rows, np.array([0.0]), LOWER).item() == -np.inf
    assert engine.quantiles(rows, np.array([1.0]), LOWER).item() == pytest.approx(1.0)
    assert engine.quantiles(rows, np.array([0.0]), UPPER).item() == pytest.approx(-1.0)
    assert engine.quantiles(rows, np.array([1.0]), UPPER).item() == np.inf


@pytest.mark.parametrize("order", ["C", "F"])
def test_answers_do_not_depend_on_the_layout_or_number_of_rows(order):
    values = np.sort(np.random.default_rng(0).normal(size=(37, len(GRID))), axis=1)
    engine, t = KnotEngine(GRID), np.array([0.07, 0.5, 0.93])
    many = rows_of(values)._replace(values=np.asarray(values, order=order))
    for absolute in (False, True):
        alone = [engine.mean(rows_of(row), absolute)[0] for row in values]
        np.testing.assert_array_equal(engine.mean(many, absolute), alone)
    alone = np.vstack([engine.quantiles(rows_of(row), t, UPPER) for row in values])
    np.testing.assert_array_equal(engine.quantiles(many, t, UPPER), alone)


def test_the_grid_is_symmetric_increasing_and_holds_the_usual_levels():
    assert np.all(np.diff(GRID) > 0)
    np.testing.assert_allclose(GRID, 1.0 - GRID[::-1])
    assert {0.0, 0.05, 0.5, 0.95, 1.0} <= set(GRID)
