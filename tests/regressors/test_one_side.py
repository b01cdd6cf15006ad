"""One side: (-inf, u(x)] or [l(x), inf), with all of alpha there."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from localconformal.adjustments import ADJUSTMENTS
from localconformal.metrics import coverage, coverage_band
from localconformal.rows import split_rows
from predictive_models import make
from registry import awkward_data, ci_but, optional, smooth_data

LEVELS = [0.5, 0.9, 0.8]
X_NEW = awkward_data(40, seed=9)[0]
#: The calibrated end, and where the other one is.
SIDES = {"lower": (0, np.inf), "upper": (1, -np.inf)}
pytestmark = pytest.mark.filterwarnings("ignore:.*identical to training rows:UserWarning")


@pytest.fixture(params=SIDES)
def side(request):
    return request.param


@functools.cache
def fitted(side, **params):
    return make(sides=side, **params).fit(*awkward_data(200, 0)).conformalize(*awkward_data(99, 1))


def test_the_bound_is_its_formula(side):
    X, y = smooth_data(200, 0)
    X_cal, y_cal = smooth_data(99, 1)
    model = make(sides=side, confidence_level=0.8).fit(X, y).conformalize(X_cal, y_cal)
    sign = 1.0 if side == "upper" else -1.0
    law = model.law_.laws[-1]

    def quantile(X):
        return law.quantile(X, [0.8])[:, 0] if sign > 0 else -law.upper_quantile(X, [0.2])[:, 0]

    scores = np.sort(sign * (y_cal - model.predict(X_cal)) - quantile(X_cal))
    expected = model.predict(X_NEW) + sign * (quantile(X_NEW) + scores[80 - 1])
    found = model.predict_interval(X_NEW)
    np.testing.assert_allclose(found[:, SIDES[side][0]], expected, rtol=1e-12)
    assert np.all(found[:, 1 - SIDES[side][0]] == SIDES[side][1])


@pytest.mark.parametrize("adjustment", ci_but(["additive"], ADJUSTMENTS))
@pytest.mark.parametrize("score", ["residual", "quantile", "response"])
def test_it_is_the_bound_of_the_union_that_has_as_much_alpha_there(side, adjustment, score):
    params = {"adjustment": adjustment, "conformity_score": score}
    one = fitted(side, **params, confidence_level=0.9).predict_interval(X_NEW)
    union = fitted("union", **params, confidence_level=0.8).predict_interval(X_NEW)
    end = SIDES[side][0]
    np.testing.assert_allclose(one[:, end], union[:, end], rtol=1e-12)


def test_levels_are_nested_rows_alone_are_rows_together_and_nothing_is_flagged(side, tmp_path):
    model, (end, infinity) = fitted(side), SIDES[side]
    several = model.predict_interval(X_NEW, LEVELS)
    rising = several[:, end, np.argsort(LEVELS)] * (1.0 if end else -1.0)
    assert np.all(np.diff(rising) >= 0.0)
    assert np.all(several[:, 1 - end] == infinity)
    alone = np.concatenate([model.predict_interval(row[None], LEVELS) for row in X_NEW])
    np.testing.assert_allclose(alone, several, rtol=1e-12)
    shown = model.diagnose(X_NEW)
    assert not shown["infinite"].any()
    assert np.isfinite(shown["correction"]).all()
    optional("skops")
    from localconformal.io.models import load_model, save_model

    again = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict_interval(X_NEW, LEVELS), several)


def test_turning_y_around_turns_the_sides_around():
    (X, y), (X_cal, y_cal) = smooth_data(200, 0), smooth_data(99, 1)
    upper = make(sides="upper").fit(X, y).conformalize(X_cal, y_cal).predict_interval(X_NEW)
    lower = make(sides="lower").fit(X, -y).conformalize(X_cal, -y_cal).predict_interval(X_NEW)
    np.testing.assert_allclose(lower, -upper[:, ::-1], rtol=1e-9)


def test_the_predictive_distribution_is_that_of_both_sides(side):
    levels = [0.1, 0.5, 0.9]
    both = fitted("joint").predict_quantiles(X_NEW, levels)
    np.testing.assert_array_equal(fitted(side).predict_quantiles(X_NEW, levels), both)


def test_too_few_rows_leave_no_bound(side):
    few = make(sides=side).fit(*smooth_data(100, 0)).conformalize(*smooth_data(8, 1))
    with pytest.warns(UserWarning, match="got 8 calibration rows, and .* needs at least 9"):
        assert np.isinf(few.predict_interval(X_NEW)).all()
    assert few.diagnose(X_NEW)["infinite"].all()
    assert np.isfinite(few.conformalize(*smooth_data(9, 1)).predict_interval(X_NEW)).any()


def test_a_known_support_closes_the_other_end(side):
    end, low = SIDES[side][0], (-50, 50)
    known = fitted(side, support=low).predict_interval(X_NEW)
    np.testing.assert_array_equal(known[:, end], fitted(side).predict_interval(X_NEW)[:, end])
    assert np.all(known[:, 1 - end] == low[1 - end])


def test_a_score_without_sides_is_refused(side):
    with pytest.raises(ValueError, match=f"sides='{side}' with AbsoluteScore, which cannot tell"):
        make(sides=side, conformity_score="absolute").fit(*smooth_data(60, 0))


@pytest.mark.ci
@pytest.mark.parametrize(
    "cls", [lc.SLCPRegressor, lc.LocalizedConformalRegressor, lc.DistSplitRegressor]
)
@pytest.mark.parametrize(
    "law", ["auto", "kernel", lc.ForestLaw(RandomForestRegressor(20, min_samples_leaf=5))]
)
def test_coverage_is_within_its_band(cls, law, side):
    found, options = [], {"effort": "low"} if isinstance(law, str) and law == "auto" else {}
    for seed in range(5):
        model = cls(LinearRegression(), law=law, sides=side, random_state=seed, **options)
        model.fit(*smooth_data(800, seed))
        X, y = smooth_data(1_000, 100 + seed)
        found.append(coverage(y, model.predict_interval(X)))
    # The mean of five varies less than one.
    low, high = coverage_band(200, 1_000, 0.9)
    assert low < np.mean(found) < high


@pytest.mark.parametrize("level", [0.9, 0.3])
def test_quantile_models_are_trained_at_alpha(side, level):
    X, y = smooth_data(400, 0)
    options = {"conformity_score": "quantile", "adjustment": "plain", "confidence_level": level}
    base = QuantileRegressor(alpha=0)
    model = lc.LocalizedConformalRegressor(base, sides=side, random_state=0, **options)
    score = model.fit(X, y).score_
    tail = min(1.0 - level, 0.45)
    np.testing.assert_allclose(score.levels_, [tail, 0.5, 1.0 - tail])
    both = lc.LocalizedConformalRegressor(base, random_state=0, **options).fit(X, y).score_
    np.testing.assert_allclose(both.levels_, [(1 - level) / 2, 0.5, (1 + level) / 2])
    if level == 0.9:
        # The bound is the model's own quantile, moved by a correction that is nearly nothing.
        X_train, train = X, np.isin(np.arange(400), split_rows(400, 0.25, seed_of(model))[0])
        end = 1 if side == "upper" else 0
        direct = QuantileRegressor(alpha=0, quantile=0.9 if end else 0.1)
        expected = direct.fit(X_train[train], y[train]).predict(X_NEW)
        moved = model.predict_interval(X_NEW)[:, end] - expected
        np.testing.assert_allclose(moved, moved[0], atol=1e-6)


def seed_of(model):
    """The seed of the split into training and calibration rows."""
    return int(np.random.RandomState(model.random_state).randint(2**31 - 1, size=2)[0])
