"""law="auto": what is compared, what is chosen, and that the choice serves any table."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from inner import law_of
from localconformal import (
    DistSplitRegressor,
    LocalizedConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
    ThetaQuantile,
)
from localconformal.metrics import coverage, coverage_band, interval_score

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
    assert (list(table.columns), table["chosen"].sum()) == (columns, 1)
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
    assert law_of(chosen).weights_["point"] < 0.5
    X, y = bumpy(2000, seed=1)
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(*bumpy())
    auto = interval_score(y, chosen.predict_interval(X), 0.9)
    assert auto < 0.95 * interval_score(y, split.predict_interval(X), 0.9)


@pytest.mark.ci
def test_split_conformal_stays_where_nothing_beats_it():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 1)), rng.normal(size=N)
    lengths = np.ptp(slcp().fit(X, y).predict_interval(X), axis=1)
    assert lengths.std() < 0.2 * lengths.mean()


@pytest.mark.ci
def test_the_seed_fixes_the_choice_and_rows_are_answered_alone(chosen):
    again, (X, _) = slcp().fit(*bumpy()), bumpy(12, seed=2)
    pd.testing.assert_frame_equal(again.selection_, chosen.selection_)
    together = chosen.predict_interval(X)
    np.testing.assert_array_equal(again.predict_interval(X), together)
    alone = np.vstack([chosen.predict_interval(row[None]) for row in X])
    # The user's line multiplies matrices, whose last bits depend on the batch.
    np.testing.assert_allclose(alone, together, rtol=1e-12, atol=1e-12)


def test_few_rows_are_not_searched_and_no_budget_means_the_forest_law():
    for n, params, law in ((120, {}, "features"), (N, {"selection_budget": 0}, "forest")):
        model = slcp(**params).fit(*bumpy(n))
        assert model.fit_report_["rows"]["selection"] == 0
        assert model.selection_["law"].tolist() == [law]
    assert np.isfinite(slcp(calibration_size=9).fit(*bumpy(19)).predict_interval([[0, 0]])).all()
    with pytest.raises(AttributeError, match="selection_ belongs to law='auto'"):
        _ = slcp(law="uniform").fit(*bumpy(120)).selection_


@pytest.mark.ci
def test_two_laws_are_found_where_the_sides_differ():
    model = LocalizedConformalRegressor(conformity_score="quantile", random_state=0).fit(*bumpy())
    assert (set(model.selection_["side"]), model.selection_["chosen"].sum()) == ({0, 1}, 2)
    # One correction serves both.
    assert set(model.selection_["correction"]) == {"additive"}


def zero_inflated(seed=0):
    X, y = bumpy(seed=seed)
    return X, np.where(X[:, 0] < 0.3, 0.0, np.round(3 * np.exp(y)))


def with_categories(seed=0):
    X, y = bumpy(seed=seed)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 1] > 0, "up", "down"))
    frame.loc[::7, "a"] = np.nan
    return frame.astype({"kind": "category"}), y


def constant_response(seed=0):
    return bumpy(seed=seed)[0], np.full(N, 2.0)


LINE = LinearRegression()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("model", "data"),
    [
        *((SLCPRegressor(), data) for data in (zero_inflated, with_categories, constant_response)),
        (DistSplitRegressor(LINE), bumpy),
        *(
            (LocalizedConformalRegressor(LINE, conformity_score=s), bumpy)
            for s in ("absolute", "normalised")
        ),
        (LocalizedConformalRegressor(LINE, adjustment=ThetaQuantile()), bumpy),
    ],
)
def test_any_table_score_and_adjustment_is_served(model, data):
    model.set_params(random_state=0).fit(*data())
    X, y = data(seed=1)
    intervals = model.predict_interval(X)
    assert np.isfinite(intervals).all()
    # With 57 calibration rows the coverage of one model can be far from 90 %.
    low, _ = coverage_band(model.fit_report_["rows"]["calibration"], N, 0.9, probability=0.999)
    assert coverage(y, intervals) >= low
    if isinstance(model.get_params().get("adjustment"), ThetaQuantile):
        assert set(model.selection_["correction"]) == {"ThetaQuantile"}
