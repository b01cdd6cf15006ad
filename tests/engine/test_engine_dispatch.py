"""Which engine answers: decided at fit from reference rows, and reported."""

import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import KernelLaw, SLCPRegressor
from localconformal.engine import compiler
from localconformal.engine.dispatch import (
    FEW,
    LANDMARKS,
    SKETCH_FROM,
    Problem,
    build_engine,
    hold_aside,
)
from localconformal.engine.kernels import KERNELS
from localconformal.engine.neighbors import CHUNK_PAIRS
from localconformal.quantiles import weighted_quantile

CHOICES = {
    "few rows": ({"n": FEW}, "reference"),
    "too few for a sketch": ({"n": SKETCH_FROM - 1, "h": 3.0}, "exact"),
    "wide": ({"n": SKETCH_FROM, "h": 3.0}, "sketch"),
    "narrow, low dimension": ({"n": SKETCH_FROM, "h": 0.02}, "neighbors"),
    # Its effective sample is small, but the tails of the Gaussian reach a third of the rows.
    "narrow, but far-reaching": ({"n": SKETCH_FROM, "h": 0.3}, "exact"),
    "narrow, high dimension": ({"n": SKETCH_FROM, "h": 0.5, "d": 12}, "exact"),
    "compact, low dimension": ({"n": SKETCH_FROM, "h": 0.3, "kernel": "boxcar"}, "neighbors"),
    "compact and wide": ({"n": SKETCH_FROM, "h": 9.0, "kernel": "epanechnikov"}, "exact"),
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
    assert report.n_bytes > 0
    assert report.microseconds_per_query > 0
    assert 0.0 <= report.certified_error <= report.tolerance
    assert (report.n_landmarks in LANDMARKS) == (expected == "sketch")
    assert (report.certified_error > 0) == (expected == "sketch")


@pytest.mark.parametrize("tolerance", [0.004, 0.02])
def test_the_tolerance_is_the_users(tolerance):
    report = fitted(SKETCH_FROM, h=0.9, tolerance=tolerance).engine_report_
    assert report.engine == "sketch"
    assert report.tolerance == tolerance
    assert report.certified_error <= tolerance


def test_a_tolerance_that_no_sketch_meets_gives_another_engine_and_the_reason():
    report = fitted(SKETCH_FROM, h=3.0, tolerance=1e-7).engine_report_
    assert report.engine == "exact"
    assert "missed its certificate" in report.reason


def test_a_sketch_that_was_asked_for_admits_a_missed_certificate():
    report = fitted(4000, h=0.2, engine="sketch").engine_report_
    assert report.engine == "sketch"
    assert report.certified_error > report.tolerance
    assert "missed" in report.reason


def test_the_choice_is_the_same_at_every_fit():
    once, again = (asdict(fitted(SKETCH_FROM, h=3.0).engine_report_) for _ in range(2))
    once.pop("microseconds_per_query"), again.pop("microseconds_per_query")
    assert once == again


def test_queries_change_neither_the_engine_nor_the_report():
    law = fitted(SKETCH_FROM, h=3.0)
    engine, report, A = law.engine_, law.engine_report_, law.engine_.A.copy()
    for rows in (data(1)[0], data(5000, seed=1)[0], 1e8 * data(10, seed=2)[0]):
        law.quantile(rows, [0.1, 0.9])
        law.cdf(rows, np.zeros(len(rows)))
    assert law.engine_ is engine
    assert law.engine_report_ is report
    np.testing.assert_array_equal(law.engine_.A, A)


@pytest.mark.parametrize(("batch_size", "kept"), [(None, 1200), (0.1, 400), (77, 77), (9999, 4000)])
def test_a_mini_batch_is_drawn_once_and_is_one_law_for_all_queries(batch_size, kept):
    X, v = data(4000)
    law = fitted(4000, engine="minibatch", batch_size=batch_size)
    assert law.engine_report_.n_references == kept
    rows = data(50, seed=1)[0]
    whole = law.quantile(rows, [0.1, 0.9])
    np.testing.assert_array_equal(law.quantile(rows, [0.1, 0.9]), whole)
    alone = np.concatenate([law.quantile(rows[i : i + 1], [0.1, 0.9]) for i in range(50)])
    np.testing.assert_array_equal(alone, whole)
    assert np.isin(law.quantile(X, np.linspace(0.01, 1, 20)), law.engine_.v).all()
    assert np.isin(law.engine_.v, v).all()


@pytest.mark.ci
def test_few_rows_never_load_the_compiler():
    code = (
        "import sys, numpy as np\n"
        "from sklearn.linear_model import LinearRegression\n"
        "from localconformal import SLCPRegressor, NeighborsLaw\n"
        "X = np.random.default_rng(0).normal(size=(500, 3)); y = X[:, 0]\n"
        "for law in ('auto', 'kernel', NeighborsLaw()):\n"
        "    SLCPRegressor(LinearRegression(), law=law).fit(X, y).predict_interval(X)\n"
        "assert 'numba' not in sys.modules and 'llvmlite' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_regressor_reports_the_engine_of_its_law():
    X, v = data(16_000)
    law = KernelLaw(bandwidth=3.0, random_state=0)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, X[:, 0] + v)
    assert model.law_.laws[0].engine_report_.engine == "sketch"
    assert np.all(np.isfinite(model.predict_interval(X[:100])))


def test_a_kernel_is_one_formula_in_a_table(monkeypatch):
    """Without compiled code it runs on the NumPy engine, at any size and through "auto"."""
    monkeypatch.setitem(KERNELS, "triangular", lambda u2: np.maximum(1.0 - np.sqrt(u2), 0.0))
    points, v = data(FEW + 1)
    for name in ("auto", "minibatch"):
        engine, report = build_engine(name, Problem(points, v, "triangular", 1.0, 20.0, 0), 0.005)
        assert (report.engine, report.reason) == (
            "reference",
            "the triangular kernel has no compiled formula",
        )
        x = points[:1]
        w = np.maximum(1.0 - np.sqrt(((points - x) ** 2).sum(axis=1)), 0.0)
        expected = weighted_quantile(v, w, [0.1, 0.9])
        got = engine.quantiles(x, np.array([0.1, 0.9]), np.zeros(2, dtype=bool))
        np.testing.assert_array_equal(got[0], expected)


def test_the_certificate_is_judged_at_rows_that_were_held_aside():
    points, v = data(2_000)
    problem = Problem(points, v, "gaussian", 1.0, 20.0, 0).by_score()
    probes, rest = hold_aside(problem)
    assert len(probes) == 400
    assert len(rest.v) == 1_600
    assert (np.diff(rest.v) >= 0).all()
    assert not (set(map(tuple, probes)) & set(map(tuple, rest.points)))


def test_a_forced_sketch_that_misses_its_certificate_says_so():
    with pytest.warns(UserWarning, match="missed its certificate"):
        fitted(4_000, h=0.05, engine="sketch")


def test_compilation_works_without_a_cache_folder(monkeypatch):
    """numba raises where no folder can be written to; the loop then compiles uncached."""
    asked = []

    def no_folder(cache=False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiler, "njit", no_folder)
    assert compiler.jit()(len) is len
    assert asked == [True, False]


def test_chunks_of_neighbours_are_bounded_by_pairs():
    points, v = data(4_000)
    narrow, wide = (
        build_engine("neighbors", Problem(points, v, "boxcar", h, 1.0, 0), 0.005)[0]
        for h in (0.1, 100.0)
    )
    assert wide.chunk * len(v) <= CHUNK_PAIRS
    assert narrow.chunk > wide.chunk
