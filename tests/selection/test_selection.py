"""law="auto": what is compared, what is chosen, and on which rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import (
    DistSplitRegressor,
    LocalizedConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
    ThetaQuantile,
)
from localconformal.metrics import coverage, coverage_band, interval_score
from localconformal.selection.cost import affordable_rows
from localconformal.selection.scoring import corrected, mean_interval_score
from localconformal.splitting import split_rows

N = 230


def bumpy(n=N, seed=0):
    """A mean that a line misses and a scale that depends on x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.sin(4 * X[:, 0]) + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


def slcp(**params):
    return SLCPRegressor(LinearRegression(), random_state=0, **params)


@pytest.fixture(scope="module")
def chosen():
    return slcp().fit(*bumpy())


@pytest.mark.ci
def test_the_table_has_every_candidate_and_marks_a_choice_that_is_nearly_the_best(chosen):
    table = chosen.selection_
    # Those in the middle are left out where a terminal is narrow.
    columns = ["law", "interval_score", "correction", "location", "side", "weight", "chosen"]
    assert list(table.columns) == columns
    assert table["chosen"].sum() == 1
    assert table["interval_score"].is_monotonic_increasing
    laws = table[table["law"] != "stack"].drop_duplicates("law")
    assert laws["weight"].sum() == pytest.approx(1.0)
    assert {"split", "uniform", "coarse forest", "learned", "spread"} <= set(laws["law"])
    assert chosen.fit_report_["rows"]["selection"] == chosen.fit_report_["rows"]["reference"]
    score = table.loc[table["chosen"], "interval_score"].item()
    assert score <= 1.02 * table["interval_score"].min()
    assert score <= table.loc[table["law"] == "split", "interval_score"].min()


@pytest.mark.ci
def test_a_blend_stands_in_where_the_point_model_misses_the_mean(chosen):
    table = chosen.selection_
    assert set(table.loc[table["law"] != "split", "location"]) == {"blend"}
    assert chosen.law_.laws[0].weights_["point"] < 0.5
    X, y = bumpy(2000, seed=1)
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*bumpy())
    auto = interval_score(y, chosen.predict_interval(X), 0.9)
    assert auto < 0.95 * interval_score(y, split.predict_interval(X), 0.9)


@pytest.mark.ci
def test_split_conformal_stays_where_nothing_beats_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 1)), rng.normal(size=N)
    model = slcp().fit(X, y)
    table = model.selection_
    split = table.loc[table["law"] == "split", "interval_score"].min()
    best = table.loc[table["chosen"]].iloc[0]
    assert best["law"] == "split" or best["interval_score"] < split
    lengths = np.ptp(model.predict_interval(X), axis=1)
    assert lengths.std() < 0.2 * lengths.mean()


@pytest.mark.ci
def test_the_same_seed_chooses_the_same_law(chosen):
    again = slcp().fit(*bumpy())
    pd.testing.assert_frame_equal(again.selection_, chosen.selection_)
    X, _ = bumpy(50, seed=2)
    np.testing.assert_array_equal(again.predict_interval(X), chosen.predict_interval(X))


@pytest.mark.ci
def test_calibration_rows_take_no_part(chosen):
    X, y = bumpy()
    split_seed = np.random.RandomState(0).randint(2**31 - 1, size=2)[0]
    _, calibration = split_rows(N, 0.25, int(split_seed))
    X[calibration], y[calibration] = X[calibration[::-1]] * 0.5, 3.0 * y[calibration] + 1.0
    other = slcp().fit(X, y)
    pd.testing.assert_frame_equal(other.selection_, chosen.selection_)
    rows, _ = bumpy(20, seed=3)
    levels = np.array([0.05, 0.5, 0.95])
    np.testing.assert_array_equal(
        other.law_.laws[0].quantile(rows, levels), chosen.law_.laws[0].quantile(rows, levels)
    )


@pytest.mark.ci
def test_one_by_one_equals_a_batch(chosen):
    X, _ = bumpy(12, seed=4)
    alone = np.vstack([chosen.predict_interval(X[i : i + 1]) for i in range(len(X))])
    # The user's line multiplies matrices, whose last bits depend on the batch.
    np.testing.assert_allclose(alone, chosen.predict_interval(X), rtol=1e-12, atol=1e-12)


