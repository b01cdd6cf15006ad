"""law="auto": what it tells, whose point it is, that it is stable, and that it serves any table."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from inner import law_of, weights_of_readings
from localconformal import (
    AutoLaw,
    DistSplitRegressor,
    LocalizedConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
    ThetaQuantile,
)
from localconformal.laws.blend import NystroemRidge
from localconformal.metrics import coverage, coverage_band, interval_score
from registry import ci_but

N = 400
LINE = LinearRegression()


def bumpy(n=N, seed=0):
    """A mean that a line misses and a scale that depends on x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, np.sin(4 * X[:, 0]) + (0.1 + np.abs(X[:, 1])) * rng.normal(size=n)


def slcp(*model, **params):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return SLCPRegressor(*model, random_state=0, **params).fit(*bumpy())


@pytest.fixture(scope="module")
def own():
    return slcp(LINE)


@pytest.fixture(scope="module")
def blended():
    return slcp()


@pytest.mark.parametrize("absurd", ci_but([1e6], [1e6, -1e12]))
def test_one_absurd_response_moves_little_of_the_law(absurd):
    X, y = bumpy()
    clean = AutoLaw(random_state=0).fit(X, y).quantile(X, [0.05, 0.5, 0.95])
    y[0] = absurd
    moved = AutoLaw(random_state=0).fit(X, y).quantile(X, [0.05, 0.5, 0.95])
    assert (np.median(np.abs(moved - clean), axis=0) < 0.25).all()


@pytest.mark.ci
def test_times_have_a_time_of_day_and_a_day_of_the_week():
    rng, hours = np.random.default_rng(0), np.arange(1_000)
    X = pd.DataFrame({"at": pd.Timestamp("2020-01-01") + pd.to_timedelta(hours, unit="h")})
    X.loc[0, "at"] = pd.NaT
    for period in (24, 168):
        y = 10 * np.sin(2 * np.pi * hours / period) + rng.normal(size=1_000)
        bounds = SLCPRegressor(random_state=0).fit(X, y).predict_interval(X)
        assert np.ptp(bounds, axis=1).mean() < 8


@pytest.mark.ci
def test_levels_below_a_half_and_scores_of_one_side_have_levels_to_weigh():
    for level in (0.3, 0.5):
        for sides in ("joint", "union", "absolute"):
            model = slcp(confidence_level=level, sides=sides)
            assert np.isfinite(model.predict_interval(bumpy()[0])).all()
    for levels in (0.5, (0.9, 0.1), (0.1, 0.5, 0.9), (0.0, 1.5)):
        with pytest.raises(ValueError, match="expected"):
            AutoLaw(levels=levels).fit(*bumpy())


def test_the_story_has_every_member_and_reading_with_loss_and_weight(own, blended):
    for model, is_own in ((own, True), (blended, False)):
        table = model.selection_
        assert list(table.columns) == ["part", "name", "loss", "weight", "note"]
        centres = table[table["part"] == "centre"].set_index("name")
        assert ("own model" in centres.index) == is_own
        assert {"boosting", "kernel ridge", "network"} <= set(centres.index)
        # Whoever was dropped has a reason, whoever has a weight has none.
        assert not ((centres["note"] != "") & (centres["weight"] > 0)).any()
        for part in ("centre", "lower", "upper"):
            some = table[table["part"] == part]
            assert some["weight"].sum() == pytest.approx(1.0)
            assert (some["loss"] > 0).all()
    with pytest.raises(AttributeError, match="selection_ needs law='auto'"):
        _ = slcp(LINE, law="uniform").selection_


def test_a_reading_has_weight_only_where_it_gains_and_sides_differ_only_where_that_gains():
    levels, rng = np.array([0.05, 0.95]), np.random.default_rng(0)
    scale = 0.2 + rng.uniform(size=4_000)
    z, normal = scale * rng.normal(size=4_000), np.array([-1.645, 1.645])
    right, one_width = scale[:, None] * normal, np.tile(0.75 * normal, (4_000, 1))
    noisy = right * rng.uniform(0.9, 1.1, size=(4_000, 1))
    left, of_right = np.where([True, False], [right, one_width], [one_width, right])
    for readings, expected in (
        ([right, noisy, one_width], [[1, 1], [0, 0], [0, 0]]),
        ([one_width, one_width, right], [[0, 0], [0, 0], [1, 1]]),
        ([left, of_right, one_width], [[1, 0], [0, 1], [0, 0]]),
    ):
        np.testing.assert_allclose(weights_of_readings(np.stack(readings), z, levels), expected)


