"""Corrections in units of the local width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LinearRegression

from localconformal import (
    KernelLaw,
    LocalizedConformalRegressor,
    NeighborsLaw,
    ScaledQuantile,
    StackedLaw,
    UniformLaw,
)
from localconformal.laws import SidedLaw

# Six decimals: below the smallest normal number, no relative rounding bound can hold.
SCORE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
LAWS = {
    "uniform": UniformLaw(),
    "neighbors": NeighborsLaw(n_neighbors=3),
    "kernel": KernelLaw(bandwidth=0.5, random_state=0),
    "knots": StackedLaw(["uniform", NeighborsLaw(n_neighbors=3)], weights=[1, 2]),
}


@given(
    st.sampled_from(sorted(LAWS)),
    st.integers(1, 15).flatmap(lambda n: arrays(float, (n, 2), elements=SCORE)),
    arrays(float, (4, 2), elements=SCORE),
    st.floats(-5, 5),
    st.sampled_from([1e-8, 1.0, 1e8]),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_p_at_most_theta_implies_v_at_most_the_threshold(law, data, v, theta, scale, mirrored):
    data, v = scale * data, scale * v
    # Two columns of their own, or one that answers for both sides.
    V = np.column_stack([-data[:, 1], data[:, 1]]) if mirrored else data
    F = SidedLaw.fit(LAWS[law], data[:, :1], V, None).at(v[:, :1])
    adjustment, levels = ScaledQuantile().fit(V), np.array([[0.95, 0.6], [0.9, 0.3]])
    p = adjustment.score(v, F, levels)
    assert np.all(np.isfinite(p))
    for limit in (np.full((2, 2), theta), p[0], p):
        T = adjustment.threshold(limit, F, levels)
        assert np.all((v[:, :, None] <= T)[p <= limit])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", [1.0, 1.0 - 1e-14, 1.0 - 1e-9, 1e-3])
def test_extreme_levels_stay_finite(law, level):
    V = np.random.default_rng(0).normal(size=(40, 1))
    F = SidedLaw.fit(LAWS[law], V, V, None).at(V[:5])
    adjustment, levels = ScaledQuantile().fit(V), np.array([[level]])
    p = adjustment.score(V[:5], F, levels)
    assert np.all(np.isfinite(p))
    assert np.all(V[:5, :, None] <= adjustment.threshold(p, F, levels))


def test_below_one_half_there_is_no_width_and_the_unit_is_the_floor():
    V = np.random.default_rng(0).normal(size=(40, 1))
    F, levels = SidedLaw.fit(UniformLaw(), V, V, None).at(V[:5]), np.array([[0.3]])
    adjustment = ScaledQuantile().fit(V)
    expected = (V[:5, :, None] - F.quantile(levels)) / adjustment.eps_[0]
    np.testing.assert_allclose(adjustment.score(V[:5], F, levels), expected, rtol=1e-12)


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


def regressor(**params):
    defaults = {"law": KernelLaw(bandwidth=0.4), "adjustment": "scaled", "random_state": 0}
    return LocalizedConformalRegressor(LinearRegression(), **{**defaults, **params})


@pytest.mark.parametrize("sides", ["joint", "union", "absolute"])
def test_levels_are_nested_and_intervals_adapt(sides):
    (X, y), (Q, _) = rows(300, 0), rows(200, 1)
    intervals = regressor(sides=sides).fit(X, y).predict_interval(Q, [0.5, 0.8, 0.9])
    assert np.all(np.isfinite(intervals))
    assert np.all(np.diff(intervals[:, 0], axis=1) <= 0)
    assert np.all(np.diff(intervals[:, 1], axis=1) >= 0)
    width, wide = intervals[:, 1, 2] - intervals[:, 0, 2], np.abs(Q[:, 1]) > 1.5
    assert width[wide].mean() > 2 * width[np.abs(Q[:, 1]) < 0.4].mean()


@pytest.mark.parametrize("sides", ["joint", "union", "absolute"])
@pytest.mark.parametrize("c", [2.0**-20, 2.0**20])
def test_scaling_y_scales_the_intervals(sides, c):
    (X, y), (Q, _) = rows(150, 0), rows(20, 1)
    one = regressor(sides=sides).fit(X, y).predict_interval(Q)
    np.testing.assert_allclose(
        regressor(sides=sides).fit(X, c * y).predict_interval(Q), c * one, rtol=1e-9
    )


def test_the_correction_is_proportional_to_the_width():
    """Against the additive one, which is the same everywhere."""
    (X, y), (Q, _) = rows(300, 0), rows(100, 1)
    law = KernelLaw(bandwidth=0.3, random_state=0)
    V = np.column_stack([-y, y])
    F = SidedLaw.fit(law, X, V, None).at(Q)
    levels, theta = np.array([[0.9], [0.9]]), np.full((2, 1), 0.5)
    adjustment = ScaledQuantile(floor=1e-6).fit(V)
    added = adjustment.threshold(theta, F, levels) - F.quantile(levels)
    width = F.quantile(levels) - F.quantile(1 - levels)
    np.testing.assert_allclose(added, 0.5 * width, rtol=1e-3)


def test_a_law_without_width_is_corrected_in_units_of_the_floor():
    V = np.full((20, 2), 3.0)
    F = SidedLaw.fit(UniformLaw(), np.zeros((20, 1)), V, None).at(np.zeros((4, 1)))
    adjustment, levels = ScaledQuantile(floor=0.1).fit(V), np.array([[0.9], [0.9]])
    v = np.array([[3.0, 3.3]] * 4)
    p = adjustment.score(v, F, levels)
    np.testing.assert_allclose(p[:, :, 0], [[0.0, 1.0]] * 4, atol=1e-9)
    assert np.all(v[:, :, None] <= adjustment.threshold(p, F, levels))
    # Levels below one half: the width is never negative.
    low = np.array([[0.2], [0.2]])
    assert np.all(np.isfinite(adjustment.score(v, F, low)))


def test_data_without_noise_give_intervals_without_width():
    X, _ = rows(120, 0)
    intervals = regressor().fit(X, 2.0 * X[:, 0]).predict_interval(X)
    np.testing.assert_allclose(intervals[:, 1], intervals[:, 0], atol=1e-9)
    np.testing.assert_allclose(intervals[:, 0], 2.0 * X[:, 0], atol=1e-9)
