"""Every engine against the NumPy oracle, on rows made to be awkward."""

from itertools import product

import numpy as np
import pytest

from localconformal import KernelLaw, NeighborsLaw
from localconformal.engine.dispatch import Problem, build_engine
from localconformal.engine.kernels import KERNELS

LEVELS = np.array([0.02, 0.05, 0.5, 0.9, 0.98])
LOWER = np.zeros(len(LEVELS), dtype=bool)
#: Mass by which an engine may miss the oracle: weights in float32, and the neighbours left out.
STATED = {"exact": 1e-4, "neighbors": 2e-6}
#: The same where the whole sample is asked for: that is reached when weights differ by 1e-3, and
#: rounding may take one doubling more or less to get there.
ALL_ROWS = 2e-3
CASES = {
    "plain": {},
    "one reference": {"n": 1},
    "two references": {"n": 2, "h": 0.1},
    "a block and one more": {"n": 513},
    "ties and duplicates": {"round_to": 0},
    "all scores equal": {"spread": 0.0},
    "all rows equal": {"scale": 0.0},
    "offset": {"offset": 1e6},
    "offset and narrow": {"offset": 1e6, "h": 1e-3},
    "bandwidth 1e-6": {"h": 1e-6},
    "bandwidth 1e6": {"h": 1e6},
    "bandwidth infinite": {"h": np.inf},
    "large coordinates": {"scale": 1e5, "h": 3e4},
    "one column": {"d": 1, "h": 0.05},
    "200 columns": {"d": 200, "h": 15.0},
    "200 columns, narrow": {"d": 200, "h": 1.0},
}


def problem(
    n=700, d=3, h=0.8, kernel="gaussian", offset=0.0, scale=1.0, round_to=9, spread=1.0, least=20.0
):
    rng = np.random.default_rng(0)
    points = np.round(scale * rng.normal(size=(n, d)), round_to) + offset
    v = np.round(spread * rng.normal(size=n) * (0.3 + np.abs(points[:, 0] - offset)), round_to)
    return Problem(points, v, kernel, h, least, 0, 1)


def queries(of, m=40):
    rng = np.random.default_rng(1)
    centre, size = of.points.mean(axis=0), of.points.std(axis=0)
    rows = centre + size * rng.normal(size=(m, of.points.shape[1]))
    return np.vstack([rows, of.points[:5], centre[None]])


def missed_mass(answer, levels, oracle, rows):
    """How far each level lies from the mass that the oracle has at the answer."""
    above = oracle.cdf(rows, answer, "left") - levels
    below = levels - oracle.cdf(rows, answer, "right")
    return np.maximum(np.maximum(above, below), 0.0).max()


def assert_agrees(engine, oracle, rows, v, tolerance):
    answer = engine.quantiles(rows, LEVELS, LOWER)
    assert np.isin(answer, v).all()
    assert missed_mass(answer, LEVELS, oracle, rows) <= tolerance
    asked = np.random.default_rng(2).choice(v, size=(len(rows), 4))
    asked[:, 2:] += np.array([0.1, -0.1])
    for side in ("left", "right"):
        np.testing.assert_allclose(
            engine.cdf(rows, asked, side), oracle.cdf(rows, asked, side), atol=tolerance
        )
    slack = tolerance * 4 * np.abs(v).max() + 1e-12
    np.testing.assert_allclose(engine.mean(rows), oracle.mean(rows), atol=slack)
    np.testing.assert_allclose(engine.mean(rows, True), oracle.mean(rows, True), atol=slack)
    np.testing.assert_allclose(
        engine.effective_sample_size(rows), oracle.effective_sample_size(rows), rtol=10 * tolerance
    )
    np.testing.assert_array_equal(engine.fallback(rows), oracle.fallback(rows))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", STATED)
