"""Fits on Dask, on the threads of this process: parts, sources, and what is refused."""

import pickle
from types import SimpleNamespace

import dask_rows
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal.distributed.estimator import order_statistics
from localconformal.distributed.graph import DRAW, SPLIT, Roles, compute, uniforms
from localconformal.io.models import load_model, save_model
from localconformal.metrics import coverage, coverage_band
from registry import optional

pytestmark = pytest.mark.ci

numbers = st.floats(allow_nan=False, width=64) | st.sampled_from([0.0, -0.0, 1.0, np.inf])


@settings(deadline=None, max_examples=40)
@given(st.lists(numbers, min_size=1, max_size=40), st.data())
def test_an_order_statistic_over_tasks_is_exact(values, data):
    rank, column = data.draw(st.integers(1, len(values))), np.array(values)[:, None]
    ends = data.draw(st.lists(st.integers(0, len(values)), max_size=3))
    parts = [dask_rows.dask.delayed(part) for part in np.split(column, sorted(ends))]
    with dask_rows.dask.config.set(scheduler="synchronous"):
        (found,) = compute(order_statistics(parts, len(values), [rank]))
    assert found[0] == np.sort(column[:, 0])[rank - 1]


def test_a_rank_beyond_the_rows_is_infinite():
    part = dask_rows.dask.delayed(np.arange(6.0).reshape(3, 2))
    (found,) = compute(order_statistics([part], 3, [4, 3]))
    assert found.tolist() == [np.inf, 5.0]


def test_a_position_has_its_number_wherever_a_partition_begins():
    whole = uniforms(3, SPLIT, 0, 1000)
    for start, count in [(0, 1), (1, 7), (5, 0), (993, 7)]:
        expected = whole[start : start + count]
        np.testing.assert_array_equal(uniforms(3, SPLIT, start, count), expected)
    assert abs(np.corrcoef(whole, uniforms(3, DRAW, 0, 1000))[0, 1]) < 0.1
    assert whole.min() >= 0.0
    assert 0.4 < whole.mean() < 0.6
    # A smaller sample is a part of a larger one.
    few, many = (Roles(0, 0.5).drawn(share, 0, 2000) for share in (0.1, 0.3))
    assert few.any()
    assert not (few & ~many).any()


METHODS = [
    lc.SLCPRegressor(effort="low"),
    lc.SLCPRegressor(dask_rows.FirstColumn(), law=lc.KernelLaw()),
    lc.SLCPRegressor(LinearRegression(), law="neighbors", reference="holdout"),
    lc.SLCPRegressor(LinearRegression(), law="uniform", sides="union", reference="train"),
    lc.LocalizedConformalRegressor(
        LinearRegression(), law="kernel", conformity_score="absolute", adjustment="multiplicative"
    ),
    lc.SplitConformalRegressor(LinearRegression()),
    lc.ConformalizedQuantileRegressor(HistGradientBoostingRegressor(max_iter=20)),
    lc.MADSplitRegressor(LinearRegression(), spread_estimator=LinearRegression()),
    lc.DistSplitRegressor(LinearRegression(), law="kernel"),
    lc.ConformalizedQuantileRegressor(dask_rows.Quantiles()),
    lc.SLCPRegressor(LinearRegression(), law=lc.LearnedLaw(dask_rows.Quantiles())),
]


@pytest.mark.parametrize("model", METHODS, ids=lambda model: type(model).__name__)
def test_every_method_of_the_split_family_covers(model):
    # Sorted by what decides the noise: partitions are as unlike each other as can be.
    X, y = dask_rows.rows(4_000, 0)
    order = np.argsort(X[:, 0])
    model.set_params(random_state=0).fit(*dask_rows.cut(X[order], y[order], (1_500, 1_500, 1_000)))
    assert model.fit_report_["rows"]["calibration"] == model.guarantee_.n_calibration == 1_000
    new, response = dask_rows.rows(4_000, 1)
    bounds = model.predict_interval(dask_rows.cut(new, response, (2_000, 2_000))[0], [0.5, 0.9])
    assert (bounds.shape, bounds.chunks[0]) == ((4_000, 2, 2), (2_000, 2_000))
    made = bounds.compute()
    np.testing.assert_array_equal(made, model.predict_interval(new, [0.5, 0.9]))
    for place, level in enumerate([0.5, 0.9]):
        low, high = coverage_band(1_000, 4_000, level, probability=0.9999)
        assert low <= coverage(response, made[:, :, place]) <= high