def test_few_rows_are_not_searched_and_no_budget_means_the_forest_law():
    for n, params, law in ((120, {}, "features"), (N, {"selection_budget": 0}, "forest")):
        model = slcp(**params).fit(*bumpy(n))
        assert model.fit_report_["rows"]["selection"] == 0
        assert model.selection_["law"].tolist() == [law]
    assert np.isfinite(slcp(calibration_size=9).fit(*bumpy(19)).predict_interval([[0, 0]])).all()
    with pytest.raises(AttributeError, match="selection_ belongs to law='auto'"):
        _ = slcp(law="uniform").fit(*bumpy(120)).selection_


@pytest.mark.ci
def test_a_small_budget_looks_at_fewer_rows():
    model = slcp(selection_budget=3.5).fit(*bumpy(600))
    assert 160 <= model.fit_report_["rows"]["selection"] < 450


@pytest.mark.parametrize(("n", "d"), [(1000, 1), (10_000, 20), (10**6, 20), (10**6, 300)])
def test_more_budget_buys_more_rows_until_all_are_used(n, d):
    rows = [affordable_rows(budget, n, d) for budget in (0, 5, 20, 60, 600, 10**6)]
    assert rows == sorted(rows)
    assert rows[0] == 0
    assert rows[-1] == n


@pytest.mark.ci
@pytest.mark.parametrize(
    "params",
    [
        {"score": "absolute"},
        {"adjustment": ThetaQuantile()},
        {"score": "normalised"},
    ],
    ids=["absolute", "theta", "normalised"],
)
def test_other_scores_and_adjustments_are_served(params):
    model = LocalizedConformalRegressor(LinearRegression(), random_state=0, **params)
    X, y = bumpy(1000, seed=5)
    intervals = model.fit(*bumpy()).predict_interval(X)
    assert np.isfinite(intervals).all()
    assert coverage(y, intervals) > 0.8
    if "adjustment" in params:
        assert set(model.selection_["correction"]) == {"ThetaQuantile"}
        assert isinstance(model.adjustment_, ThetaQuantile)


@pytest.mark.ci
def test_two_laws_are_found_where_the_sides_differ():
    model = LocalizedConformalRegressor(score="quantile", random_state=0).fit(*bumpy())
    assert set(model.selection_["side"]) == {0, 1}
    assert model.selection_["chosen"].sum() == 2
    # One correction serves both.
    assert set(model.selection_["correction"]) == {type(model.adjustment_).__name__}
    other = DistSplitRegressor(LinearRegression(), random_state=0).fit(*bumpy())
    assert other.selection_["chosen"].any()


def zero_inflated(seed=0):
    X, y = bumpy(seed=seed)
    return X, np.where(X[:, 0] < 0.3, 0.0, np.round(3 * np.exp(y)))


def with_categories(seed=0):
    X, y = bumpy(seed=seed)
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.loc[::7, "a"] = np.nan
    frame["kind"] = pd.Categorical(np.where(X[:, 1] > 0, "up", "down"))
    return frame, y


def constant_response(seed=0):
    X, _ = bumpy(seed=seed)
    return X, np.full(len(X), 2.0)


@pytest.mark.ci
@pytest.mark.parametrize(
    "data",
    [zero_inflated, with_categories, constant_response],
)
def test_awkward_tables_work(data):
    X, y = data()
    model = SLCPRegressor(random_state=0).fit(X, y)
    fresh, response = data(seed=1)
    intervals = model.predict_interval(fresh)
    assert np.isfinite(intervals).all()
    # With 57 calibration rows the coverage of one model can be far from 90 %.
    n_calibration = model.fit_report_["rows"]["calibration"]
    low, _ = coverage_band(n_calibration, len(response), 0.9, probability=0.999)
    assert coverage(response, intervals) >= low


def test_the_correction_gives_held_out_rows_their_coverage_where_they_suffice():
    rng = np.random.default_rng(0)
    v, levels = rng.normal(size=500), np.array([0.05, 0.95])
    narrow = np.tile([-0.5, 0.5], (500, 1)) * rng.uniform(1, 2, size=(500, 1))
    for scaled in (False, True):
        assert 0.9 <= coverage(v, corrected(narrow, v, levels, scaled)) <= 0.91
    too_high = corrected(narrow, v, np.array([0.0005, 0.9995]), scaled=True)
    np.testing.assert_array_equal(too_high, narrow)
    expected = interval_score(v, narrow, 0.9)
    assert mean_interval_score(narrow, v, levels) == pytest.approx(expected)
