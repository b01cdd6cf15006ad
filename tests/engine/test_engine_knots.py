"""Laws of knots: inverses of each other under any rounding, and moments by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import trapezoid

from localconformal.laws.base import GRID, Knots
from localconformal.quantiles import MASS_GUARD

SETTINGS = settings(max_examples=60, deadline=None)
# Six decimals: below the smallest normal number, no relative rounding bound can hold.
VALUE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
SCALE = st.sampled_from([1e-9, 1.0, 3.7, 1e9])


def rows_of(values, levels=GRID):
    table = np.sort(np.atleast_2d(np.asarray(values, dtype=float)), axis=1)
    return Knots(np.asarray(levels), table, total=5.0)


@st.composite
def problems(draw):
    """Levels, one row of knots with ties and close neighbours, and values of interest (k,)."""
    inner = draw(st.lists(st.floats(0.001, 0.999), max_size=6))
    levels = np.unique([0.0, *np.round(inner, 4), 1.0])
    knots = draw(arrays(float, len(levels), elements=VALUE)) * draw(SCALE)
    twin = draw(st.integers(0, len(knots) - 1))
    knots = np.append(knots[:-1], np.nextafter(knots[twin], np.inf))
    rows, other = rows_of(knots, levels), draw(arrays(float, 5, elements=VALUE))
    share = draw(st.floats(0, 1))
    between = rows.values[0, :-1] + share * np.diff(rows.values[0])
    near = [np.nextafter(knots, side) for side in (-np.inf, np.inf)]
    return rows, np.concatenate([knots, *near, between, other])


@given(problems(), st.floats(0, 1))
@SETTINGS
def test_quantiles_and_cdf_are_monotone_inverses_under_any_rounding(problem, t):
    rows, v = problem
    v = np.sort(np.append(v, [-np.inf, np.inf]))
    F = {side: rows.cdf(v[None], side)[0] for side in ("left", "right")}
    assert all(np.all(np.diff(side) >= 0) for side in F.values())
    assert np.all(F["left"] <= F["right"] + MASS_GUARD)
    assert (F["right"][0], F["right"][-1]) == (0.0, 1.0)
    left, right = (np.append(side, t) for side in F.values())
    upper = rows.quantiles(left, np.ones(len(left), dtype=bool))[0]
    assert np.all((v <= upper[:, None])[left[:-1] <= left[:, None]])
    lower = rows.quantiles(right, np.zeros(len(right), dtype=bool))[0]
    assert np.all((lower[:, None] <= v)[right[:-1] >= right[:, None]])


@given(problems(), st.lists(st.floats(0, 1), min_size=2, max_size=8))
@SETTINGS
def test_quantiles_are_monotone_within_the_knots_and_ordered(problem, drawn):
    rows, _ = problem
    # Levels at, just below and just above the knots' own.
    edges = [rows.levels, rows.levels - 2 * MASS_GUARD, rows.levels + 2 * MASS_GUARD]
    t = np.sort(np.clip(np.concatenate([drawn, *edges]), 0.0, 1.0))
    lower, upper = (rows.quantiles(t, np.full(len(t), side))[0] for side in (False, True))
    assert np.all(lower <= upper)
    for q in (lower, upper):
        assert np.all(q[1:] >= q[:-1])
        inside = q[np.isfinite(q)]
        assert np.all((rows.values[0, 0] <= inside) & (inside <= rows.values[0, -1]))


@given(problems())
@SETTINGS
def test_the_mean_is_the_area_under_the_quantile_function(problem):
    rows, _ = problem
    a, g = rows.values[0], rows.levels
    mean, size = rows.moments()[0, :2]
    # Straight pieces: the trapezoid rule is exact, for |v| after a cut where v changes its sign.
    unit = 1e-12 * np.abs(a).max() + 1e-300
    np.testing.assert_allclose(mean, trapezoid(a, g), rtol=1e-9, atol=unit)
    cross = a[:-1] * a[1:] < 0
    cut = g[:-1][cross] - a[:-1][cross] * np.diff(g)[cross] / np.diff(a)[cross]
    fine = np.unique(np.concatenate([g, cut]))
    expected = trapezoid(np.abs(np.interp(fine, g, a)), fine)
    np.testing.assert_allclose(size, expected, rtol=1e-9, atol=unit)


@pytest.mark.parametrize("upper", [False, True])
def test_laws_by_hand(upper):
    asked, t = np.array([upper]), np.array([0.1, 0.5, 0.75])
    straight = rows_of([0.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    np.testing.assert_allclose(straight.quantiles(t, asked)[0], 2 * t, rtol=1e-9)
    np.testing.assert_allclose(straight.cdf(2 * t[None], "right")[0], t, rtol=1e-12)
    np.testing.assert_allclose(straight.moments(), [[1.0, 1.0, 5.0, 0.0]])
    atom = rows_of([0.0, 1.0, 1.0, 2.0], [0.0, 0.25, 0.75, 1.0])
    sides = [atom.cdf(np.array([[1.0]]), side).item() for side in ("left", "right")]
    assert sides == pytest.approx([0.25, 0.75])
    np.testing.assert_array_equal(atom.quantiles(np.array([0.3, 0.5, 0.7]), asked), 1.0)


def test_the_grid_is_symmetric_increasing_and_holds_the_usual_levels():
    assert np.all(np.diff(GRID) > 0)
    np.testing.assert_allclose(GRID, 1.0 - GRID[::-1], atol=1e-12)
    assert {0.0, 0.025, 0.05, 0.1, 0.5, 0.9, 0.95, 0.975, 1.0} <= set(GRID)
