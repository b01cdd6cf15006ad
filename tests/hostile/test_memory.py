"""Memory: what is held does not grow with the rows asked or the fits made."""

import gc
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import localconformal as lc
from inner import FEW, rows_at_a_time
from registry import light, smooth_data

pytestmark = [pytest.mark.ci, pytest.mark.filterwarnings("ignore::UserWarning")]
LINE, TREES = LinearRegression(), DecisionTreeRegressor(min_samples_leaf=20, random_state=0)
#: Laws, and the training rows that they need to be what they are called.
LAWS = {
    "kernel": (lc.KernelLaw(engine="exact"), 400),
    "sketch": (lc.KernelLaw(engine="sketch", tolerance=0.5), 400),
    "plain forest": (lc.ForestLaw(n_jobs=1), 400),
    "compiled forest": (lc.ForestLaw(TREES, target="size"), FEW + 100),
    "stack": (lc.StackedLaw([lc.LearnedLaw(), lc.ScaledLaw(), "kernel", "forest"], n_jobs=1), 400),
}
TABLE, ASKED = smooth_data(300, seed=0), smooth_data(50, seed=7)[0]
METHODS = {
    "predict_interval": lambda model, X: model.predict_interval(X),
    "predict_quantiles": lambda model, X: model.predict_quantiles(X, [0.1, 0.9]),
    "predict_cdf": lambda model, X: model.predict_cdf(X, 0.5),
    "sample": lambda model, X: model.sample(X, 2, random_state=0),
}


def traced(work):
    """Bytes that the work leaves behind, and the most that it took."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


@pytest.mark.nightly
@pytest.mark.parametrize(("law", "rows"), LAWS.values(), ids=LAWS)
def test_rows_more_cost_little_more_than_their_answers(law, rows, monkeypatch):
    rows_at_a_time(monkeypatch, 500)
    model = lc.SLCPRegressor(LINE, law=law, reference="train", random_state=0)
    model.fit(*smooth_data(2 * rows, seed=0))
    few, many = (smooth_data(n, seed=5)[0] for n in (1_000, 4_000))
    for method, ask in METHODS.items():
        ask(model, few)
        least, most = (traced(lambda X=X, ask=ask: ask(model, X))[1] for X in (few, many))
        # Levels, bounds, corrections.
        assert most - least <= 250 * (len(many) - len(few)), method


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
    [(lc.MondrianConformalRegressor, "groups"), (lc.WeightedConformalRegressor, "weights")],
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
    assert traced(cycles)[0] < 100_000
