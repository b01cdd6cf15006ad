"""The tensor engines use the array API standard alone, and answer as the NumPy oracle does.

The same code runs on PyTorch's tensors, on NumPy's arrays, and on those of array_api_strict, which
has nothing beside the standard and keeps the arrays of its devices apart.
"""

import io
import pickle

import numpy as np
import pytest

from localconformal import KernelLaw
from localconformal.engine.kernels import KERNELS, KernelWeights
from localconformal.engine.reference import ReferenceEngine
from localconformal.engine.tensor_exact import TensorExactEngine
from localconformal.engine.tensor_sketch import TensorSketchEngine
from localconformal.engine.tensors import Place, descend
from localconformal.quantiles import MASS_GUARD
from registry import awkward_data, optional

pytestmark = pytest.mark.ci

optional("torch"), optional("array_api_compat")
strict = optional("array_api_strict")

LEVELS = np.array([0.0, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])
BOTH = np.array([False, True])


def torch_tensors():
    return Place("cpu")


def numpy_arrays():
    return Place("cpu", "array_api_compat.numpy")


def strict_arrays():
    host = strict.Device("CPU_DEVICE")
    # It moves arrays between devices by an argument that NumPy has from 2.0.
    device = host if np.__version__ < "2" else strict.Device("device1")
    return Place(device, "array_api_strict", host)


@pytest.fixture(params=[torch_tensors, numpy_arrays, strict_arrays], ids=lambda make: make.__name__)
def place(request):
    return request.param()


