"""The predictive distribution: inverses, symmetry, samples, what is said and what is refused."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

import localconformal
from localconformal import KernelLaw, NeighborsLaw, UniformLaw
from localconformal.metrics.crps import crps
from localconformal.regressors.distribution import outward_ranks
from localconformal.regressors.predictive_guarantee import PredictiveGuarantee
from predictive_models import LAW, VARIANTS, discrete_data, make
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


# ---- laws of one distribution --------------------------------------------------------------


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
    quantiles, cdf = model.predict_quantiles(X_NEW, LEVELS), model.predict_cdf(X_NEW, y)
    alone = [model.predict_quantiles(row[None], LEVELS) for row in X_NEW]
    # The last bits of a linear model's matrix product depend on the batch.
    np.testing.assert_allclose(np.concatenate(alone), quantiles, rtol=1e-12, atol=1e-12)
    alone = [model.predict_cdf(row[None], y[i : i + 1]) for i, row in enumerate(X_NEW)]
    np.testing.assert_array_equal(np.concatenate(alone), cdf)


def test_a_new_calibration_set_is_used_and_its_order_is_not(variant):
    model, (X, y) = fit(**VARIANTS[variant]), smooth_data(99, seed=2)
    before = model.predict_quantiles(X_NEW, LEVELS)
    after = model.conformalize(X, y).predict_quantiles(X_NEW, LEVELS)
    assert not np.array_equal(before, after)
    again = model.conformalize(X[::-1], y[::-1]).predict_quantiles(X_NEW, LEVELS)
    np.testing.assert_allclose(again, after, rtol=1e-12, atol=1e-12)
    again = model.conformalize(*CAL).predict_quantiles(X_NEW, LEVELS)
    np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize(("scale", "shift"), [(4.0, 0.0), (0.25, 8.0), (1e3, 0.0)])
@pytest.mark.parametrize("moved", ["law-kernel", "neighbors-3", "normalised", "no-law", "quantile"])
def test_equivariance_in_y(moved, scale, shift):
    train, cal = ((X, scale * y + shift) for X, y in (TRAIN, CAL))
    np.testing.assert_allclose(
        fit(train, cal, **VARIANTS[moved]).predict_quantiles(X_NEW, LEVELS),
        scale * calibrated(moved).predict_quantiles(X_NEW, LEVELS) + shift,
        rtol=1e-5,
        atol=1e-6 * scale,
    )


@pytest.mark.parametrize("law", [LAW, NeighborsLaw(5), UniformLaw()], ids=str)
def test_turning_the_sign_of_y_turns_the_distribution(law):
    turned = fit((TRAIN[0], -TRAIN[1]), (CAL[0], -CAL[1]), law=law)
    levels = LEVELS[LEVELS != 0.5]
    np.testing.assert_allclose(
        turned.predict_quantiles(X_NEW, 1.0 - levels),
        -fit(law=law).predict_quantiles(X_NEW, levels),
        rtol=1e-9,
        atol=1e-9,
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


def test_discrete_responses_are_not_lost_by_rounding():
    X, y = discrete_data(99, seed=3)
    y = y / 10.0
    model = fit(discrete_data(60, seed=0), (X, y), score="response", adjustment="plain")
    q = model.predict_quantiles(X, [0.05, 0.95])
    assert np.sum(y < q[:, 0]) <= 5
    assert np.sum(y > q[:, 1]) <= 5
    assert np.isin(np.round(q / 0.05), np.round(y / 0.05)).all()


def test_the_distribution_adapts_to_x():
    law = KernelLaw(bandwidth=0.2)
    model = fit(smooth_data(2_000, seed=0), smooth_data(999, seed=1), law=law)
    q = model.predict_quantiles([[0.0, 0.0], [1.5, 0.0]], [0.05, 0.95, 0.995])
    # The kernel smooths the scale over its bandwidth: somewhat more than 0.2, less than 1.7.
    ratio = (q - [[0.0], [1.5]]) / (np.array([[0.2], [1.7]]) * norm.ppf([0.05, 0.95, 0.995]))
    assert np.all(ratio[0] > 1.0)
    assert np.all(ratio[0, :2] < 2.5)
    assert np.all((ratio[1] > 0.6) & (ratio[1] < 1.4))


# ---- samples and CRPS ----------------------------------------------------------------------


def test_samples_follow_the_cdf(variant):
    model = calibrated(variant)
    draws = model.sample(X_NEW[:3], 3_000, random_state=0)
    assert draws.shape == (3, 3_000)
    assert np.all(np.isfinite(draws))
    grid = np.linspace(-4.0, 4.0, 81)
    drawn = (draws[:, :, None] <= grid).mean(axis=1)
    cdf = model.predict_cdf(X_NEW[:3], np.tile(grid, (3, 1)))
    # One step at either end is put at the outermost quantile.
    assert np.abs(drawn - cdf).max() <= 1 / 100 + 2.2 / np.sqrt(3_000)


def test_samples_are_seeded_and_independent_between_rows(kernel):
    first = kernel.sample(X_NEW, 50, random_state=3)
    np.testing.assert_array_equal(first, kernel.sample(X_NEW, 50, random_state=3))
    assert not np.array_equal(first, kernel.sample(X_NEW, 50, random_state=4))
    twins = kernel.sample(np.zeros((2, 2)), 50, random_state=3)
    assert not np.array_equal(twins[0], twins[1])
    assert kernel.sample(X_NEW).shape == (25, 1)


def test_crps_is_that_of_the_quantiles_and_of_samples(variant, monkeypatch):
    model, (X, y) = calibrated(variant), smooth_data(80, seed=5)
    score = model.crps(X, y)
    assert isinstance(score, float)
    draws = model.sample(X, 1_000, random_state=0)
    assert score == pytest.approx(crps(y, draws), rel=0.03)
    monkeypatch.setattr("localconformal.regressors.predictive.CRPS_ROWS", 7)
    assert model.crps(X, y) == pytest.approx(score, rel=1e-12)


def test_crps_prefers_the_law_that_localizes():
    X, y = smooth_data(2_000, seed=0)
    X_new, y_new = smooth_data(2_000, seed=5)
    local, none = (
        make(law=KernelLaw(bandwidth=0.2), calibration_size=0.25, adjustment=adjustment)
        .fit(X, y)
        .crps(X_new, y_new)
        for adjustment in ("additive", "plain")
    )
    oracle = np.mean(0.2 + np.abs(X_new[:, 0])) / np.sqrt(np.pi)
    assert 0.97 * oracle < local < 0.97 * none


# ---- few rows ------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "finite"), [(19, True), (18, False)])
def test_too_few_calibration_rows(n, finite):
    model = fit(cal=smooth_data(n, seed=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        q = model.predict_quantiles(X_NEW, [0.05, 0.5, 0.95])
    assert np.isfinite(q[:, 1]).all()
    expected = [np.isfinite(q[:, 0]).all(), np.isfinite(q[:, 2]).all()]
    assert expected == [finite, finite]
    assert finite or (np.all(q[:, 0] == -np.inf) and np.all(q[:, 2] == np.inf))
    told = [str(w.message) for w in caught]
    assert len(told) == (0 if finite else 1)
    assert finite or "18 calibration rows came and level 0.05 needs at least 19" in told[0]


def test_one_calibration_row():
    model = fit(cal=smooth_data(1, seed=1))
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, 0.0), 0.5)
    assert np.isfinite(model.predict_quantiles(X_NEW, 0.5)).all()
    assert np.isfinite(model.sample(X_NEW, 5)).all()
    assert np.isfinite(model.crps(X_NEW, np.zeros(25)))


def test_before_calibration():
    fitted = make().fit(*TRAIN)
    for call in ("predict_quantiles", "predict_cdf", "sample", "crps"):
        argument = {"predict_quantiles": 0.5, "sample": 1}.get(call, np.zeros(25))
        with pytest.raises(NotFittedError):
            getattr(make(), call)(X_NEW, argument)
        with pytest.raises(NotFittedError, match=r"conformalize\(X_cal, y_cal\)"):
            getattr(fitted, call)(X_NEW, argument)


# ---- who has a distribution, and what is promised --------------------------------------------


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("SplitConformalRegressor", {}),
        ("MADSplitRegressor", {}),
        ("MondrianConformalRegressor", {}),
        ("ConformalizedQuantileRegressor", {}),
        ("SLCPRegressor", {"sides": "absolute"}),
        ("SLCPRegressor", {"score": "absolute"}),
    ],
)
def test_errors_without_sign_have_no_distribution(name, params):
    model = light(getattr(localconformal, name), **params).fit(*TRAIN)
    assert model.guarantee_.predictive is None
    for call, argument in (("predict_quantiles", 0.5), ("predict_cdf", 0.0), ("sample", 1)):
        with pytest.raises(ValueError, match=r"without the sign.*score other than 'absolute'"):
            getattr(model, call)(X_NEW, argument)


@pytest.mark.parametrize(
    ("name", "params"),
    [("ConformalizedQuantileRegressor", {"method": "asymmetric"}), ("DistSplitRegressor", {})],
)
def test_other_estimators_have_one(name, params):
    model = light(getattr(localconformal, name), **params).fit(*smooth_data(400, seed=0))
    q = model.predict_quantiles(X_NEW, LEVELS)
    assert np.all(np.diff(q, axis=1) >= 0)
    assert np.isfinite(q).all()


def test_the_promise_in_words_and_fields(kernel):
    promise = PredictiveGuarantee(n_calibration=99)
    assert promise.marginal
    assert promise.finite_sample
    assert not promise.conditional
    assert promise.tolerance == 0.01
    assert promise.finite_levels == (0.01, 0.99)
    assert "0.01" in str(promise)
    assert "at a given x nothing is promised" in str(promise)
    assert PredictiveGuarantee(None).finite_levels is None
    assert "1 / (n + 1)" in str(PredictiveGuarantee(None))
    assert kernel.guarantee_.predictive == promise
    assert str(promise) in str(kernel.guarantee_)
    assert make().fit(*TRAIN).guarantee_.predictive.tolerance is None


# ---- what comes in -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "argument", "told"),
    [
        *(
            ("predict_quantiles", bad, r"levels are .*inside \(0, 1\)")
            for bad in (0.0, 1.0, [0.5, 1.5], [], [[0.5]], "half", np.nan, None)
        ),
        ("predict_cdf", np.full(25, np.nan), "NaN or infinity"),
        ("predict_cdf", np.inf, "NaN or infinity"),
        ("predict_cdf", ["a"] * 25, "finite numbers"),
        ("predict_cdf", np.zeros(24), r"\(24,\) and X has 25 rows"),
        ("predict_cdf", np.zeros((25, 2, 2)), r"\(25, k\) was expected"),
        *(("sample", bad, r"n_samples is .*whole number") for bad in (0, -1, 2.5, "many")),
        ("crps", np.zeros(3), "inconsistent numbers"),
        ("crps", np.full(25, np.nan), "contains NaN"),
    ],
)
def test_bad_levels_responses_and_sizes(kernel, call, argument, told):
    with pytest.raises(ValueError, match=told):
        getattr(kernel, call)(X_NEW, argument)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames(kind):
    def frame(X):
        return kind({"a": X[:, 0], "b": X[:, 1]})

    X, y = smooth_data(300, seed=0)
    arrays = make(calibration_size=0.25).fit(X, y)
    frames = make(calibration_size=0.25).fit(frame(X), y)
    new, at = frame(X_NEW), (pd if kind is pd.DataFrame else pl).Series(np.zeros(25))
    for got, expected in (
        (frames.predict_quantiles(new, LEVELS), arrays.predict_quantiles(X_NEW, LEVELS)),
        (frames.predict_cdf(new, at), arrays.predict_cdf(X_NEW, 0.0)),
        (frames.sample(new, 3, random_state=0), arrays.sample(X_NEW, 3, random_state=0)),
        (frames.crps(new, at), arrays.crps(X_NEW, np.zeros(25))),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match=r"columns|feature names"):
        frames.predict_cdf(kind({"a": X_NEW[:, 0], "c": X_NEW[:, 1]}), 0.0)
