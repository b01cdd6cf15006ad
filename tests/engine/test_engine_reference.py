"""The plain engine against sums written as loops, whatever the size of its chunks."""

import numpy as np
import pytest

from localconformal.engine import reference
from localconformal.engine.kernels import KernelWeights
from localconformal.engine.reference import ReferenceEngine
from localconformal.quantiles import upper_weighted_quantile, weighted_quantile


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    v = np.sort(rng.integers(0, 12, 40).astype(float))
    weigh = KernelWeights(rng.normal(size=(40, 2)), "gaussian", 0.7, 5.0)
    return ReferenceEngine(v, weigh), rng.normal(size=(23, 2))


def answers(engine, rows):
    levels = np.random.default_rng(1).random((len(rows), 3))
    asked = np.random.default_rng(2).integers(-1, 14, (len(rows), 4)).astype(float)
    return {
        "quantiles": engine.quantiles(rows, levels, np.array([False, True, False])),
        "right": engine.cdf(rows, asked, "right"),
        "left": engine.cdf(rows, asked, "left"),
        "mean": engine.mean(rows),
        "size": engine.mean(rows, absolute=True),
        "effective": engine.effective_sample_size(rows),
        "fallback": engine.fallback(rows),
    }


def test_cdf_and_mean_are_weighted_sums(problem):
    engine, rows = problem
    weights, _ = engine.weigh(rows)
    for i, w in enumerate(weights):
        for asked in (-1.0, 3.0, 3.5, 11.0, 20.0):
            column = np.full((len(rows), 1), asked)
            right = sum(w[j] for j in range(40) if engine.v[j] <= asked) / sum(w)
            left = sum(w[j] for j in range(40) if engine.v[j] < asked) / sum(w)
            assert engine.cdf(rows, column, "right")[i, 0] == pytest.approx(right, abs=1e-12)
            assert engine.cdf(rows, column, "left")[i, 0] == pytest.approx(left, abs=1e-12)
        mean = sum(w[j] * engine.v[j] for j in range(40)) / sum(w)
        assert engine.mean(rows)[i] == pytest.approx(mean)


def test_quantiles_are_those_of_each_row_s_weights(problem):
    engine, rows = problem
    levels = np.array([0.05, 0.3, 0.95, 0.95])
    got = engine.quantiles(rows, levels, np.array([False, False, False, True]))
    for w, row in zip(engine.weigh(rows)[0], got, strict=True):
        np.testing.assert_array_equal(row[:3], weighted_quantile(engine.v, w, levels[:3]))
        assert row[3] == upper_weighted_quantile(engine.v, w, 0.95)


@pytest.mark.parametrize("chunk", [1, 41, 200])
def test_the_size_of_a_chunk_changes_no_bit(problem, chunk, monkeypatch):
    whole = answers(*problem)
    monkeypatch.setattr(reference, "CHUNK", chunk)
    for name, answer in answers(*problem).items():
        np.testing.assert_array_equal(answer, whole[name], err_msg=name)


def test_no_rows_give_no_answers(problem):
    engine, rows = problem
    assert engine.mean(rows[:0]).shape == (0,)
    assert engine.quantiles(rows[:0], np.array([0.5]), np.array([False])).shape == (0, 1)
