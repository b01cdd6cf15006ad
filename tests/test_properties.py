"""Laws of engines, local laws and adjustments, for any reference rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from inner import Problem, build_engine, build_oracle

KERNELS = ["boxcar", "epanechnikov", "gaussian"]

SETTINGS = settings(max_examples=40, deadline=None)
#: Lattices make ties, duplicates and distances on the edge of compact kernels.
COORDINATE = st.floats(-100, 100) | st.integers(-3, 3).map(lambda k: k / 4)
# Six decimals: below the smallest normal number, no relative rounding bound can hold.
SCORE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
BANDWIDTH = st.sampled_from([1e-6, 1e-3, 0.25, 1.0, 7.0, 1e3, 1e6, np.inf])
FAR = st.sampled_from([1.0, 1.0, 1.0, 1e3, 1e9, 1e30])
#: Mass by which an answer may miss the oracle's: float32 weights; see `engine.exact`. More where
#: the whole sample is asked for: that is reached when weights differ by 1e-3, and rounding may
#: take one doubling more or less to get there.
TOLERANCE, ALL_ROWS = 2e-4, 2e-3
LEVELS = np.array([0.05, 0.5, 0.95])
LOWER = np.zeros(3, dtype=bool)


@st.composite
def problems(draw, kernels):
    """References (duplicates among them), a kernel and a bandwidth; and queries."""
    d, n = draw(st.sampled_from([1, 2, 5, 200])), draw(st.integers(1, 12))
    columns = draw(arrays(float, (n, min(d, 5)), elements=COORDINATE))
    asked = draw(arrays(float, (4, min(d, 5)), elements=COORDINATE)) * draw(FAR)
    copies = draw(st.integers(1, 60))
    points = np.tile(np.resize(columns, (n, d)), (copies, 1))
    v = np.resize(draw(arrays(float, n * min(copies, 2), elements=SCORE)), len(points))
    rows = np.vstack([np.resize(asked, (4, d)), points[:2]])
    offset, least = draw(st.sampled_from([0.0, 0.0, 1e6])), draw(st.sampled_from([0, 1, 3, 20]))
    kernel, h = draw(st.sampled_from(sorted(kernels))), draw(BANDWIDTH)
    return Problem(points + offset, v, kernel, h, float(least), 0, 1), rows + offset


# Every kernel and number of columns is compiled for it: half a minute in a fresh clone.
@pytest.mark.ci
@given(problems(KERNELS))
@SETTINGS
def test_engines_miss_the_oracle_by_no_more_than_rounding(drawn):
    problem, rows = drawn
    engine, oracle = build_engine("exact", problem)[0], build_oracle(problem)
    tolerance = TOLERANCE if problem.min_effective_samples < len(problem.v) else ALL_ROWS
    answer = engine.quantiles(rows, LEVELS, LOWER)
    assert np.isin(answer, problem.v).all()
    assert np.all(oracle.cdf(rows, answer, "left") <= LEVELS + tolerance)
    assert np.all(oracle.cdf(rows, answer, "right") >= LEVELS - tolerance)
    size = 4 * tolerance * np.abs(problem.v).max() + 1e-12
    found, expected = engine.moments(rows), oracle.moments(rows)
    np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=size)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=10 * tolerance)
    np.testing.assert_array_equal(found[:, 3], expected[:, 3])


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore:The requested sketch")
@given(
    st.sampled_from(["auto", "exact", "sketch"]),
    problems(["gaussian"]),
    st.floats(0, 1),
    SCORE,
)
@SETTINGS
def test_any_engine_is_a_law_however_poor(name, drawn, t, v):
    problem, rows = drawn
    engine, _ = build_engine(name, problem)
    upper = engine.quantiles(rows, np.array([t]), np.array([True]))[:, 0]
    left = engine.cdf(rows, np.full((len(rows), 1), v), "left")[:, 0]
    assert np.all(v <= upper[left <= t])
    assert np.all(left[v <= upper] <= t + 1e-9)
    F = engine.cdf(rows, np.broadcast_to(np.linspace(-51, 51, 40), (len(rows), 40)), "right")
    assert np.all(np.diff(F, axis=1) >= 0)
    assert np.all((F[:, 0] == 0) & (F[:, -1] == 1))
    quantiles = engine.quantiles(rows, LEVELS, LOWER)
    assert np.isin(quantiles, problem.v).all()
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    alone = np.concatenate([engine.quantiles(row[None], LEVELS, LOWER) for row in rows])
    np.testing.assert_array_equal(quantiles, alone)