@pytest.mark.parametrize("case", CASES)
def test_exact_and_neighbours_agree_with_the_oracle(case, name, kernel):
    of = problem(kernel=kernel, **CASES[case])
    engine, report = build_engine(name, of, 0.005)
    oracle, _ = build_engine("reference", of, 0.005)
    assert report.engine == name
    stated = STATED[name] if of.min_effective_samples < len(of.v) else ALL_ROWS
    assert_agrees(engine, oracle, queries(of), of.v, stated)


@pytest.mark.parametrize(("name", "kernel"), [*product(STATED, KERNELS), ("sketch", "gaussian")])
@pytest.mark.parametrize("least", [1.0, 20.0])
def test_far_away_rows_fall_back_as_the_oracle_does(name, kernel, least):
    of = problem(kernel=kernel, least=least, h=0.5)
    engine, oracle = (build_engine(e, of, 0.005)[0] for e in (name, "reference"))
    far = np.outer([1e3, -1e4, 1e6, 1e12, 1e30, -1e30], [1.0, 0.5, -1.0])
    assert_agrees(engine, oracle, far, of.v, 1e-4)
    assert engine.fallback(far).all()


@pytest.mark.parametrize("name", [*STATED, "sketch"])
def test_rows_with_no_mass_in_a_gap_fall_back_even_when_nothing_is_asked(name):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(-50, 0.1, (200, 1)), rng.normal(50, 0.1, (200, 1))])
    of = Problem(points, rng.normal(size=400), "gaussian", 0.01, 0.0, 0, 1)
    engine, oracle = (build_engine(e, of, 0.005)[0] for e in (name, "reference"))
    gap = np.array([[0.0], [10.0], [-1.0]])
    assert oracle.fallback(gap).all()
    assert_agrees(engine, oracle, gap, of.v, 1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_sketch_that_meets_its_certificate_agrees_with_the_oracle(kernel):
    of = problem(n=4000, h=2.0, kernel=kernel)
    if kernel != "gaussian":
        with pytest.raises(ValueError, match="needs the Gaussian"):
            build_engine("sketch", of, 0.005)
        return
    engine, report = build_engine("sketch", of, 0.005)
    oracle, _ = build_engine("reference", of, 0.005)
    rows = queries(of, 200)
    assert report.certified_error <= 0.005
    assert missed_mass(engine.quantiles(rows, LEVELS, LOWER), LEVELS, oracle, rows) <= 0.02
    np.testing.assert_allclose(
        engine.effective_sample_size(rows), oracle.effective_sample_size(rows), rtol=0.05
    )
    np.testing.assert_allclose(engine.mean(rows), oracle.mean(rows), atol=0.02)
    np.testing.assert_allclose(engine.mean(rows, True), oracle.mean(rows, True), atol=0.02)


@pytest.mark.parametrize("d", [1, 2, 5, 40, 200])
def test_a_wide_sketch_agrees_in_any_dimension(d):
    of = problem(n=3500, d=d, h=2.0 * np.sqrt(2 * d))
    engine, report = build_engine("sketch", of, 0.005)
    oracle, _ = build_engine("reference", of, 0.005)
    rows = queries(of, 100)
    assert report.certified_error <= 0.005
    assert missed_mass(engine.quantiles(rows, LEVELS, LOWER), LEVELS, oracle, rows) <= 0.01


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("h", [1.5, 1e6, np.inf])
def test_a_sketch_does_not_mind_where_the_origin_is(offset, h):
    of = problem(n=3500, offset=offset, h=h)
    engine, report = build_engine("sketch", of, 0.005)
    oracle, _ = build_engine("reference", of, 0.005)
    rows = queries(of, 100)
    assert report.certified_error <= 0.005
    assert missed_mass(engine.quantiles(rows, LEVELS, LOWER), LEVELS, oracle, rows) <= 0.01


@pytest.mark.parametrize(
    ("n", "engine", "h"),
    [(3500, "exact", 0.3), (12_000, "sketch", 3.0), (12_000, "neighbors", 0.02)],
)
def test_the_law_is_the_oracle_s_whatever_engine_answers(n, engine, h):
    rng = np.random.default_rng(0)
    X, Q = rng.normal(size=(n, 3)), rng.normal(size=(300, 3))
    v = rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))
    law = KernelLaw(bandwidth=h, random_state=0, n_jobs=1).fit(X, v)
    oracle = KernelLaw(bandwidth=h, engine="reference", random_state=0).fit(X, v)
    assert law.engine_report_.engine == engine
    error = missed_mass(law.quantile(Q, LEVELS), LEVELS, oracle.engine_, oracle.rows(Q))
    assert error <= (0.02 if engine == "sketch" else 1e-4)
    if engine != "sketch":
        np.testing.assert_array_equal(law.fallback(Q), oracle.fallback(Q))


