"""Rows in parts are answered as together, and fits leave no memory behind."""

import gc
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression

import localconformal as lc
from inner import rows_at_a_time
from registry import light, smooth_data

pytestmark = [pytest.mark.ci, pytest.mark.filterwarnings("ignore::UserWarning")]
LINE = LinearRegression()
TABLE, ASKED = smooth_data(300, seed=0), smooth_data(50, seed=7)[0]


def assert_same_in_parts(monkeypatch, ask):
    """The answer of rows in parts of 7 is that of all rows together, which is returned."""
    whole = ask()
    rows_at_a_time(monkeypatch, 7)
    # A linear model's last bits depend on how many rows are asked together.
    np.testing.assert_allclose(ask(), whole, rtol=1e-12, atol=1e-12)
    return whole


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame])
def test_rows_in_parts_are_answered_as_together(estimator_class, make, monkeypatch):
    frame = make if make is np.asarray else lambda X: make(dict(zip("ab", X.T, strict=True)))
    fitted = light(estimator_class).fit(frame(TABLE[0]), TABLE[1])
    assert_same_in_parts(monkeypatch, lambda: fitted.predict_interval(frame(ASKED), [0.5, 0.9]))


@pytest.mark.parametrize(
    ("kind", "beside"),
    [
        (lc.ConditionalConformalRegressor, "groups"),
        (lc.MondrianConformalRegressor, "groups"),
        (lc.WeightedConformalRegressor, "weights"),
    ],
)
def test_what_is_passed_beside_the_rows_is_cut_with_them(kind, beside, monkeypatch):
    X, y = TABLE
    fitted = kind(LINE, random_state=0).fit(X, y, **{beside: 1.0 + (X[:, 1] > 0)})
    values = {beside: list(1.0 + (ASKED[:, 1] > 0))}
    whole = assert_same_in_parts(monkeypatch, lambda: fitted.predict_interval(ASKED, **values))
    assert len(np.unique((whole[:, 1] - whole[:, 0]).round(9))) > 1


@pytest.mark.parametrize("kind", [lc.SLCPRegressor, lc.RLCPRegressor])
def test_levels_that_were_forgotten_are_found_again(kind):
    fitted, levels = kind(LINE, law="kernel", random_state=0).fit(*TABLE), np.linspace(0.2, 0.8, 99)
    together = fitted.predict_interval(ASKED, levels)
    # Nesting only ever enlarges.
    first, *_ = [fitted.predict_interval(ASKED, level) for level in levels]
    np.testing.assert_array_equal(first, together[:, :, 0])
    np.testing.assert_array_equal(fitted.predict_interval(ASKED, levels), together)


def bytes_left_by(work):
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.nightly
def test_fits_and_predictions_leave_no_memory_behind(estimator_class):
    X, y = smooth_data(60, seed=0)
    params = {"law": lc.KernelLaw(bandwidth=1.0)} if "law" in estimator_class().get_params() else {}

    def cycles():
        for _ in range(10):
            model = light(estimator_class, **params).fit(X, y)
            model.conformalize(X + 0.1, y).predict_interval(ASKED, [0.5, 0.9])

    cycles()
    # Each of them holds some hundred kilobytes while it lives.
    assert bytes_left_by(cycles) < 100_000
