"""The tensor engines use the array API standard alone, and answer as the NumPy oracle does."""

import io
import pickle

import numpy as np
import pytest

from inner import KernelWeights, ReferenceEngine
from localconformal import KernelLaw
from localconformal.laws.kernel import Problem
from localconformal.torch.tensors import Place, _TensorExactEngine, _TensorSketchEngine
from registry import awkward_data, optional

pytestmark = pytest.mark.ci

optional("torch"), optional("array_api_compat")
strict = optional("array_api_strict")

KERNELS = ["gaussian", "boxcar", "epanechnikov"]
LEVELS = np.array([0.0, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])


@pytest.fixture(params=["torch", "numpy", "strict"])
def place(request):
    if request.param == "torch":
        return Place("cpu")
    if request.param == "numpy":
        return Place("cpu", "array_api_compat.numpy")
    host = strict.Device("CPU_DEVICE")
    # It moves arrays between devices by an argument that NumPy has from 2.0.
    device = host if np.__version__ < "2" else strict.Device("device1")
    return Place(device, "array_api_strict", host)


FAR = np.array([[30.0], [1e20], [0.0]]) * np.ones(3)
ROWS = np.vstack([awkward_data(41, seed=1, d=3)[0], FAR])


def pair(n, place, kernel="gaussian", bandwidth=1.0, dtype=np.float64):
    X, v = awkward_data(n, seed=0, d=3)
    X, v = X.astype(dtype), np.sort(v)
    oracle = ReferenceEngine(v, KernelWeights(X.astype(float), kernel, bandwidth, 5.0))
    return oracle, _TensorExactEngine(Problem(X, v, kernel, bandwidth, 5.0, seed=0), place)


def assert_agree(engine, oracle, rows):
    v = np.tile(np.linspace(-4, 4, 17), (len(rows), 1))
    for side in ("right", "left"):
        np.testing.assert_allclose(engine.cdf(rows, v, side), oracle.cdf(rows, v, side), atol=1e-9)
    np.testing.assert_allclose(engine.moments(rows), oracle.moments(rows), rtol=1e-6, atol=1e-8)
    for upper in (False, True):
        asked = rows, LEVELS, np.full(len(LEVELS), upper)
        got, expected = engine.quantiles(*asked), oracle.quantiles(*asked)
        differ = got != expected
        assert differ.mean() < 0.01
        # Where they differ, the level falls on a jump up to rounding.
        reached = oracle.cdf(rows, np.where(np.isfinite(got), got, 9.0), "right")
        assert np.all(reached[differ] >= np.tile(LEVELS, (len(rows), 1))[differ] - 1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bandwidth", [1e-3, 1.0, 50.0, np.inf])
def test_the_exact_engine_agrees_with_the_oracle(place, kernel, bandwidth):
    for n in (1, 64, 130):
        oracle, engine = pair(n, place, kernel, bandwidth)
        assert_agree(engine, oracle, ROWS)


def test_float32_rows_are_computed_in_double_precision(place):
    oracle, engine = pair(200, place, dtype=np.float32)
    assert_agree(engine, oracle, ROWS.astype(np.float32))


def sketched(device):
    """A law that answers from a sketch, and rows of which the last two are lost."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    law = KernelLaw(bandwidth=1.0, engine="sketch", random_state=0, device=device)
    rows = np.vstack([rng.normal(size=(150, 2)), [[40.0, 0.0], [1e6, -1e6]]])
    return law.fit(X, X[:, 0] * rng.normal(size=2_000)), rows


def test_the_sketch_is_the_compiled_one_up_to_rounding(place):
    law, rows = sketched(None)
    compiled = law.engine_
    engine = _TensorSketchEngine(compiled, place)
    v = np.tile(np.linspace(-2, 2, 9), (len(rows), 1))
    for side in ("right", "left"):
        expected = compiled.cdf(rows, v, side)
        np.testing.assert_allclose(engine.cdf(rows, v, side), expected, atol=2e-4)
    np.testing.assert_allclose(engine.moments(rows), compiled.moments(rows), rtol=1e-3, atol=1e-3)
    medians = engine.quantiles(rows[:-2], np.array([0.5]), np.array([False]))
    np.testing.assert_allclose(compiled.cdf(rows[:-2], medians, "right"), 0.5, atol=0.01)
    np.testing.assert_array_equal(engine.lost(rows), compiled.lost(rows))


def answers(law, X):
    v = np.tile(np.linspace(-4, 4, 9), (len(X), 1))
    quantiles = [law.quantile(X, LEVELS), law.upper_quantile(X, LEVELS)]
    values = [law.cdf(X, v), law.cdf(X, v, side="left"), law.mean(X)]
    return [*quantiles, *values, law.effective_sample_size(X), law.fallback(X)]


def test_one_by_one_in_any_order_and_pickled_is_bit_identical_to_a_batch():
    """Of a sketch; the exact engine keeps the contract of all laws."""
    law, rows = sketched("cpu")
    batch, order = answers(law, rows), np.random.default_rng(0).permutation(len(rows))
    for some in (order, *([i] for i in range(0, len(rows), 17))):
        for got, value in zip(answers(law, rows[some]), batch, strict=True):
            np.testing.assert_array_equal(got, value[some])
    loaded = WithoutTorch(io.BytesIO(pickle.dumps(law))).load()
    for got, value in zip(answers(loaded, rows), batch, strict=True):
        np.testing.assert_array_equal(got, value)


class WithoutTorch(pickle.Unpickler):
    """A pickle holds no tensors."""

    def find_class(self, module, name):
        assert module.split(".")[0] not in ("torch", "array_api_compat")
        return super().find_class(module, name)


def test_a_sketch_of_more_rows_stays_on_tensors():
    """On Dask a law is fitted to a sample, and its sketch then summed over all rows."""
    law, rows = sketched("cpu")
    before, zeros = law.cdf(rows, np.zeros(len(rows))), np.zeros((len(rows), 1))
    more = law.engine_.sketch.empty().update(rows, np.full(len(rows), -1.0))
    engine = law.engine_.with_sketch(law.engine_.sketch.merge(more))
    assert isinstance(engine, _TensorSketchEngine)
    assert np.all((engine.cdf(rows, zeros, "right")[:, 0] > before)[:-2])
