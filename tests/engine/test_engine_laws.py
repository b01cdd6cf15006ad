"""What holds for every engine: inverses, row by row, any number of threads, any order of rows."""

import pickle

import numpy as np
import pytest

from localconformal.engine.dispatch import BUILDERS, Problem, build_engine

ENGINES = ["reference", "exact", "neighbors", "sketch"]
#: From hardly local to so narrow that a sketch's raw CDF is not monotone.
BANDWIDTHS = [5.0, 1.0, 0.3]


def problem(n=3000, d=3, h=1.0, n_jobs=1, decimals=9):
    rng = np.random.default_rng(0)
    points = np.round(rng.normal(size=(n, d)), decimals)
    v = np.round(rng.normal(size=n) * (0.3 + np.abs(points[:, 0])), decimals)
    return Problem(points, v, "gaussian", h, 20.0, 0, n_jobs)


def rows_around(m=60, d=3):
    rows = np.random.default_rng(1).normal(size=(m, d))
    rows[:3] *= 1e3
    return rows


def answers(engine, rows):
    """All that an engine can be asked, at these rows."""
    levels = np.random.default_rng(1).random((500, 3))[: len(rows)]
    asked = np.random.default_rng(2).normal(size=(500, 4))[: len(rows)]
    return {
        "quantiles": engine.quantiles(rows, levels, np.array([False, True, False])),
        "right": engine.cdf(rows, asked, "right"),
        "left": engine.cdf(rows, asked, "left"),
        "mean": engine.mean(rows),
        "size": engine.mean(rows, absolute=True),
        "effective": engine.effective_sample_size(rows),
        "fallback": engine.fallback(rows),
    }


def assert_same(one, other):
    for name, answer in one.items():
        np.testing.assert_array_equal(answer, other[name], err_msg=name)


@pytest.fixture(scope="module", params=ENGINES)
def engine(request):
    return build_engine(request.param, problem(), 0.005)[0]


def test_every_engine_is_tested_here():
    assert set(ENGINES) == set(BUILDERS) - {"auto", "minibatch"}


@pytest.mark.parametrize("decimals", [1, 9])
@pytest.mark.parametrize("h", BANDWIDTHS)
@pytest.mark.parametrize("name", ENGINES)
def test_the_law_of_inverses(name, h, decimals):
    of = problem(h=h, decimals=decimals)
    engine, _ = build_engine(name, of, 0.005)
    rng, rows = np.random.default_rng(3), rows_around()
    values = np.concatenate([rng.choice(of.v, (60, 20)), rng.normal(size=(60, 20))], axis=1)
    left = engine.cdf(rows, values, "left")
    # Levels that fall exactly on the law's own values, and any others.
    levels = np.concatenate([left, rng.random((60, 40))], axis=1)
    upper = engine.quantiles(rows, levels, np.ones(80, dtype=bool))
    for k in range(40):
        v, mass = values[:, k : k + 1], left[:, k : k + 1]
        inside = v <= upper
        assert np.all(inside[mass <= levels])
        assert np.all((mass - levels)[inside] <= 1e-9)


@pytest.mark.parametrize("h", BANDWIDTHS)
@pytest.mark.parametrize("name", ENGINES)
def test_laws_increase_from_0_to_1(name, h):
    engine, _ = build_engine(name, problem(h=h), 0.005)
    rows = rows_around()
    grid = np.broadcast_to(np.linspace(-20, 20, 400), (60, 400))
    F = engine.cdf(rows, grid, "right")
    assert np.all(np.diff(F, axis=1) >= 0)
    assert np.all(F[:, 0] == 0.0)
    assert np.all(F[:, -1] == 1.0)
    assert np.all(engine.cdf(rows, grid, "left") <= F)
    levels = np.linspace(0, 1, 50)
    assert np.all(np.diff(engine.quantiles(rows, levels, np.zeros(50, dtype=bool))[:, 1:]) >= 0)


def test_the_ends_of_the_levels(engine):
    rows, ends = rows_around(), np.array([0.0, 1.0])
    lower = engine.quantiles(rows, ends, np.array([False, False]))
    upper = engine.quantiles(rows, ends, np.array([True, True]))
    assert np.all(lower[:, 0] == -np.inf)
    assert np.all(np.isfinite(lower[:, 1]))
    assert np.all(np.isfinite(upper[:, 0]))
    assert np.all(upper[:, 1] == np.inf)


def test_one_by_one_is_the_batch_to_the_bit(engine):
    rows = rows_around(80)
    whole = answers(engine, rows)
    for i in (0, 3, 41, 79):
        levels = np.random.default_rng(1).random((500, 3))[i : i + 1]
        asked = np.random.default_rng(2).normal(size=(500, 4))[i : i + 1]
        one = rows[i : i + 1]
        upper = np.array([False, True, False])
        np.testing.assert_array_equal(
            engine.quantiles(one, levels, upper), whole["quantiles"][i : i + 1]
        )
        np.testing.assert_array_equal(engine.cdf(one, asked, "right"), whole["right"][i : i + 1])
        np.testing.assert_array_equal(engine.cdf(one, asked, "left"), whole["left"][i : i + 1])
        assert engine.mean(one)[0] == whole["mean"][i]
        assert engine.effective_sample_size(one)[0] == whole["effective"][i]
        assert engine.fallback(one)[0] == whole["fallback"][i]


def test_levels_by_row_are_those_of_each_row(engine):
    rows, levels = rows_around(), np.random.default_rng(4).random((60, 2))
    upper = np.array([False, True])
    got = engine.quantiles(rows, levels, upper)
    for i in (0, 7, 59):
        np.testing.assert_array_equal(got[i], engine.quantiles(rows, levels[i], upper)[i])


def test_no_rows_give_no_answers(engine):
    for name, answer in answers(engine, np.empty((0, 3))).items():
        assert len(answer) == 0, name


def test_a_pickled_engine_gives_the_same_answers(engine):
    again = pickle.loads(pickle.dumps(engine))
    assert_same(answers(engine, rows_around()), answers(again, rows_around()))


@pytest.mark.parametrize("name", ["exact", "sketch", "neighbors"])
def test_threads_change_no_bit(name, monkeypatch):
    # Threads at any size, and more than one piece of a sketch.
    monkeypatch.setattr("localconformal.engine.exact.PAIRS_PER_THREAD", 1)
    monkeypatch.setattr("localconformal.engine.sketch.PIECE", 500)
    monkeypatch.setattr("localconformal.engine.sketch.CHUNK_ROWS", 64)
    rows = rows_around(400)
    one, four = (build_engine(name, problem(n_jobs=n), 0.005)[0] for n in (1, 4))
    assert_same(answers(one, rows), answers(four, rows))


@pytest.mark.parametrize("name", ["reference", "exact", "neighbors"])
def test_the_order_of_rows_does_not_matter(name):
    of, rows = problem(), rows_around()
    order = np.random.default_rng(5).permutation(len(of.v))
    one, other = (build_engine(name, p, 0.005)[0] for p in (of, of.take(order)))
    mine, theirs = answers(one, rows), answers(other, rows)
    for key, answer in mine.items():
        np.testing.assert_allclose(answer, theirs[key], rtol=1e-6, atol=1e-6, err_msg=key)