def test_labels_that_only_some_partitions_know():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.uniform(size=1_200), "y": rng.normal(size=1_200)})
    parts = []
    for place, labels in enumerate([["p", "q"], ["q", "r"], ["s"], ["p", None]]):
        drawn = pd.Categorical(rng.choice(np.array(labels, dtype=object), 300))
        parts.append(table[place * 300 :][:300].assign(kind=drawn))
    lazy = joined(parts, table[:0].assign(kind=pd.Categorical([]).set_categories(["p"])))
    X = lazy[["size", "kind"]]
    booster = HistGradientBoostingRegressor(categorical_features="from_dtype", max_iter=10)
    model = dask_rows.slcp(booster, "kernel").fit(X, lazy["y"])
    new = pd.DataFrame({"size": [0.5, 0.5], "kind": pd.Categorical(["p", "never seen"])})
    assert np.isfinite(model.predict_interval(new)).all()
    assert np.isfinite(model.predict_interval(X).compute().to_numpy()).all()


def joined(parts, meta):
    return dask_rows.dd.from_delayed(
        [dask_rows.dask.delayed(part) for part in parts], meta=meta, verify_meta=False
    )


def test_other_levels_are_found_when_asked_for_and_kept_in_files(tmp_path):
    X, y = dask_rows.rows(2_000, 0)
    model = dask_rows.slcp(LinearRegression(), "uniform").fit(*dask_rows.cut(X, y, (1_000,) * 2))
    wide = model.predict_interval(X[:5], 0.99)
    save_model(model, tmp_path / "model.skops")
    for again in (pickle.loads(pickle.dumps(model)), load_model(tmp_path / "model.skops")):
        np.testing.assert_array_equal(again.predict_interval(X[:5], [0.9, 0.99])[:, :, 1], wide)
        with pytest.raises(ValueError, match="call conformalize again"):
            again.predict_interval(X[:5], 0.5)


def test_conformalize_replaces_the_calibration_rows():
    X, y = dask_rows.rows(4_000, 0)
    lazy = dask_rows.cut(X[:2_000], y[:2_000], (1_000,) * 2)
    model = dask_rows.slcp(calibration_size=None).fit(*lazy)
    with pytest.raises(NotFittedError, match="conformalize"):
        model.predict_interval(lazy[0])
    model.conformalize(*dask_rows.cut(X[2_000:], y[2_000:], (700, 1_300)))
    assert model.guarantee_.n_calibration == 2_000
    bounds = model.predict_interval(X)
    model.conformalize(X[2_000:], y[2_000:])
    np.testing.assert_array_equal(bounds, model.predict_interval(X))


def test_a_model_fitted_in_memory_predicts_lazily():
    X, y = dask_rows.rows(500, 0)
    model = lc.MondrianConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    lazy = dask_rows.cut(X, y, (250,) * 2)[0]
    np.testing.assert_array_equal(model.predict_interval(lazy).compute(), model.predict_interval(X))
    np.testing.assert_array_equal(model.predict(lazy).compute(), model.predict(X))


def test_too_few_rows_are_said_before_anything_is_computed():
    X, y = dask_rows.cut(*dask_rows.rows(40, 0), (20, 20))
    model = lc.SplitConformalRegressor(
        dask_rows.FirstColumn(), calibration_size=5, random_state=0
    ).fit(X, y)
    with pytest.warns(UserWarning, match="got 5 calibration rows"):
        bounds = model.predict_interval(X)
    assert np.isinf(bounds.compute()).all()


@pytest.fixture(scope="module")
def it():
    X, y = dask_rows.cut(*dask_rows.rows(100, 0), (50, 50))
    frame, series = dask_rows.frames(*dask_rows.rows(100, 0), npartitions=2)
    fitted = dask_rows.slcp(law="uniform").fit(frame, series)
    return SimpleNamespace(
        X=X, y=y, frame=frame, series=series, slcp=dask_rows.slcp(law="uniform"), fitted=fitted
    )


def cut_elsewhere(it):
    whole = dask_rows.dd.from_pandas(dask_rows.TABLE, npartitions=2)
    y = whole["y"].repartition(divisions=[0, 10, whole.divisions[-1]])
    return it.slcp.fit(whole[dask_rows.NAMES], y)