def test_the_blend_shapes_the_interval_and_the_point_stays_the_users(own, blended):
    X, y = bumpy(2000, seed=1)
    split = SplitConformalRegressor(LINE, random_state=0).fit(*bumpy())
    at_best = 0.8 * interval_score(y, split.predict_interval(X), 0.9)
    for model in (own, blended):
        assert interval_score(y, model.predict_interval(X), 0.9) < at_best
    np.testing.assert_allclose(own.predict(X), split.predict(X))
    outside = own.diagnose(X)["point_outside"]
    low, high = own.predict_interval(X).T
    np.testing.assert_array_equal(outside, (own.predict(X) < low) | (own.predict(X) > high))
    assert outside.any()
    assert not blended.diagnose(X)["point_outside"].any()
    error = np.abs(y - blended.predict(X)).mean()
    assert error < 0.8 * np.abs(y - own.predict(X)).mean()


def test_points_outside_their_intervals_are_warned_of_once():
    with pytest.warns(UserWarning, match=r"point predictions of \d+% .* estimator=None") as caught:
        SLCPRegressor(LINE, random_state=0).fit(*bumpy())
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SLCPRegressor(random_state=0).fit(*bumpy())


def test_a_model_that_memorises_does_not_make_the_law_narrow():
    """Noise alone: the residuals of rows that a model has seen would be zero."""
    X, y = bumpy()[0], np.random.default_rng(0).normal(size=N)
    law = law_of(SLCPRegressor(KNeighborsRegressor(1), random_state=0).fit(X, y))
    assert np.median(np.ptp(law.quantile(X, [0.05, 0.95]), axis=1)) > 0.85 * 2 * 1.645


@pytest.mark.ci
@pytest.mark.parametrize("model", [None, LINE], ids=str)
def test_bounds_move_no_more_than_the_response(model):
    (X, y), Q = bumpy(), bumpy(200, seed=1)[0]
    rng = np.random.default_rng(0)
    made = SLCPRegressor(model, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bounds = made.fit(X, y).predict_interval(Q)
        for changed in (y * (1 + 1e-12), y + 1e-12 * rng.normal(size=N)):
            moved = made.fit(X, changed).predict_interval(Q)
            assert np.abs(moved - bounds).max() < 1e-6 * y.std()
        one, two = (made.set_params(n_jobs=k).fit(X, y).predict_interval(Q) for k in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_rows_that_members_cannot_read_are_left_to_the_users_model():
    class Brightness:
        def predict(self, X):
            return np.asarray(X).mean(axis=(1, 2))

    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 40, 40)) + rng.normal(size=(300, 1, 1))
    y = X.mean(axis=(1, 2)) * (1 + 0.1 * rng.normal(size=300))
    model = SLCPRegressor(Brightness(), random_state=0).fit(X, y)
    centres = model.selection_.query("part == 'centre'")
    assert (centres["name"].tolist(), centres["weight"].tolist()) == (["own model"], [1.0])
    length = np.ptp(model.predict_interval(X), axis=1)
    size = np.abs(model.predict(X))
    assert length[size > 1].mean() > 2 * length[size < 0.3].mean()


@pytest.mark.ci
def test_quantiles_of_grades_are_grades():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(900, 2))
    y = np.clip(np.round(2 + 4 * X[:, 0] + 0.7 * rng.normal(size=900)), 1, 6)
    made = [AutoLaw(random_state=seed, n_jobs=1).fit(X, y) for seed in range(3)]
    law = max(made, key=lambda law: law.inward_)
    assert law.inward_ > 0
    tails = law.quantile(X, [0.05, 0.95])
    np.testing.assert_allclose(tails, np.round(tails), atol=1e-6)


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


def few(seed=0):
    return bumpy(60 if seed == 0 else N, seed)


