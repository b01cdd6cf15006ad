"""Compiled distances for any number of columns, and questions in any order."""

import ast
import inspect
from importlib import import_module

import numpy as np
import pytest

from localconformal.engine.exact import ExactEngine
from localconformal.engine.kernels import KernelWeights
from localconformal.engine.neighbors import KernelNeighbors, NeighborEngine
from localconformal.engine.reference import ReferenceEngine

BELOW = np.zeros(3, dtype=bool)
LEVELS = np.array([0.9, 0.1, 0.5])


def problem(d, n=60, seed=0):
    rng = np.random.default_rng([seed, d])
    return np.sort(rng.normal(size=n)), rng.normal(size=(n, d)), rng.normal(size=(8, d))


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("d", [*range(1, 13), 16])
def test_every_column_counts_whatever_their_number(kernel, d):
    v, points, rows = problem(d)
    h = 0.7 * np.sqrt(d)
    oracle = ReferenceEngine(v, KernelWeights(points, kernel, h, 5.0))
    engine = ExactEngine(v, points, kernel, h, 5.0, 1)
    np.testing.assert_allclose(engine.mean(rows), oracle.mean(rows), atol=1e-5)
    np.testing.assert_allclose(
        engine.effective_sample_size(rows), oracle.effective_sample_size(rows), rtol=1e-4
    )
    np.testing.assert_array_equal(engine.fallback(rows), oracle.fallback(rows))


@pytest.mark.parametrize("n", [60, 1_500])
@pytest.mark.parametrize("kind", ["exact", "neighbors"])
def test_scores_may_be_asked_in_any_order(kind, n):
    v, points, rows = problem(2, n)
    oracle = ReferenceEngine(v, KernelWeights(points, "epanechnikov", 1.5, 5.0))
    engine = ExactEngine(v, points, "epanechnikov", 1.5, 5.0, 1)
    if kind == "neighbors":
        near = KernelNeighbors(points, "epanechnikov", 1.5)
        engine = NeighborEngine(v, near, engine, 5.0)
    asked = np.tile([v[0] - 1, v[n // 2], v[-1] + 1, v[0], v[n // 3], v[0] - 2, v[-1]], (8, 1))
    for side in ("left", "right"):
        expected = oracle.cdf(rows, asked, side)
        np.testing.assert_allclose(engine.cdf(rows, asked, side), expected, atol=1e-9)
    got = engine.quantiles(rows, LEVELS, BELOW)
    np.testing.assert_array_equal(got, oracle.quantiles(rows, LEVELS, BELOW))


LOOPS = ["compiled", "compiled_leaves", "compiled_ranks", "compiled_sketch", "compiled_sparse"]


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_engines_call_are_compiled(name):
    module = import_module(f"localconformal.engine.{name}")
    public = [
        node.name
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]
    loops = [one for one in public if one != "jit"]
    assert loops
    assert [one for one in loops if not hasattr(getattr(module, one), "py_func")] == []