def booster():
    return optional("lightgbm").DaskLGBMRegressor()


BAD_CALLS = [
    (lambda it: it.slcp.fit(it.X, np.zeros(100)), "or two Dask arrays"),
    (lambda it: it.slcp.fit(it.frame, it.y), "expected a Dask frame and a Dask series"),
    (lambda it: it.slcp.fit(it.frame, it.series.repartition(npartitions=1)), "repartition"),
    (cut_elsewhere, "partition X and y at the same rows"),
    (lambda it: it.slcp.fit(it.X, it.y[:50]), "same number"),
    (lambda it: it.slcp.fit(it.X[:0], it.y[:0]), "0 sample"),
    (lambda it: it.slcp.fit(it.X, dask_rows.da.where(it.y > 0, np.nan, it.y)), "NaN"),
    (lambda it: it.slcp.fit(it.X, it.y, sample_weight=np.ones(100)), "takes only X and y"),
    (
        lambda it: dask_rows.slcp(LinearRegression(), reference="oob").fit(it.X, it.y),
        "='cross-fit'",
    ),
    (lambda it: lc.MondrianConformalRegressor().fit(it.X, it.y), "choose SLCPRegressor"),
    (lambda it: dask_rows.slcp(booster()).fit(it.X, it.y), r"to_local\(\), as FrozenEstimator"),
    (lambda it: dask_rows.slcp(calibration_size=100).fit(it.X, it.y), "left to train"),
    (lambda it: it.fitted.predict_interval(it.frame[["b", "a", "c"]]), "as at fit"),
    (lambda it: it.fitted.predict(it.X[:, :2]), "as at fit"),
    (lambda it: it.fitted.predict_interval(it.X, output="frame"), "expected a Dask frame"),
    (lambda it: it.fitted.diagnose(it.frame), r"call X.compute\(\) first"),
    (lambda it: it.fitted.predict_quantiles(it.frame.compute(), [0.5]), "conformalize"),
]


@pytest.mark.parametrize(("call", "words"), BAD_CALLS)
def test_what_cannot_be_done_is_one_sentence(it, call, words):
    with pytest.raises(ValueError, match=words) as caught:
        call(it)
    assert "\n" not in str(caught.value).partition("\nNaN")[0]


@pytest.mark.parametrize("name", dask_rows.SOURCES)
def test_every_source_gives_the_model_of_one_piece(name, tmp_path):
    dask_rows.check_fit(*dask_rows.SOURCES[name](tmp_path))


def test_known_values_of_y_hold_on_dask_too():
    X, y = dask_rows.rows(1_000, 0)
    y, known = np.maximum(np.rint(3.0 * y), 0.0), {"support": (0, None), "integer": True}
    rows = dask_rows.cut(X, y, (600, 400))
    plain, model = (dask_rows.slcp(**params).fit(*rows) for params in ({}, known))
    bounds = np.asarray(model.predict_interval(rows[0], [0.5, 0.9]).compute())
    raw = np.asarray(plain.predict_interval(rows[0], [0.5, 0.9]).compute())
    np.testing.assert_array_equal(bounds, model.predict_interval(X, [0.5, 0.9]))
    assert set(np.unique(bounds)) <= set(range(100))
    covered = [(y >= b[:, 0].T) & (y <= b[:, 1].T) for b in (raw, bounds)]
    assert np.all(covered[0] <= covered[1])
    wrong = dask_rows.cut(X, y - 1.0, (600, 400))
    for call in (dask_rows.slcp(**known).fit, model.conformalize):
        with pytest.raises(ValueError, match="values outside the support from 0 to inf"):
            call(*wrong)


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_one_side_on_dask_has_the_bound_of_rows_in_memory(side):
    X, y = dask_rows.rows(1_000, 0)
    model = dask_rows.slcp(sides=side).fit(*dask_rows.cut(X, y, (600, 400)))
    rows = dask_rows.rows(500, 1)
    found = model.conformalize(*dask_rows.cut(*rows, (300, 200))).predict_interval(X)
    np.testing.assert_array_equal(found, model.conformalize(*rows).predict_interval(X))
    assert np.isinf(found).any(axis=0).tolist() == [side == "upper", side == "lower"]
