"""Laws of the compiled engines, for any reference rows: they are the oracle's, only faster."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from localconformal.engine.dispatch import Problem, build_engine

SETTINGS = settings(max_examples=50, deadline=None)
#: Lattices make ties, duplicates and distances on the edge of compact kernels.
COORDINATE = st.floats(-100, 100) | st.integers(-3, 3).map(lambda k: k / 4)
SCORE = st.floats(-50, 50).map(lambda v: round(v, 6)) | st.integers(-2, 2).map(float)
BANDWIDTH = st.sampled_from([1e-6, 1e-3, 0.25, 1.0, 7.0, 1e3, 1e6, np.inf])
LEAST = st.sampled_from([0.0, 1.0, 3.0, 20.0])
OFFSET = st.sampled_from([0.0, 0.0, 1e6])
FAR = st.sampled_from([1.0, 1.0, 1.0, 1e3, 1e9, 1e30])
#: Mass by which an answer may miss the oracle's: float32 weights; see `engine.exact`. More where
#: the whole sample is asked for: that is reached when weights differ by 1e-3, and rounding may
#: take one doubling more or less to get there.
TOLERANCE, ALL_ROWS = 2e-4, 2e-3
LEVELS = np.array([0.05, 0.5, 0.95])


@st.composite
def problems(draw, kernels=("boxcar", "epanechnikov", "gaussian")):
    """References (duplicates among them), a kernel and a bandwidth; and queries."""
    d = draw(st.sampled_from([1, 2, 5, 200]))
    n = draw(st.integers(1, 12))
    columns = draw(arrays(float, (n, min(d, 5)), elements=COORDINATE))
    asked = draw(arrays(float, (4, min(d, 5)), elements=COORDINATE)) * draw(FAR)
    copies = draw(st.integers(1, 60))
    points = np.tile(np.resize(columns, (n, d)), (copies, 1))
    v = np.resize(draw(arrays(float, n * min(copies, 2), elements=SCORE)), len(points))
    rows = np.vstack([np.resize(asked, (4, d)), points[:2]])
    offset = draw(OFFSET)
    kernel, h, least = draw(st.sampled_from(kernels)), draw(BANDWIDTH), draw(LEAST)
    return Problem(points + offset, v, kernel, h, least, 0, 1), rows + offset


ENGINE = st.sampled_from(["exact", "neighbors"])
GAUSSIAN = problems(kernels=("gaussian",))


@given(ENGINE, problems())
@SETTINGS
def test_engines_miss_the_oracle_by_no_more_than_rounding(name, drawn):
    problem, rows = drawn
    engine, oracle = (build_engine(e, problem, 0.005)[0] for e in (name, "reference"))
    tolerance = TOLERANCE if problem.min_effective_samples < len(problem.v) else ALL_ROWS
    answer = engine.quantiles(rows, LEVELS, np.zeros(3, dtype=bool))
    assert np.isin(answer, problem.v).all()
    assert np.all(oracle.cdf(rows, answer, "left") <= LEVELS + tolerance)
    assert np.all(oracle.cdf(rows, answer, "right") >= LEVELS - tolerance)
    np.testing.assert_allclose(
        engine.mean(rows), oracle.mean(rows), atol=4 * tolerance * np.abs(problem.v).max() + 1e-12
    )
    np.testing.assert_allclose(
        engine.effective_sample_size(rows), oracle.effective_sample_size(rows), rtol=10 * tolerance
    )
    np.testing.assert_array_equal(engine.fallback(rows), oracle.fallback(rows))


def assert_inverse(engine, rows, t, v):
    upper = engine.quantiles(rows, np.array([t]), np.array([True]))[:, 0]
    left = engine.cdf(rows, np.full((len(rows), 1), v), "left")[:, 0]
    assert np.all(v <= upper[left <= t])
    assert np.all(left[v <= upper] <= t + 1e-9)


@given(ENGINE, problems(), st.floats(0, 1), SCORE)
@SETTINGS
def test_the_law_of_inverses_holds(name, drawn, t, v):
    problem, rows = drawn
    assert_inverse(build_engine(name, problem, 0.005)[0], rows, t, v)


@given(GAUSSIAN, st.floats(0, 1), SCORE)
@SETTINGS
def test_any_sketch_is_a_law_however_poor(drawn, t, v):
    problem, rows = drawn
    engine, _ = build_engine("sketch", problem, 0.005)
    assert_inverse(engine, rows, t, v)
    grid = np.broadcast_to(np.linspace(-51, 51, 40), (len(rows), 40))
    F = engine.cdf(rows, grid, "right")
    assert np.all(np.diff(F, axis=1) >= 0)
    assert np.all((F[:, 0] == 0) & (F[:, -1] == 1))
    quantiles = engine.quantiles(rows, LEVELS, np.zeros(3, dtype=bool))
    assert np.isin(quantiles, problem.v).all()
    assert np.all(np.diff(quantiles, axis=1) >= 0)


@given(st.sampled_from(["exact", "neighbors", "sketch"]), GAUSSIAN)
@SETTINGS
def test_one_by_one_equals_a_batch(name, drawn):
    problem, rows = drawn
    engine, _ = build_engine(name, problem, 0.005)
    upper = np.array([False, True, False])
    for ask in (
        engine.mean,
        engine.effective_sample_size,
        engine.fallback,
        lambda rows: engine.quantiles(rows, LEVELS, upper),
        lambda rows: engine.cdf(rows, np.zeros((len(rows), 1)), "left"),
    ):
        alone = np.concatenate([ask(rows[i : i + 1]) for i in range(len(rows))])
        np.testing.assert_array_equal(ask(rows), alone)