@pytest.mark.parametrize("n", [3500, 12_000])
def test_nearest_neighbours_are_the_same_through_a_tree(n):
    rng = np.random.default_rng(0)
    X, Q = np.round(rng.normal(size=(n, 2)), 1), np.round(rng.normal(size=(300, 2)), 1)
    v = np.round(rng.normal(size=n), 1)
    law = NeighborsLaw(n_neighbors=60).fit(X, v)
    embedded = law.rows(Q)
    distances = np.linalg.norm(embedded[:, None] - law.rows(X)[None], axis=2)
    radius = np.partition(distances, 59, axis=1)[:, 59:60]
    near = distances <= radius * (1 + 1e-9)
    expected = (near * (v <= 0.3)).sum(axis=1) / near.sum(axis=1)
    np.testing.assert_allclose(law.cdf(Q, np.full(len(Q), 0.3)), expected, rtol=1e-12)
    np.testing.assert_array_equal(law.effective_sample_size(Q), near.sum(axis=1))
    assert not law.fallback(Q).any()


@pytest.mark.parametrize("engine", ["reference", "exact", "neighbors", "sketch"])
def test_float32_rows_get_the_answers_of_the_same_rows_in_float64(engine):
    rng = np.random.default_rng(0)
    X, Q = (rng.normal(size=(n, 3)).astype(np.float32) for n in (3500, 50))
    v = rng.normal(size=3500).astype(np.float32)
    law = KernelLaw(bandwidth=1.5, engine=engine, random_state=0, n_jobs=1).fit(X, v)
    same = KernelLaw(bandwidth=1.5, engine=engine, random_state=0, n_jobs=1)
    same.fit(X.astype(float), v.astype(float))
    answer, expected = law.quantile(Q, LEVELS), same.quantile(Q.astype(float), LEVELS)
    assert missed_mass(answer, LEVELS, same.engine_, same.rows(Q)) <= 1e-4
    np.testing.assert_allclose(answer, expected, atol=0.01)


@pytest.mark.parametrize("engine", ["reference", "exact", "neighbors", "sketch"])
def test_infinities_are_refused(engine):
    X, v = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60.0)
    bad = X.copy()
    bad[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        KernelLaw(engine=engine).fit(bad, v)
    with pytest.raises(ValueError, match="infinite"):
        KernelLaw(engine=engine).fit(X, np.where(v == 7, np.inf, v))
    law = KernelLaw(engine=engine).fit(X, v)
    with pytest.raises(ValueError, match="infinite"):
        law.quantile(bad, [0.5])


@pytest.mark.parametrize("name", STATED)
@pytest.mark.parametrize("offset", [0.0, 8.0])
def test_a_reference_on_the_edge_is_inside_however_far_others_are(name, offset):
    points = np.array([[0.0], [0.0], [2.0**-20], [52.1651176]]) + offset
    of = Problem(points, np.arange(4.0), "boxcar", 2.0**-20, 0.0, 0, 1)
    engine, _ = build_engine(name, of, 0.005)
    assert engine.effective_sample_size(points[:1])[0] == 3.0
