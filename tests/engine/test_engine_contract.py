"""What every engine keeps: it agrees with the NumPy oracle, on awkward rows, and is a law."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from inner import (
    KERNELS,
    KernelWeights,
    NeighborWeights,
    Problem,
    ReferenceEngine,
    Rows,
    build_engine,
    build_oracle,
)
from localconformal import KernelLaw, NeighborsLaw
from localconformal.engine.neighbors import NeighborEngine
from localconformal.laws.base import effective_size
from registry import ci_but

ENGINES = ["reference", "exact", "sketch", "neighbors"]
LEVELS = np.array([0.02, 0.05, 0.5, 0.9, 0.98])
LOWER = np.zeros(len(LEVELS), dtype=bool)
#: Mass by which the exact engine may miss the oracle: weights are float32.
STATED = 1e-4
#: The same where the whole sample is asked for: that is reached when weights differ by 1e-3, and
#: rounding may take one doubling more or less to get there.
ALL_ROWS = 2e-3
CASES = {
    "one reference": {"n": 1},
    "two references": {"n": 2, "h": 0.1},
    "a block and one more": {"n": 513},
    "ties and duplicates": {"round_to": 0},
    "all scores equal": {"spread": 0.0},
    "all rows equal": {"scale": 0.0},
    "offset and narrow": {"offset": 1e6, "h": 1e-3},
    "bandwidth 1e-6": {"h": 1e-6},
    "bandwidth infinite": {"h": np.inf},
    "large coordinates": {"scale": 1e5, "h": 3e4},
    "one column": {"d": 1, "h": 0.05},
    "7 columns": {"n": 60, "d": 7, "h": 1.9},
    "16 columns": {"n": 60, "d": 16, "h": 2.8},
    "200 columns, narrow": {"d": 200, "h": 1.0},
    "200 columns": {"d": 200, "h": 15.0},
    "bandwidth 1e6": {"h": 1e6},
    "offset": {"offset": 1e6},
    "plain": {},
}
QUICK = [*zip([*CASES][:12], 4 * [*KERNELS], strict=True)]


def problem(
    n=700, d=3, h=0.8, kernel="gaussian", offset=0.0, scale=1.0, round_to=9, spread=1.0, **params
):
    rng = np.random.default_rng(0)
    points = np.round(scale * rng.normal(size=(n, d)), round_to) + offset
    v = np.round(spread * rng.normal(size=n) * (0.3 + np.abs(points[:, 0] - offset)), round_to)
    known = {"min_effective_samples": 20.0, "seed": 0, "n_jobs": 1}
    return Problem(points, v, kernel, h, **{**known, **params})


def build(name, of):
    if name == "neighbors":
        return NeighborEngine(of.v, of.points, k=60)
    return build_oracle(of) if name == "reference" else build_engine(name, of)[0]


def engine_and_oracle(name, of):
    return build(name, of), build("reference", of)


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
    # Scores in any order, at atoms, between them and beyond.
    asked = np.random.default_rng(2).choice(v, size=(len(rows), 4))
    asked[:, 2:] += np.array([0.1, -0.1])
    asked = np.hstack([asked, np.tile([v.max() + 1, v.min(), v.min() - 1], (len(rows), 1))])
    for side in ("left", "right"):
        np.testing.assert_allclose(
            engine.cdf(rows, asked, side), oracle.cdf(rows, asked, side), atol=tolerance
        )
    slack = tolerance * 4 * np.abs(v).max() + 1e-12
    found, expected = engine.moments(rows), oracle.moments(rows)
    np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=slack)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=10 * tolerance)
    np.testing.assert_array_equal(found[:, 3], expected[:, 3])


@pytest.mark.parametrize("case", ci_but(QUICK, product(CASES, KERNELS)), ids=" ".join)
def test_the_exact_engine_agrees_with_the_oracle(case):
    of = problem(kernel=case[1], **CASES[case[0]])
    engine, oracle = engine_and_oracle("exact", of)
    stated = STATED if of.min_effective_samples < len(of.v) else ALL_ROWS
    assert_agrees(engine, oracle, queries(of), of.v, stated)


FALLING_BACK = [*(("exact", kernel) for kernel in KERNELS), ("sketch", "gaussian")]


@pytest.mark.filterwarnings("ignore:The requested sketch")
@pytest.mark.parametrize("case", FALLING_BACK, ids=" ".join)
@pytest.mark.parametrize("least", ci_but([20.0], [1.0, 20.0]))
def test_far_away_rows_fall_back_as_the_oracle_does(case, least):
    of = problem(kernel=case[1], min_effective_samples=least, h=0.5)
    engine, oracle = engine_and_oracle(case[0], of)
    far = np.outer([1e3, -1e4, 1e6, 1e12, 1e30, -1e30], [1.0, 0.5, -1.0])
    assert_agrees(engine, oracle, far, of.v, 1e-4)
    assert engine.moments(far)[:, 3].all()


@pytest.mark.filterwarnings("ignore:The requested sketch")
@pytest.mark.parametrize("name", ["exact", "sketch"])
def test_rows_with_no_mass_in_a_gap_fall_back_even_when_nothing_is_asked(name):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(-50, 0.1, (200, 1)), rng.normal(50, 0.1, (200, 1))])
    of = Problem(points, rng.normal(size=400), "gaussian", 0.01, 0.0, 0, 1)
    engine, oracle = engine_and_oracle(name, of)
    gap = np.array([[0.0], [10.0], [-1.0]])
    assert oracle.moments(gap)[:, 3].all()
    assert_agrees(engine, oracle, gap, of.v, 1e-4)


def test_a_reference_on_the_edge_is_inside_however_far_others_are():
    for offset in (0.0, 8.0):
        points = np.array([[0.0], [0.0], [2.0**-20], [52.1651176]]) + offset
        of = Problem(points, np.arange(4.0), "boxcar", 2.0**-20, 0.0, 0, 1)
        assert build("exact", of).moments(points[:1])[0, 2] == 3.0


#: Wide enough for a certificate: in any dimension, wherever the origin is.
WIDE = {
    **{f"{d} columns": {"d": d, "h": 2.0 * np.sqrt(2 * d)} for d in (1, 3, 40, 200)},
    **{f"bandwidth {h:g}, offset": {"offset": 1e6, "h": h} for h in (1.5, 1e6, np.inf)},
}


@pytest.mark.parametrize("case", ci_but(["3 columns", "bandwidth 1.5, offset"], WIDE))
def test_a_sketch_that_meets_its_certificate_agrees_with_the_oracle(case):
    of = problem(3500, **WIDE[case])
    engine, report = build_engine("sketch", of)
    oracle, rows = build("reference", of), queries(of, 600)
    assert report.certified_error <= 0.005
    missed = missed_mass(engine.quantiles(rows, LEVELS, LOWER), LEVELS, oracle, rows)
    assert missed <= 2 * report.certified_error + 0.001
    found, expected = engine.moments(rows), oracle.moments(rows)
    np.testing.assert_allclose(found[:, :2], expected[:, :2], atol=0.02)
    np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=0.05)


@pytest.mark.parametrize("k", [1, 60, 3500])
def test_nearest_neighbours_are_the_same_through_a_tree(k):
    rng = np.random.default_rng(0)
    X, Q = np.round(rng.normal(size=(3500, 2)), 1), np.round(rng.normal(size=(300, 2)), 1)
    v = np.round(rng.normal(size=3500), 1)
    law = NeighborsLaw(n_neighbors=k).fit(X, v)
    assert isinstance(law.engine_, NeighborEngine)
    oracle = ReferenceEngine(law.engine_.v, NeighborWeights(law.points_, k))
    assert_agrees(law.engine_, oracle, law.view_(Rows(Q)), v, 1e-12)


@pytest.mark.parametrize("engine", ["auto", "exact", "sketch"])
def test_float32_rows_get_the_answers_of_the_same_rows_in_float64(engine):
    of, Q = problem(1500), rows_around(50).astype("f")
    X, v = of.points.astype("f"), of.v.astype("f")
    made = KernelLaw(bandwidth=1.5, engine=engine, random_state=0, n_jobs=1)
    law, same = (clone(made).fit(kind(X), kind(v)) for kind in (np.float32, np.float64))
    answer, expected = law.quantile(Q, LEVELS), same.quantile(Q.astype(float), LEVELS)
    assert missed_mass(answer, LEVELS, same.engine_, same.view_(Rows(Q))) <= 1e-4
    np.testing.assert_allclose(answer, expected, atol=0.01)


def rows_around(m=60):
    rows = np.random.default_rng(1).normal(size=(m, 3))
    rows[:3] *= 1e3
    return rows


def answers(engine, rows, start=0):
    """All that an engine can be asked, at these rows; ``start`` says where the questions do."""
    these = slice(start, start + len(rows))
    levels = np.random.default_rng(1).random((500, 3))[these]
    asked = np.random.default_rng(2).normal(size=(500, 4))[these]
    return {
        "quantiles": engine.quantiles(rows, levels, np.array([False, True, False])),
        "right": engine.cdf(rows, asked, "right"),
        "left": engine.cdf(rows, asked, "left"),
        "moments": engine.moments(rows),
    }


def assert_same(one, other):
    for name, answer in one.items():
        np.testing.assert_array_equal(answer, other[name], err_msg=name)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return build(request.param, problem(1500, h=1.0))


#: From hardly local to so narrow that a sketch's raw CDF is not monotone.
@pytest.mark.parametrize("h", ci_but([0.3], [5.0, 1.0, 0.3]))
@pytest.mark.parametrize("decimals", ci_but([1], [1, 9]))
@pytest.mark.filterwarnings("ignore:The requested sketch")
@pytest.mark.parametrize("name", ENGINES)
def test_laws_are_inverses_and_increase_from_0_to_1(name, h, decimals):
    of = problem(1500, h=h, round_to=decimals)
    engine = build(name, of)
    rng, rows = np.random.default_rng(3), rows_around()
    values = np.concatenate([rng.choice(of.v, (60, 20)), rng.normal(size=(60, 20))], axis=1)
    left = engine.cdf(rows, values, "left")
    # Levels that fall exactly on the law's own values, and any others.
    levels = np.concatenate([left, rng.random((60, 40))], axis=1)
    upper = engine.quantiles(rows, levels, np.ones(80, dtype=bool))
    inside = values[:, :, None] <= upper[:, None]
    assert np.all(inside[left[:, :, None] <= levels[:, None]])
    assert np.all((left[:, :, None] - levels[:, None])[inside] <= 1e-9)
    grid = np.broadcast_to(np.linspace(-20, 20, 400), (60, 400))
    F = engine.cdf(rows, grid, "right")
    assert np.all(np.diff(F, axis=1) >= 0)
    assert np.all((F[:, 0] == 0.0) & (F[:, -1] == 1.0))
    assert np.all(engine.cdf(rows, grid, "left") <= F)
    steps = np.linspace(0, 1, 50)
    lower, upper = (engine.quantiles(rows, steps, np.full(50, strict)) for strict in (False, True))
    assert np.all(np.diff(lower[:, 1:]) >= 0)
    assert np.all((lower[:, 0] == -np.inf) & np.isfinite(lower[:, -1]))
    assert np.all((upper[:, -1] == np.inf) & np.isfinite(upper[:, 0]))


def test_one_by_one_in_chunks_and_pickled_is_the_batch_to_the_bit(engine, monkeypatch):
    rows = rows_around(80)
    whole = answers(engine, rows)
    # Of the plain engine, in numbers: some rows at a time.
    monkeypatch.setattr("localconformal.laws.base._CHUNK", 10_000)
    assert_same(answers(pickle.loads(pickle.dumps(engine)), rows), whole)
    for i in (0, 3, 41, 79):
        here = {name: answer[i : i + 1] for name, answer in whole.items()}
        assert_same(answers(engine, rows[i : i + 1], start=i), here)
    for name, answer in answers(engine, rows[:0]).items():
        assert len(answer) == 0, name


@pytest.mark.parametrize("name", ["exact", "sketch"])
def test_threads_change_no_bit(name, monkeypatch):
    # Threads at any size, and more than one piece of a sketch.
    monkeypatch.setattr("localconformal.engine.exact._PAIRS_PER_THREAD", 1)
    monkeypatch.setattr("localconformal.engine.sketch._PIECE", 500)
    monkeypatch.setattr("localconformal.engine.sketch._CHUNK_ROWS", 64)
    rows = rows_around(400)
    one, four = (build(name, problem(1500, h=2.0, n_jobs=n)) for n in (1, 4))
    assert_same(answers(one, rows), answers(four, rows))


CLOSE = np.random.default_rng(0).normal(size=(60, 2))
ASKED = np.random.default_rng(1).normal(size=(15, 2))
EACH = pytest.mark.parametrize("kernel", KERNELS)


@EACH
def test_the_effective_sample_size_is_positive_and_grows_with_the_bandwidth(kernel):
    squared = cdist(ASKED, CLOSE, "sqeuclidean")
    sizes = [effective_size(KERNELS[kernel](squared / h**2)) for h in np.geomspace(0.1, 50)]
    assert np.all(np.diff(sizes, axis=0) >= -1e-9)
    # Coinciding references have equal weights at any bandwidth.
    weights, widened = KernelWeights(np.zeros((5, 2)), kernel, 1e-100, 5.0)(np.zeros((1, 2)))
    assert not widened.any()
    assert weights[0, 0] > 0
    assert np.all(weights == weights[0, 0])
    np.testing.assert_array_equal(effective_size(np.repeat([[0.0], [1.0]], 7, axis=1)), [0, 7])


@EACH
@pytest.mark.parametrize("minimum", [1.0, 7.5, 60.0, 1e9])
def test_widening_reaches_the_minimum_and_no_more_doublings_than_needed(kernel, minimum):
    h, formula = 1e-3, KERNELS[kernel]
    weights, widened = KernelWeights(CLOSE, kernel, h, minimum)(ASKED)
    reachable = min(minimum, len(CLOSE)) * (1 - 1e-5)
    assert np.all(effective_size(weights) >= reachable)
    if minimum == 7.5:
        assert widened.all()
        for row, got in zip(cdist(ASKED, CLOSE, "sqeuclidean"), weights, strict=True):
            tried = [formula(row[None] / (h * 2.0**k) ** 2) for k in range(40)]
            expected = next(w for w in tried if effective_size(w) >= 7.5)[0]
            np.testing.assert_allclose(got / got.sum(), expected / expected.sum(), rtol=1e-9)


def test_compact_kernels_fall_back_without_mass_and_hold_their_edge():
    for kernel in ("boxcar", "epanechnikov"):
        weights, widened = KernelWeights(CLOSE, kernel, 0.1, 0.0)(np.array([[50.0, 0.0]]))
        assert widened.all()
        assert weights.sum() > 0
    edge = np.array([[0.1 + 0.2]])
    assert KernelWeights(edge, "boxcar", 0.3, 0.0)(np.zeros((1, 1)))[0][0, 0] == 1.0
