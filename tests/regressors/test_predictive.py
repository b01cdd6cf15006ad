"""The predictive distribution: inverses, symmetry, samples, what is said and what is refused."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import localconformal
from localconformal import UniformLaw
from localconformal.metrics import crps
from predictive_models import VARIANTS, discrete_data, make, outward_ranks
from registry import awkward_data, ci_but, light, smooth_data

LEVELS = np.array([0.02, 0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.98])
X_NEW = smooth_data(25, seed=9)[0]
TRAIN, CAL = smooth_data(120, seed=0), smooth_data(99, seed=1)


def fit(train=TRAIN, cal=CAL, **params):
    with warnings.catch_warnings():
        # Rounded data repeat rows by chance.
        warnings.simplefilter("ignore", UserWarning)
        return make(**params).fit(*train).conformalize(*cal)


@functools.cache
def calibrated(variant, data=smooth_data):
    return fit(data(120, seed=0), data(99, seed=1), **VARIANTS[variant])


@pytest.fixture(params=VARIANTS)
def variant(request):
    return request.param


@pytest.fixture(params=ci_but([awkward_data], [smooth_data, awkward_data, discrete_data]))
def model(variant, request):
    return calibrated(variant, request.param)


@pytest.fixture
def kernel():
    return calibrated("law-kernel")


def test_shapes_order_and_range(model):
    quantiles = model.predict_quantiles(X_NEW, LEVELS)
    assert quantiles.shape == (25, len(LEVELS))
    assert np.all(np.isfinite(quantiles))
    assert np.all(np.diff(quantiles, axis=1) >= 0)
    np.testing.assert_array_equal(model.predict_quantiles(X_NEW, 0.2), quantiles[:, 2])
    np.testing.assert_array_equal(model.predict_quantiles(X_NEW, LEVELS[::-1]), quantiles[:, ::-1])
    grid = np.tile(np.linspace(-200.0, 200.0, 401), (25, 1))
    cdf = model.predict_cdf(X_NEW, grid)
    assert cdf.shape == (25, 401)
    assert np.all(np.diff(cdf, axis=1) >= 0)
    np.testing.assert_array_equal(cdf[:, [0, -1]], np.tile([0.01, 0.99], (25, 1)))
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, grid[:, 3]), cdf[:, 3])
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, float(grid[0, 3])), cdf[:, 3])
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, pd.Series(grid[:, 3])), cdf[:, 3])


def test_quantiles_and_cdf_are_inverses(model):
    """y >= q_t exactly when the CDF exceeds t (t < 1/2), or reaches it (t > 1/2)."""
    near = 1e-9
    for t in [0.013, 0.02, 0.05, 0.25, 0.495, 0.505, 0.75, 0.95, 0.98, 0.987]:
        q = model.predict_quantiles(X_NEW, t)
        y = np.concatenate([q[:, None] + near, q[:, None] + np.linspace(0.01, 9, 20)], axis=1)
        above, below = model.predict_cdf(X_NEW, y), model.predict_cdf(X_NEW, 2 * q[:, None] - y)
        if t < 0.5:
            assert np.all(above > t - 1e-12)
            assert np.all(below <= t + 1e-12)
            # Rounded down: what is below is below without doubt.
            assert np.all(model.predict_cdf(X_NEW, np.nextafter(q, -np.inf)) <= t + 1e-12)
        else:
            assert np.all(above >= t - 1e-12)
            assert np.all(below < t + 1e-12)
            assert np.all(model.predict_cdf(X_NEW, q) >= t - 1e-12)


def test_one_by_one_equals_batch(model):
    y = np.linspace(-3.0, 3.0, 25)
    quantiles = [model.predict_quantiles(row[None], LEVELS)[0] for row in X_NEW]
    # The last bits of a linear model's matrix product depend on the batch.
    together = model.predict_quantiles(X_NEW, LEVELS)
    np.testing.assert_allclose(quantiles, together, rtol=1e-12, atol=1e-12)
    cdf = [model.predict_cdf(row[None], y[i]) for i, row in enumerate(X_NEW)]
    np.testing.assert_array_equal(np.concatenate(cdf), model.predict_cdf(X_NEW, y))


def test_a_new_calibration_set_is_used_and_its_order_is_not(variant):
    model, (X, y) = fit(**VARIANTS[variant]), smooth_data(99, seed=2)
    before, after, turned, again = (
        model.conformalize(*rows).predict_quantiles(X_NEW, LEVELS)
        for rows in (CAL, (X, y), (X[::-1], y[::-1]), CAL)
    )
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(turned, after, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize(
    ("moved", "scale"),
    [
        *((moved, -4.0) for moved in ("law-kernel", "neighbors-3", "normalised", "no-law")),
        *(("law-kernel", 1e3), ("quantile", 4.0)),
    ],
)
def test_scale_sign_and_shift_of_y_are_those_of_the_distribution(moved, scale):
    train, cal = ((X, scale * y + 8.0) for X, y in (TRAIN, CAL))
    levels = LEVELS[LEVELS != 0.5]
    asked = levels if scale > 0 else 1.0 - levels
    np.testing.assert_allclose(
        fit(train, cal, **VARIANTS[moved]).predict_quantiles(X_NEW, asked),
        scale * calibrated(moved).predict_quantiles(X_NEW, levels) + 8.0,
        rtol=1e-5,
        atol=1e-6 * abs(scale),
    )


def test_a_law_that_is_the_same_everywhere_changes_nothing():
    none = calibrated("no-law").predict_quantiles(X_NEW, LEVELS)
    np.testing.assert_allclose(
        fit(law=UniformLaw()).predict_quantiles(X_NEW, LEVELS), none, rtol=1e-12
    )
    # The conformal predictive system by hand: the residuals in order, around the prediction.
    model = calibrated("no-law")
    residuals = np.sort(CAL[1] - model.predict(CAL[0]))
    by_hand = model.predict(X_NEW)[:, None] + residuals[outward_ranks(99, LEVELS) - 1]
    np.testing.assert_allclose(none, by_hand, rtol=1e-12)


def test_samples_follow_the_cdf_and_the_seed(variant):
    model = calibrated(variant)
    draws = model.sample(X_NEW[:3], 3_000, random_state=0)
    assert draws.shape == (3, 3_000)
    assert np.all(np.isfinite(draws))
    grid = np.linspace(-4.0, 4.0, 81)
    drawn = (draws[:, :, None] <= grid).mean(axis=1)
    cdf = model.predict_cdf(X_NEW[:3], np.tile(grid, (3, 1)))
    # One step at either end is put at the outermost quantile.
    assert np.abs(drawn - cdf).max() <= 1 / 100 + 2.2 / np.sqrt(3_000)
    # By the seed, and independent between rows that are equal.
    first, again, other = (model.sample(X_NEW[[0, 0]], 50, random_state=k) for k in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])


def test_crps_is_that_of_samples_and_the_mean_over_rows(variant):
    model, (X, y) = calibrated(variant), smooth_data(80, seed=5)
    score = model.crps(X, y)
    assert isinstance(score, float)
    assert score == pytest.approx(crps(y, model.sample(X, 1_000, random_state=0)), rel=0.03)
    alone = [model.crps(X[[i]], y[[i]]) for i in range(8)]
    assert model.crps(X[:8], y[:8]) == pytest.approx(np.mean(alone), rel=1e-12)


def test_one_calibration_row_too_few_makes_the_outer_levels_infinite():
    q = fit(cal=smooth_data(19, seed=1)).predict_quantiles(X_NEW, [0.05, 0.95])
    assert np.isfinite(q).all()
    said = "18 calibration rows.* level 0.05 needs at least 19"
    with pytest.warns(UserWarning, match=said):
        low, middle, high = (
            fit(cal=smooth_data(18, seed=1)).predict_quantiles(X_NEW, [0.05, 0.5, 0.95]).T
        )
    assert np.all(low == -np.inf)
    assert np.isfinite(middle).all()
    assert np.all(high == np.inf)


def test_one_calibration_row_and_none():
    model = fit(cal=smooth_data(1, seed=1))
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, 0.0), 0.5)
    asked = {"predict_quantiles": 0.5, "predict_cdf": 0.0, "sample": 5, "crps": np.zeros(25)}
    for call, argument in asked.items():
        assert np.isfinite(getattr(model, call)(X_NEW, argument)).all()
        with pytest.raises(NotFittedError):
            getattr(make(), call)(X_NEW, argument)
        with pytest.raises(NotFittedError, match=r"conformalize\(X_cal, y_cal\)"):
            getattr(make().fit(*TRAIN), call)(X_NEW, argument)


@pytest.mark.parametrize(
    ("name", "params", "signed"),
    [
        ("SplitConformalRegressor", {}, False),
        ("MADSplitRegressor", {}, False),
        ("MondrianConformalRegressor", {}, False),
        ("ConformalizedQuantileRegressor", {}, False),
        ("SLCPRegressor", {"sides": "absolute"}, False),
        ("SLCPRegressor", {"conformity_score": "absolute"}, False),
        ("ConformalizedQuantileRegressor", {"method": "asymmetric"}, True),
        ("DistSplitRegressor", {}, True),
    ],
)
def test_errors_with_a_sign_have_a_distribution_and_others_none(name, params, signed):
    model = light(getattr(localconformal, name), **params).fit(*smooth_data(400, seed=0))
    if signed:
        q = model.predict_quantiles(X_NEW, LEVELS)
        assert np.isfinite(q).all()
        assert np.all(np.diff(q, axis=1) >= 0)
        return
    assert model.guarantee_.predictive is None
    for call, argument in (("predict_quantiles", 0.5), ("predict_cdf", 0.0), ("sample", 1)):
        with pytest.raises(ValueError, match=r"one number per row.*score other than 'absolute'"):
            getattr(model, call)(X_NEW, argument)


BAD = {
    "predict_quantiles": {
        r"levels=.*inside \(0, 1\)": (0.0, 1.0, [0.5, 1.5], [], [[0.5]], "half", np.nan, None)
    },
    "predict_cdf": {
        "NaN or infinity": (np.full(25, np.nan), np.inf),
        "finite numbers": (["a"] * 25,),
        r"\(24,\) and X has 25 rows": (np.zeros(24),),
        r"expected \(25,\) or \(25, k\)": (np.zeros((25, 2, 2)),),
    },
    "sample": {r"n_samples=.*whole number": (0, -1, 2.5, "many")},
    "crps": {"y has shape": (np.zeros(3),), "NaN or infinity": (np.full(25, np.nan),)},
}


@pytest.mark.parametrize("call", BAD)
def test_bad_levels_responses_and_sizes(kernel, call):
    for told, arguments in BAD[call].items():
        for argument in arguments:
            with pytest.raises(ValueError, match=told):
                getattr(kernel, call)(X_NEW, argument)


def test_known_values_of_y_bound_quantiles_cdf_and_samples(variant):
    known, params = {"support": (-2, 3), "integer": True}, VARIANTS[variant]
    (X, y), (X_cal, y_cal) = TRAIN, CAL
    data = [(X, np.clip(np.rint(y), -2, 3)), (X_cal, np.clip(np.rint(y_cal), -2, 3))]
    plain, model = fit(*data, **params), fit(*data, **params, **known)
    levels = np.append(LEVELS, [0.001, 0.999])
    with pytest.warns(UserWarning, match="Some quantiles are infinite"):
        before = plain.predict_quantiles(X_NEW, levels)
    # No warning here: the ends of the support stand for what is unknown.
    after = model.predict_quantiles(X_NEW, levels)
    assert np.all(np.diff(after[:, np.argsort(levels)], axis=1) >= 0)
    for found in (after, model.sample(X_NEW, 50, random_state=0)):
        assert set(np.unique(found)) <= set(range(-2, 4))
    # Neither tail holds more of the whole numbers from -2 to 3 than before.
    for y in range(-2, 4):
        low = levels < 0.5
        assert np.all(((y < after) <= (y < before))[:, low])
        assert np.all(((y > after) <= (y > before))[:, ~low])
    grid = np.tile([-2.5, -2.0, -1.0, 0.0, 0.7, 2.999, 3.0], (25, 1))
    cdf = model.predict_cdf(X_NEW, grid)
    assert np.all(np.diff(cdf, axis=1) >= 0)
    assert np.all(cdf[:, [0, -1]] == [0.0, 1.0])
    expected = plain.predict_cdf(X_NEW, np.floor(grid[:, 1:-1]) + 0.5)
    np.testing.assert_array_equal(cdf[:, 1:-1], expected)
    assert model.crps(*data[1]) <= plain.crps(*data[1])