@pytest.mark.ci
@pytest.mark.filterwarnings("ignore:The point predictions")
@pytest.mark.parametrize(
    ("model", "data"),
    [
        *((SLCPRegressor(), data) for data in (zero_inflated, constant_response, few)),
        *((SLCPRegressor(effort=effort), with_categories) for effort in ("low", "high")),
        (DistSplitRegressor(LINE), bumpy),
        *(
            (LocalizedConformalRegressor(LINE, conformity_score=s), bumpy)
            for s in ("absolute", "normalised", "response")
        ),
        (LocalizedConformalRegressor(conformity_score="quantile"), bumpy),
        (LocalizedConformalRegressor(LINE, adjustment=ThetaQuantile()), bumpy),
    ],
)
def test_any_table_score_and_adjustment_is_served(model, data):
    model.set_params(random_state=0).fit(*data())
    X, y = data(seed=1)
    intervals = model.predict_interval(X)
    assert np.isfinite(intervals).all()
    # With 100 calibration rows the coverage of one model can be far from 90 %.
    low, _ = coverage_band(model.fit_report_["rows"]["calibration"], N, 0.9, probability=0.999)
    assert coverage(y, intervals) >= low


@pytest.mark.ci
def test_a_refit_forgets_which_readings_were_left_out():
    (X, y), rng = bumpy(), np.random.default_rng(0)
    law = AutoLaw(effort="low", random_state=0, n_jobs=1).fit(X, 100 * X[:, 0] + rng.normal(size=N))
    assert len(law.weights_) < 3
    fresh = AutoLaw(effort="low", random_state=0, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(law.fit(X, y).quantile(X, [0.9]), fresh.quantile(X, [0.9]))
    with pytest.raises(ValueError, match="got effort='much'"):
        AutoLaw(effort="much").fit(X, y)


@pytest.mark.filterwarnings("ignore")
def test_fit_parameters_go_to_a_model_of_its_own():
    """The members of the blend take none: boosting gets them, and stays the point model."""
    X, y = bumpy(200)
    model = SLCPRegressor(random_state=0).fit(X, y, sample_weight=np.ones(200))
    assert "own model" in set(model.selection_["name"])


# ---- kernel ridge -------------------------------------------------------------------------------


def ten_columns(n=600, d=10):
    """A response of the first two columns of many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + 0.1 * rng.normal(size=n)


def test_kernel_ridge_looks_at_the_columns_that_matter():
    X, y = ten_columns()
    model, held, rows = NystroemRidge(0).fit_held_out(X[:400], y[:400])
    stretch = np.zeros(10)
    stretch[model.columns_] = model.stretch_
    assert stretch[:2].min() > 5 * stretch[2:].max()
    # Answers left out are as good as those for new rows.
    left_out, new = np.abs(held - y[rows]).mean(), np.abs(model.predict(X[400:]) - y[400:]).mean()
    assert 0.8 < left_out / new < 1.25
    assert new < 0.25


def test_slopes_of_kernel_ridge_are_its_derivatives():
    X, y = ten_columns(d=3)
    model = NystroemRidge(0).fit_held_out(X, y)[0]
    step, moves = 1e-5, np.eye(3)
    along = [
        (model.predict(X + step * e) - model.predict(X - step * e)) / (2 * step) for e in moves
    ]
    expected = np.sqrt(np.mean(np.square(along), axis=1))
    expected[np.setdiff1d(np.arange(3), model.columns_)] = 0.0
    # Up to a factor: stretches are in units of the usual one.
    found = model._slopes(X)
    np.testing.assert_allclose(found / found.max(), expected / expected.max(), rtol=1e-5)


@pytest.mark.parametrize("y", [np.zeros(40), np.full(40, 1e-9)])
def test_kernel_ridge_of_a_constant_is_that_constant(y):
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert np.allclose(NystroemRidge(0).fit_held_out(X, y)[0].predict(X), y)


def test_more_columns_than_rows_are_not_stretched_to_fit_noise():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 90)), rng.normal(size=60)
    assert (NystroemRidge(0).fit_held_out(X, y)[0].stretch_ == 1.0).all()
