"""The same law in every process: however its loops were compiled, with any number of threads."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from localconformal.engine import (
    compiled,
    compiled_leaves,
    compiled_ranks,
    compiled_sketch,
    compiled_sparse,
)
from localconformal.engine.compiler import LANES, dot, jit
from localconformal.engine.sketch import Sketch, SketchEngine, choose_landmarks
from localconformal.laws.metric import LearnedMetric
from registry import smooth_data

ANSWERS = """
import sys, warnings
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from localconformal import ForestLaw, KernelLaw
warnings.simplefilter("ignore")
kernel = dict(random_state=0)
laws = {
    "exact": KernelLaw(engine="exact", **kernel),
    "float64": KernelLaw("epanechnikov", bandwidth=2.0, engine="exact", **kernel),
    "boxcar": KernelLaw("boxcar", bandwidth=2.0, engine="exact", **kernel),
    "sketch": KernelLaw(engine="sketch", tolerance=0.5, **kernel),
    "minibatch": KernelLaw(engine="minibatch", batch_size=3500, **kernel),
    "neighbors": KernelLaw(bandwidth=0.8, engine="neighbors", **kernel),
    "leaves": ForestLaw(RandomForestRegressor(10, min_samples_leaf=5, random_state=0)),
}
rng = np.random.default_rng(0)
X, rows = rng.normal(size=(4000, 7)), rng.normal(size=(100, 7))
v, rows[:5] = np.abs(X[:, 0]) * rng.normal(size=4000), 30.0 * rows[:5]
at = np.linspace(-3.0, 3.0, len(rows))
found = {}
for name, law in laws.items():
    law.fit(X, v)
    found |= {
        f"{name} quantile": law.quantile(rows, [0.05, 0.5, 0.95]),
        f"{name} cdf": law.cdf(rows, at),
        f"{name} cdf from the left": law.cdf(rows, at, side="left"),
        f"{name} mean": law.mean(rows),
        f"{name} size": law.effective_sample_size(rows),
    }
np.savez(sys.argv[1], **found)
"""


def answers(folder, name, threads):
    """What a fresh process says that keeps its compiled code in the folder."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": str(folder / "compiled")}
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, folder / name],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / name) as found:
        return {key: found[key].tobytes() for key in found}


@pytest.mark.ci
def test_processes_that_compile_and_that_load_give_the_same_bits(tmp_path):
    compiles, loads = (answers(tmp_path, f"{i}.npz", threads=1) for i in range(2))
    assert [key for key in compiles if compiles[key] != loads[key]] == []
    more_threads = answers(tmp_path, "2.npz", threads=2)
    assert [key for key in compiles if compiles[key] != more_threads[key]] == []


@pytest.mark.parametrize(
    "module", [compiled, compiled_leaves, compiled_ranks, compiled_sketch, compiled_sparse]
)
def test_no_loop_leaves_the_order_of_a_sum_to_the_compiler(module):
    loops = [one for one in vars(module).values() if hasattr(one, "targetoptions")]
    assert loops
    assert not any(one.targetoptions.get("fastmath") for one in loops)


@jit()
def dot_of(a, b):
    return dot(a, b)


def by_definition(a, b):
    """Lanes side by side, their sums by halves, then the rest one by one."""
    whole = len(a) - len(a) % LANES
    sums = np.zeros(LANES, a.dtype)
    for start in range(0, whole, LANES):
        sums += a[start : start + LANES] * b[start : start + LANES]
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    total = sums[0]
    for x, y in zip(a[whole:], b[whole:], strict=True):
        total += x * y
    return total


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_the_order_of_a_sum_is_the_one_written_down(precision):
    rng = np.random.default_rng(0)
    for n in (1, 7, LANES - 1, LANES, LANES + 1, 5 * LANES + 13):
        a, b = rng.normal(size=(2, n)).astype(precision)
        assert dot_of(a, b) == by_definition(a, b)


@pytest.fixture(params=[1, 2])
def blas_threads(request):
    with threadpool_limits(limits=request.param, user_api="blas"):
        yield request.param


_first = {}


def test_number_of_blas_threads_changes_no_bit(blas_threads):
    """What the first number of threads gives, the second gives too."""
    X, v = smooth_data(2_000, seed=0)
    X = np.hstack([X, X**2, np.sin(X), np.cos(3.0 * X)])
    landmarks = choose_landmarks(X, 300, seed=0)
    sketch = Sketch(landmarks, np.sort(v)[::2], 1.0).update(X, v)
    engine = SketchEngine(sketch, None, 10.0, 1)
    metric = LearnedMetric(n_iter=5).fit(X, v)
    found = {"landmarks": landmarks, "A": engine.A, "squares": engine.squares, "map": metric.map_}
    for name, value in found.items():
        np.testing.assert_array_equal(value, _first.setdefault(name, value), err_msg=name)