def rows_with_ties(n, seed, d=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[n // 2 :: 3] = X[0]
    return X, np.sort(rng.integers(-6, 7, n) / 2.0)


def some_queries(d=3):
    near = rows_with_ties(41, seed=1, d=d)[0]
    return np.vstack([near, np.full((1, d), 30.0), np.full((1, d), 1e20), np.zeros((1, d))])


def pair(n, place, kernel="gaussian", bandwidth=1.0, dtype=np.float64):
    X, v = rows_with_ties(n, seed=0)
    X = X.astype(dtype)
    oracle = ReferenceEngine(v, KernelWeights(X.astype(float), kernel, bandwidth, 5.0))
    return oracle, TensorExactEngine(v, X, kernel, bandwidth, 5.0, place)


def assert_agree(engine, oracle, rows):
    v = np.tile(np.linspace(-4, 4, 17), (len(rows), 1))
    for side in ("right", "left"):
        np.testing.assert_allclose(engine.cdf(rows, v, side), oracle.cdf(rows, v, side), atol=1e-9)
    for absolute in (False, True):
        np.testing.assert_allclose(
            engine.mean(rows, absolute), oracle.mean(rows, absolute), atol=1e-8
        )
    np.testing.assert_allclose(
        engine.effective_sample_size(rows), oracle.effective_sample_size(rows), rtol=1e-6
    )
    np.testing.assert_array_equal(engine.fallback(rows), oracle.fallback(rows))
    assert_same_quantiles(engine, oracle, rows)


def assert_same_quantiles(engine, oracle, rows):
    for upper in BOTH:
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
        assert_agree(engine, oracle, some_queries())


def test_float32_rows_are_computed_in_double_precision(place):
    oracle, engine = pair(200, place, dtype=np.float32)
    rows = some_queries().astype(np.float32)
    assert_agree(engine, oracle, rows.astype(float))
    np.testing.assert_array_equal(engine.mean(rows), engine.mean(rows.astype(float)))


@pytest.fixture(scope="module")
def sketch():
    """A compiled sketch, the exact law of the same rows, and rows to ask both about."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    v = X[:, 0] * rng.normal(size=len(X))
    laws = [
        KernelLaw(bandwidth=1.0, engine=name, random_state=0).fit(X, v)
        for name in ("sketch", "reference")
    ]
    # The last two are lost, and the compiled sketch sends them to its fallback too.
    rows = np.vstack([rng.normal(size=(150, 2)), [[40.0, 0.0], [1e6, -1e6]]])
    return laws[0].engine_, laws[1].engine_, rows


def test_the_sketch_is_the_compiled_one_up_to_rounding_and_agrees_with_the_oracle(place, sketch):
    compiled, oracle, rows = sketch
    engine = TensorSketchEngine(compiled, place)
    v = np.tile(np.linspace(-2, 2, 9), (len(rows), 1))
    for side in ("right", "left"):
        found = engine.cdf(rows, v, side)
        np.testing.assert_allclose(found, oracle.cdf(rows, v, side), atol=0.01)
        np.testing.assert_allclose(found, compiled.cdf(rows, v, side), atol=2e-4)
    for absolute in (False, True):
        found = engine.mean(rows, absolute)
        np.testing.assert_allclose(found, oracle.mean(rows, absolute), atol=0.01)
        np.testing.assert_allclose(found, compiled.mean(rows, absolute), atol=1e-3)
    sizes = engine.effective_sample_size(rows)
    np.testing.assert_allclose(sizes, oracle.effective_sample_size(rows), rtol=0.1)
    np.testing.assert_allclose(sizes, compiled.effective_sample_size(rows), rtol=1e-3)
    medians = engine.quantiles(rows[:-2], np.array([0.5]), BOTH[:1])
    np.testing.assert_allclose(oracle.cdf(rows[:-2], medians, "right"), 0.5, atol=0.01)
    np.testing.assert_array_equal(engine.lost(rows), compiled.lost(rows))
    np.testing.assert_array_equal(engine.fallback(rows), compiled.fallback(rows))


@pytest.mark.parametrize("n", [1, 2, 3, 8, 21])
def test_the_descent_is_a_search_where_masses_rise_and_stays_monotone_where_not(place, n):
    rng = np.random.default_rng(n)
    rising = np.cumsum(rng.integers(0, 3, (4, n)), axis=1) + 1.0
    for masses, rises in ((rising, True), (rising + rng.normal(scale=0.4, size=(4, n)), False)):
        total, every = masses[:, -1:], np.tile(np.arange(n), (4, 1))
        of_law = place.put(masses), place.put(total)
        F = place.fetch(descend(*of_law, place.put(every), n, by_position=True)[1])
        assert np.all(np.diff(F, axis=1) >= 0)
        np.testing.assert_array_equal(F[:, -1], 1.0)
        targets = np.linspace(0.01, 1.0, 17)
        reached = place.fetch(
            descend(*of_law, place.put(np.tile(targets, (4, 1))), n, by_position=False)[0]
        )
        for row, positions in zip(F, reached, strict=True):
            np.testing.assert_array_equal(positions, np.searchsorted(row, targets))
        if rises:
            np.testing.assert_array_equal(F, masses / total)


# ---- kernel laws with ``device=`` -------------------------------------------------------------


def sketched(device="cpu"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 2))
    law = KernelLaw(bandwidth=1.0, engine="sketch", random_state=0, device=device)
    return law.fit(X, X[:, 0] * rng.normal(size=2_000)), rng.normal(size=(300, 2))


@pytest.fixture(scope="module", params=[*KERNELS, "sketch"])
def law_and_rows(request):
    if request.param == "sketch":
        return sketched()
    law = KernelLaw(request.param, bandwidth=1.0, random_state=0, device="cpu")
    far = np.array([[30.0], [1e20], [0.0]]) * np.ones(3)
    rows = np.vstack([awkward_data(41, seed=1, d=3)[0], far])
    return law.fit(*awkward_data(400, seed=0, d=3)), rows


def answers(law, X):
    v = np.tile(np.linspace(-4, 4, 9), (len(X), 1))
    return [
        law.quantile(X, LEVELS),
        law.upper_quantile(X, LEVELS),
        law.cdf(X, v),
        law.cdf(X, v, side="left"),
        law.mean(X),
        law.effective_sample_size(X),
        law.fallback(X),
    ]


def test_one_by_one_is_bit_identical_to_a_batch_in_any_order(law_and_rows):
    law, rows = law_and_rows
    batch, order = answers(law, rows), np.random.default_rng(0).permutation(len(rows))
    for got, value in zip(answers(law, rows[order]), batch, strict=True):
        np.testing.assert_array_equal(got, value[order])
    for i in range(0, len(rows), 17):
        for got, value in zip(answers(law, rows[i : i + 1]), batch, strict=True):
            np.testing.assert_array_equal(got[0], value[i])


def test_quantiles_and_cdf_are_inverses(law_and_rows):
    law, rows = law_and_rows
    v = np.tile(np.linspace(-3, 3, 25), (len(rows), 1))
    left, right = law.cdf(rows, v, side="left"), law.cdf(rows, v)
    t = np.hstack([left[:, ::4], right[:, ::4], np.tile(LEVELS, (len(rows), 1))])
    reached = v[:, None] <= law.upper_quantile(rows, t)[:, :, None]
    assert np.all(reached[left[:, None] <= t[:, :, None]])
    assert np.all((left[:, None] <= t[:, :, None] + 2 * MASS_GUARD)[reached])
    reached = law.quantile(rows, t)[:, :, None] <= v[:, None]
    assert np.all(reached[right[:, None] >= t[:, :, None]])
    assert np.all(np.diff(right, axis=1) >= 0)


class WithoutTorch(pickle.Unpickler):
    def find_class(self, module, name):
        assert module.split(".")[0] not in ("torch", "array_api_compat")
        return super().find_class(module, name)


def test_a_pickle_holds_no_tensors_and_is_bit_identical(law_and_rows):
    law, rows = law_and_rows
    loaded = WithoutTorch(io.BytesIO(pickle.dumps(law))).load()
    for got, value in zip(answers(loaded, rows), answers(law, rows), strict=True):
        np.testing.assert_array_equal(got, value)


def test_a_sketch_on_tensors_can_be_added_to():
    law, rows = sketched()
    before = law.cdf(rows, np.zeros(len(rows)))
    law.update(rows, np.full(len(rows), -1.0))
    assert isinstance(law.engine_, TensorSketchEngine)
    assert np.all(law.cdf(rows, np.zeros(len(rows))) > before)


def test_auto_takes_a_sketch_for_many_rows_and_says_so():
    X = np.random.default_rng(0).normal(size=(12_000, 2))
    for bandwidth, engine in ((1.0, "sketch"), (0.02, "exact")):
        law = KernelLaw(bandwidth=bandwidth, random_state=0, device="cpu").fit(X, X[:, 0])
        assert law.engine_report_.engine == engine
        assert law.engine_report_.reason.endswith("on cpu")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"engine": "neighbors", "device": "cpu"}, r"'neighbors' came with device='cpu'.*exact"),
        ({"engine": "reference", "device": "cpu"}, r"'reference' came with device='cpu'.*exact"),
        ({"device": "nowhere"}, r"device is 'nowhere'.*'cpu', 'cuda'"),
    ],
)
def test_engines_and_devices_without_tensors_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        KernelLaw(**params).fit(*awkward_data(30, seed=0))
