"""One side: (-inf, u(x)] or [l(x), inf), with all of alpha there."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal.adjustments import ADJUSTMENTS
from localconformal.metrics import coverage, coverage_band
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


@pytest.mark.parametrize("adjustment", ci_but(["additive", "theta", "plain"], ADJUSTMENTS))
@pytest.mark.parametrize("score", ["residual", "quantile", "response"])
def test_it_is_the_bound_of_the_union_that_has_as_much_alpha_there(side, adjustment, score):
    params = {"adjustment": adjustment, "conformity_score": score, "confidence_level": 0.8}
    one = fitted(side, **params).predict_interval(X_NEW, 0.9)
    union = fitted("union", **params).predict_interval(X_NEW, 0.8)
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
