"""Which engine answers, and the sketch that may: decided at fit, reported, the same anywhere."""

import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

from inner import FEW
from localconformal import KernelLaw
from localconformal.engine import exact, jit, leaves, sketch, trees
from localconformal.engine.sketch import Sketch, _choose_edges, _choose_landmarks
from localconformal.laws.kernel import _SKETCH_FROM as SKETCH_FROM

CHOICES = {
    "few rows": ({"n": FEW}, "reference"),
    "too few for a sketch": ({"n": SKETCH_FROM - 1, "h": 3.0}, "exact"),
    "wide": ({"n": SKETCH_FROM, "h": 3.0}, "sketch"),
    "narrow": ({"n": SKETCH_FROM, "h": 0.3}, "exact"),
    "compact": ({"n": SKETCH_FROM, "h": 9.0, "kernel": "epanechnikov"}, "exact"),
}


def data(n, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def fitted(n, h=1.0, d=3, kernel="gaussian", **params):
    law = KernelLaw(kernel, bandwidth=h, random_state=0, n_jobs=1, **params)
    return law.fit(*data(n, d))


@pytest.mark.parametrize("case", CHOICES)
def test_auto_follows_its_table_and_says_why(case):
    params, expected = CHOICES[case]
    report = fitted(**params).engine_report_
    assert report.engine == expected
    assert len(report.reason.split()) > 3
    assert report.n_references == params["n"]
    assert 0.0 <= report.certified_error <= report.tolerance
    assert (report.n_landmarks is not None) == (expected == "sketch")
    assert (report.certified_error > 0) == (expected == "sketch")


@pytest.mark.ci
def test_the_tolerance_is_the_users_and_where_no_sketch_meets_it_the_reason_is_told():
    report = fitted(SKETCH_FROM, h=0.9, tolerance=0.02).engine_report_
    assert (report.engine, report.tolerance) == ("sketch", 0.02)
    assert report.certified_error <= 0.02
    report = fitted(SKETCH_FROM, h=3.0, tolerance=1e-7).engine_report_
    assert (report.engine, "missed its certificate" in report.reason) == ("exact", True)


def test_a_sketch_that_was_asked_for_admits_a_missed_certificate():
    with pytest.warns(UserWarning, match="missed its certificate"):
        report = fitted(2000, h=0.2, engine="sketch").engine_report_
    assert (report.engine, "missed" in report.reason) == ("sketch", True)
    assert report.certified_error > report.tolerance


H = 2.0


def empty(X, v, h=H, r=50):
    return Sketch(_choose_landmarks(X, r, 0), _choose_edges(v, 0), h)


@pytest.mark.parametrize("shards", [2, 7])
def test_shards_pieces_and_any_order_of_rows_make_the_same_sketch(shards):
    X, v = data(2000)
    whole, merged, grown = empty(X, v).update(X, v), empty(X, v), empty(X, v)
    for rows, scores in zip(np.array_split(X, shards), np.array_split(v, shards), strict=True):
        merged = merged.merge(empty(X, v).update(rows, scores))
        grown.update(rows, scores)
    order = np.random.default_rng(1).permutation(2000)
    for other in (merged, grown.update(X[:0], v[:0]), empty(X, v).update(X[order], v[order])):
        np.testing.assert_allclose(other.sums, whole.sums, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(other.extra, whole.extra, rtol=1e-9, atol=1e-9)
        assert (other.n, other.largest) == (whole.n, whole.largest)


def test_sketches_of_different_landmarks_edges_or_bandwidths_do_not_merge():
    one = empty(*data(500))
    Z, edges = one.landmarks, one.edges
    for changed in ((Z + 1, edges, H), (Z, edges * 2, H), (Z, edges, 2 * H)):
        with pytest.raises(ValueError, match="different landmarks"):
            one.merge(Sketch(*changed))


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**500])
def test_means_of_scores_of_any_size(unit):
    X, v = data(400)
    one, other = (
        KernelLaw(bandwidth=2.0, engine="sketch", random_state=0).fit(X, c * v) for c in (1.0, unit)
    )
    for absolute in (False, True):
        expected = unit * one.mean(X[:50], absolute)
        np.testing.assert_array_equal(other.mean(X[:50], absolute), expected)
        assert np.all(np.isfinite(expected))


def test_compilation_works_without_a_cache_folder(monkeypatch):
    """numba raises where no folder can be written to; the loop then compiles uncached."""

    def no_folder(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr("numba.njit", no_folder)
    assert jit()(data).compile() is data


def test_no_loop_leaves_the_order_of_a_sum_to_the_compiler():
    assert not jit()(data).compile().targetoptions.get("fastmath")
    modules = (exact, leaves, sketch, trees)
    assert not any("njit" in inspect.getsource(module) for module in modules)


ANSWERS = """
import sys, warnings
import numpy as np
from sklearn.ensemble import RandomForestRegressor
from localconformal import AutoLaw, ForestLaw, KernelLaw, LearnedMetric, NeighborsLaw
warnings.simplefilter("ignore")
kernel = dict(random_state=0)
laws = {
    "exact": KernelLaw(engine="exact", **kernel),
    "boxcar": KernelLaw("boxcar", bandwidth=2.0, engine="exact", **kernel),
    "sketch": KernelLaw(engine="sketch", tolerance=0.5, **kernel),
    "metric": KernelLaw(embedding=LearnedMetric(n_iter=3), **kernel),
    "neighbors": NeighborsLaw(50),
    "leaves": ForestLaw(RandomForestRegressor(10, min_samples_leaf=5, random_state=0)),
    "auto": AutoLaw(random_state=0),
}
rng = np.random.default_rng(0)
X, rows = rng.normal(size=(4000, 7)), rng.normal(size=(100, 7))
v, rows[:5] = np.abs(X[:, 0]) * rng.normal(size=4000), 30.0 * rows[:5]
at = np.linspace(-3.0, 3.0, len(rows))
found = {}
for name, law in laws.items():
    law.fit(X, v)
    others = law.cdf(rows, at), law.mean(rows), law.effective_sample_size(rows)
    found[name] = np.column_stack([law.quantile(rows, [0.05, 0.5, 0.95]), *others])
np.savez(sys.argv[1], **found)
"""


def answers(folder, name, threads):
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    environment = {**os.environ, **threads, "NUMBA_CACHE_DIR": str(folder / "compiled")}
    command = [sys.executable, "-c", ANSWERS, folder / name]
    subprocess.run(command, env=environment, check=True, timeout=900)
    with np.load(folder / name) as found:
        return {key: found[key].tobytes() for key in found}


@pytest.mark.nightly
def test_processes_that_compile_or_load_with_any_threads_give_the_same_bits(tmp_path):
    compiles, *others = (answers(tmp_path, f"{i}.npz", threads=1 + i // 2) for i in range(3))
    for other in others:
        assert [key for key in compiles if compiles[key] != other[key]] == []
