"""Kernel laws with ``device=``: they keep what every law keeps, and say what they need."""

import io
import pickle
import subprocess
import sys

import numpy as np
import pytest

from registry import awkward_data, ci_but

pytest.importorskip("torch")
pytest.importorskip("array_api_compat")

from localconformal import KernelLaw
from localconformal.engine.kernels import KERNELS
from localconformal.engine.tensor_sketch import TensorSketchEngine
from localconformal.quantiles import MASS_GUARD

LEVELS = np.array([0.0, 0.05, 0.3, 0.5, 0.9, 0.95, 1.0])


def some_queries():
    far = np.array([[30.0], [1e20], [0.0]]) * np.ones(3)
    return np.vstack([awkward_data(41, seed=1, d=3)[0], far])


def sketched(n=2_000, device="cpu"):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    v = X[:, 0] * rng.normal(size=n)
    law = KernelLaw(bandwidth=1.0, engine="sketch", random_state=0, device=device)
    return law.fit(X, v), rng.normal(size=(300, 2))


@pytest.fixture(scope="module")
def sketch():
    return sketched()


def test_a_sketch_on_tensors_agrees_with_the_compiled_one(sketch):
    law, rows = sketch
    compiled, _ = sketched(device=None)
    assert isinstance(law.engine_, TensorSketchEngine)
    rows = np.vstack([rows, [[40.0, 0.0], [1e20, -1e20]]])
    v = np.tile(np.linspace(-2, 2, 9), (len(rows), 1))
    np.testing.assert_allclose(law.cdf(rows, v), compiled.cdf(rows, v), atol=2e-4)
    np.testing.assert_allclose(law.mean(rows), compiled.mean(rows), atol=1e-3)
    np.testing.assert_allclose(
        law.effective_sample_size(rows), compiled.effective_sample_size(rows), rtol=1e-3
    )
    np.testing.assert_array_equal(law.fallback(rows), compiled.fallback(rows))
    ranks = compiled.cdf(rows, law.quantile(rows, [0.5]))
    np.testing.assert_allclose(ranks[:-2], 0.5, atol=0.005)


def test_a_sketch_on_tensors_can_be_added_to(sketch):
    law, rows = sketched()
    before = law.cdf(rows, np.zeros(len(rows)))
    law.update(rows, np.full(len(rows), -1.0))
    assert isinstance(law.engine_, TensorSketchEngine)
    assert np.all(law.cdf(rows, np.zeros(len(rows))) > before)


def laws(sketch):
    X, v = awkward_data(400, seed=0, d=3)
    for kernel in KERNELS:
        yield (
            KernelLaw(kernel, bandwidth=1.0, random_state=0, device="cpu").fit(X, v),
            some_queries(),
        )
    yield sketch


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


def test_one_by_one_is_bit_identical_to_a_batch_in_any_order(sketch):
    for law, rows in laws(sketch):
        order = np.random.default_rng(0).permutation(len(rows))
        batch = answers(law, rows)
        for got, value in zip(answers(law, rows[order]), batch, strict=True):
            np.testing.assert_array_equal(got, value[order])
        for i in range(0, len(rows), 17):
            for got, value in zip(answers(law, rows[i : i + 1]), batch, strict=True):
                np.testing.assert_array_equal(got[0], value[i])


def test_quantiles_and_cdf_are_inverses(sketch):
    for law, rows in laws(sketch):
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


def test_a_pickle_holds_no_tensors_and_is_bit_identical(sketch):
    for law, rows in laws(sketch):
        expected = answers(law, rows)
        loaded = WithoutTorch(io.BytesIO(pickle.dumps(law))).load()
        for got, value in zip(answers(loaded, rows), expected, strict=True):
            np.testing.assert_array_equal(got, value)


def test_auto_takes_a_sketch_for_many_rows_and_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 2))
    for bandwidth, engine in ((1.0, "sketch"), (0.02, "exact")):
        law = KernelLaw(bandwidth=bandwidth, random_state=0, device="cpu").fit(X, X[:, 0])
        assert law.engine_report_.engine == engine
        assert law.engine_report_.reason.endswith("on cpu")


@pytest.mark.parametrize("engine", ["neighbors", "reference"])
def test_engines_without_tensors_are_refused(engine):
    X, v = awkward_data(30, seed=0)
    with pytest.raises(ValueError, match=rf"engine='{engine}' came with device='cpu'.*exact"):
        KernelLaw(engine=engine, device="cpu").fit(X, v)


def test_an_unknown_device_is_refused():
    X, v = awkward_data(30, seed=0)
    with pytest.raises(ValueError, match=r"device is 'nowhere'.*'cpu', 'cuda'"):
        KernelLaw(device="nowhere").fit(X, v)


@pytest.mark.parametrize("package", ci_but(["torch"], ["torch", "array_api_compat"]))
def test_without_a_package_of_the_extra_the_error_names_both(package):
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {package!r}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from localconformal import KernelLaw\n"
        "KernelLaw(device='cpu').fit([[0.0], [1.0]], [0.0, 1.0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: device= needs {package}, which")
    assert "pip install 'localconformal[torch]'" in last
