"""Kernel weights: thin neighbourhoods are widened; chunks of the plain engine change no bit."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from inner import KERNELS, KernelWeights, ReferenceEngine
from localconformal.laws.base import effective_size

REFERENCES = np.random.default_rng(0).normal(size=(60, 2))
QUERIES = np.random.default_rng(1).normal(size=(15, 2))
EACH = pytest.mark.parametrize("kernel", KERNELS)


@EACH
def test_the_effective_sample_size_is_positive_and_grows_with_the_bandwidth(kernel):
    squared = cdist(QUERIES, REFERENCES, "sqeuclidean")
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
    weights, widened = KernelWeights(REFERENCES, kernel, h, minimum)(QUERIES)
    reachable = min(minimum, len(REFERENCES)) * (1 - 1e-5)
    assert np.all(effective_size(weights) >= reachable)
    if minimum == 7.5:
        assert widened.all()
        for row, got in zip(cdist(QUERIES, REFERENCES, "sqeuclidean"), weights, strict=True):
            tried = [formula(row[None] / (h * 2.0**k) ** 2) for k in range(40)]
            expected = next(w for w in tried if effective_size(w) >= 7.5)[0]
            np.testing.assert_allclose(got / got.sum(), expected / expected.sum(), rtol=1e-9)


def test_compact_kernels_fall_back_without_mass_and_hold_their_edge():
    for kernel in ("boxcar", "epanechnikov"):
        weights, widened = KernelWeights(REFERENCES, kernel, 0.1, 0.0)(np.array([[50.0, 0.0]]))
        assert widened.all()
        assert weights.sum() > 0
    edge = np.array([[0.1 + 0.2]])
    assert KernelWeights(edge, "boxcar", 0.3, 0.0)(np.zeros((1, 1)))[0][0, 0] == 1.0


@pytest.fixture(scope="module")
def engine():
    v = np.sort(np.random.default_rng(0).integers(0, 12, 60).astype(float))
    return ReferenceEngine(v, KernelWeights(REFERENCES, "gaussian", 0.7, 5.0))


@pytest.mark.parametrize("chunk", [1, 41, 200])
def test_the_size_of_a_chunk_changes_no_bit(engine, chunk, monkeypatch):
    levels, asked = np.tile([0.2, 0.9], (15, 1)), np.tile([3.0, 7.5], (15, 1))

    def answers():
        yield engine.quantiles(QUERIES, levels, np.array([False, True]))
        yield engine.cdf(QUERIES, asked, "left")
        yield engine.moments(QUERIES)

    whole = list(answers())
    monkeypatch.setattr("localconformal.laws.base._CHUNK", chunk)
    for one, other in zip(answers(), whole, strict=True):
        np.testing.assert_array_equal(one, other)
