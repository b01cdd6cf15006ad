"""Kernel weights against scalar loops, and the widening of thin neighbourhoods."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from localconformal.engine.kernels import KERNELS, KernelWeights, effective_sample_size

FORMULAS = {
    "gaussian": lambda u: math.exp(-u * u / 2),
    "boxcar": lambda u: 1.0 if u <= 1 else 0.0,
    "epanechnikov": lambda u: max(1 - u * u, 0.0),
}


@pytest.fixture(scope="module")
def references():
    return np.random.default_rng(0).normal(size=(60, 2))


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(1).normal(size=(15, 2))


def normalised(weights):
    return weights / weights.sum(axis=1, keepdims=True)


def test_every_kernel_has_a_formula_here():
    assert set(FORMULAS) == set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_are_the_formula_up_to_a_factor(kernel, references, queries):
    weights, widened = KernelWeights(references, kernel, 1.5, 1.0)(queries)
    assert not widened.any()
    for x, row in zip(queries, normalised(weights), strict=True):
        raw = [FORMULAS[kernel](math.dist(x, X) / 1.5) for X in references]
        np.testing.assert_allclose(row, np.array(raw) / sum(raw), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_normalised_weights_sum_to_one(kernel, references, queries):
    for h in (1e-3, 0.1, 1.0, 100.0, np.inf):
        weights, _ = KernelWeights(references, kernel, h, 5.0)(queries)
        assert np.all(weights >= 0)
        np.testing.assert_allclose(normalised(weights).sum(axis=1), 1.0, rtol=1e-12)


def test_the_effective_sample_size_is_its_formula():
    weights = np.random.default_rng(0).random((5, 8))
    weights[4] = 0.0
    got = effective_sample_size(weights)
    for row, size in zip(weights[:4], got, strict=False):
        assert size == pytest.approx(sum(row) ** 2 / sum(w * w for w in row))
    assert got[4] == 0.0
    assert effective_sample_size(np.ones((1, 7))) == 7.0


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_effective_sample_size_grows_with_the_bandwidth(kernel, references, queries):
    squared = cdist(queries, references, "sqeuclidean")
    sizes = [effective_sample_size(KERNELS[kernel](squared / h**2)) for h in np.geomspace(0.1, 50)]
    assert np.all(np.diff(sizes, axis=0) >= -1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("minimum", [1.0, 7.5, 60.0, 1e9])
def test_widening_reaches_the_minimum_and_no_more_doublings_than_needed(
    kernel, minimum, references, queries
):
    h = 1e-3
    weights, widened = KernelWeights(references, kernel, h, minimum)(queries)
    reachable = min(minimum, len(references)) * (1 - 1e-5)
    assert np.all(effective_sample_size(weights) >= reachable)
    if minimum == 7.5:
        assert widened.all()
        squared = cdist(queries, references, "sqeuclidean")
        for row, got in zip(squared, weights, strict=True):
            doublings = 0
            while effective_sample_size(KERNELS[kernel](row[None] / h**2 / 4.0**doublings)) < 7.5:
                doublings += 1
            expected = KERNELS[kernel](row[None] / (h * 2.0**doublings) ** 2)
            np.testing.assert_allclose(normalised(got[None]), normalised(expected), rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("far", [1e6, 1e30])
def test_far_away_weights_are_finite_deterministic_and_flagged(kernel, far, references):
    rows = np.array([[far, 0.0], [-far, far]])
    weigh = KernelWeights(references, kernel, 0.5, 10.0)
    weights, widened = weigh(rows)
    assert widened.all()
    assert np.all(np.isfinite(weights))
    assert np.all(effective_sample_size(weights) >= 10 * (1 - 1e-5))
    np.testing.assert_array_equal(weights, weigh(rows)[0])
    np.testing.assert_array_equal(weights[1:], weigh(rows[1:])[0])


@pytest.mark.parametrize("kernel", ["boxcar", "epanechnikov"])
def test_compact_kernels_with_no_mass_fall_back_even_when_nothing_is_asked(kernel, references):
    weights, widened = KernelWeights(references, kernel, 0.1, 0.0)(np.array([[50.0, 0.0]]))
    assert widened.all()
    assert weights.sum() > 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_coinciding_references_have_equal_weights(kernel):
    weights, widened = KernelWeights(np.zeros((5, 2)), kernel, 1e-100, 5.0)(np.zeros((1, 2)))
    assert not widened.any()
    assert np.all(weights == weights[0, 0])
    assert weights[0, 0] > 0


def test_a_reference_on_the_edge_of_the_boxcar_is_inside():
    edge = np.array([[0.1 + 0.2]])
    weights, _ = KernelWeights(edge, "boxcar", 0.3, 0.0)(np.zeros((1, 1)))
    assert weights[0, 0] == 1.0
