"""Kernel weights and the plain engine against scalar loops; thin neighbourhoods are widened."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from localconformal.engine import reference
from localconformal.engine.kernels import KERNELS, KernelWeights, effective_sample_size
from localconformal.engine.reference import ReferenceEngine
from localconformal.quantiles import upper_weighted_quantile, weighted_quantile

FORMULAS = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "boxcar": lambda u: 1.0 if u <= 1 else 0.0,
    "epanechnikov": lambda u: max(1 - u * u, 0.0),
}
REFERENCES = np.random.default_rng(0).normal(size=(60, 2))
QUERIES = np.random.default_rng(1).normal(size=(15, 2))
EACH = pytest.mark.parametrize("kernel", KERNELS)


def normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)


@EACH
def test_weights_are_the_formula_up_to_a_factor_and_positive_at_any_bandwidth(kernel):
    weights, widened = KernelWeights(REFERENCES, kernel, 1.5, 1.0)(QUERIES)
    assert not widened.any()
    for x, row in zip(QUERIES, normalised(weights), strict=True):
        raw = [FORMULAS[kernel](math.dist(x, X) / 1.5) for X in REFERENCES]
        np.testing.assert_allclose(row, np.array(raw) / sum(raw), rtol=1e-9, atol=1e-15)
    for h in (1e-3, 0.1, 1.0, 100.0, np.inf):
        weights, _ = KernelWeights(REFERENCES, kernel, h, 5.0)(QUERIES)
        assert np.all(weights >= 0)
        np.testing.assert_allclose(normalised(weights).sum(axis=1), 1.0, rtol=1e-12)
    # Coinciding references have equal ones.
    weights, widened = KernelWeights(np.zeros((5, 2)), kernel, 1e-100, 5.0)(np.zeros((1, 2)))
    assert not widened.any()
    assert weights[0, 0] > 0
    assert np.all(weights == weights[0, 0])


@EACH
def test_the_effective_sample_size_is_its_formula_and_grows_with_the_bandwidth(kernel):
    squared = cdist(QUERIES, REFERENCES, "sqeuclidean")
    sizes = [effective_sample_size(KERNELS[kernel](squared / h**2)) for h in np.geomspace(0.1, 50)]
    assert np.all(np.diff(sizes, axis=0) >= -1e-9)
    weights = np.random.default_rng(0).random((5, 8))
    weights[4] = 0.0
    got = effective_sample_size(weights)
    for row, size in zip(weights[:4], got, strict=False):
        assert size == pytest.approx(sum(row) ** 2 / sum(w * w for w in row))
    assert got[4] == 0.0
    assert effective_sample_size(np.ones((1, 7))) == 7.0


@EACH
@pytest.mark.parametrize("minimum", [1.0, 7.5, 60.0, 1e9])
def test_widening_reaches_the_minimum_and_no_more_doublings_than_needed(kernel, minimum):
    h = 1e-3
    weights, widened = KernelWeights(REFERENCES, kernel, h, minimum)(QUERIES)
    reachable = min(minimum, len(REFERENCES)) * (1 - 1e-5)
    assert np.all(effective_sample_size(weights) >= reachable)
    if minimum == 7.5:
        assert widened.all()
        squared = cdist(QUERIES, REFERENCES, "sqeuclidean")
        for row, got in zip(squared, weights, strict=True):
            doublings = 0
            while effective_sample_size(KERNELS[kernel](row[None] / h**2 / 4.0**doublings)) < 7.5:
                doublings += 1
            expected = KERNELS[kernel](row[None] / (h * 2.0**doublings) ** 2)
            np.testing.assert_allclose(normalised(got[None]), normalised(expected), rtol=1e-9)


@EACH
@pytest.mark.parametrize("far", [1e6, 1e30])
def test_far_away_weights_are_finite_deterministic_and_flagged(kernel, far):
    rows = np.array([[far, 0.0], [-far, far]])
    weigh = KernelWeights(REFERENCES, kernel, 0.5, 10.0)
    weights, widened = weigh(rows)
    assert widened.all()
    assert np.all(np.isfinite(weights))
    assert np.all(effective_sample_size(weights) >= 10 * (1 - 1e-5))
    np.testing.assert_array_equal(weights, weigh(rows)[0])
    np.testing.assert_array_equal(weights[1:], weigh(rows[1:])[0])


def test_compact_kernels_fall_back_without_mass_and_hold_their_edge():
    for kernel in ("boxcar", "epanechnikov"):
        weights, widened = KernelWeights(REFERENCES, kernel, 0.1, 0.0)(np.array([[50.0, 0.0]]))
        assert widened.all()
        assert weights.sum() > 0
    edge = np.array([[0.1 + 0.2]])
    assert KernelWeights(edge, "boxcar", 0.3, 0.0)(np.zeros((1, 1)))[0][0, 0] == 1.0


# ---- the plain engine -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engine():
    v = np.sort(np.random.default_rng(0).integers(0, 12, 60).astype(float))
    return ReferenceEngine(v, KernelWeights(REFERENCES, "gaussian", 0.7, 5.0))


def test_answers_are_those_of_each_row_s_weights(engine):
    levels = np.array([0.05, 0.3, 0.95, 0.95])
    quantiles = engine.quantiles(QUERIES, levels, np.array([False, False, False, True]))
    for i, w in enumerate(engine.weigh(QUERIES)[0]):
        np.testing.assert_array_equal(quantiles[i, :3], weighted_quantile(engine.v, w, levels[:3]))
        assert quantiles[i, 3] == upper_weighted_quantile(engine.v, w, 0.95)
        mean = sum(w[j] * engine.v[j] for j in range(60)) / sum(w)
        assert engine.mean(QUERIES)[i] == pytest.approx(mean)
        for asked in (-1.0, 3.0, 3.5, 11.0, 20.0):
            right = sum(w[j] for j in range(60) if engine.v[j] <= asked) / sum(w)
            left = sum(w[j] for j in range(60) if engine.v[j] < asked) / sum(w)
            x, column = QUERIES[i : i + 1], np.array([[asked]])
            assert engine.cdf(x, column, "right").item() == pytest.approx(right, abs=1e-12)
            assert engine.cdf(x, column, "left").item() == pytest.approx(left, abs=1e-12)


@pytest.mark.parametrize("chunk", [1, 41, 200])
def test_the_size_of_a_chunk_changes_no_bit(engine, chunk, monkeypatch):
    levels, asked = np.tile([0.2, 0.9], (15, 1)), np.tile([3.0, 7.5], (15, 1))

    def answers():
        yield engine.quantiles(QUERIES, levels, np.array([False, True]))
        yield engine.cdf(QUERIES, asked, "left")
        yield from (engine.mean(QUERIES), engine.mean(QUERIES, absolute=True))
        yield from (engine.effective_sample_size(QUERIES), engine.fallback(QUERIES))

    whole = list(answers())
    monkeypatch.setattr(reference, "CHUNK", chunk)
    for one, other in zip(answers(), whole, strict=True):
        np.testing.assert_array_equal(one, other)
