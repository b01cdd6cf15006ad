"""The predictive distribution: few rows, what is said and what is refused."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from predictive_models import (
    LEVELS,
    X_NEW,
    calibrated,
    make,
)
from sklearn.exceptions import NotFittedError

import localconformal
from localconformal.regressors.predictive_guarantee import PredictiveGuarantee
from registry import light, smooth_data


@pytest.mark.parametrize(("n", "finite"), [(19, True), (18, False)])
def test_too_few_calibration_rows(n, finite):
    model = make().fit(*smooth_data(60, seed=0)).conformalize(*smooth_data(n, seed=1))
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
    model = make().fit(*smooth_data(60, seed=0)).conformalize(*smooth_data(1, seed=1))
    np.testing.assert_array_equal(model.predict_cdf(X_NEW, 0.0), 0.5)
    assert np.isfinite(model.predict_quantiles(X_NEW, 0.5)).all()
    assert np.isfinite(model.sample(X_NEW, 5)).all()
    assert np.isfinite(model.crps(X_NEW, np.zeros(25)))


def test_before_calibration():
    for call in ("predict_quantiles", "predict_cdf", "sample", "crps"):
        argument = {"predict_quantiles": 0.5, "sample": 1}.get(call, np.zeros(25))
        with pytest.raises(NotFittedError):
            getattr(make(), call)(X_NEW, argument)
        with pytest.raises(NotFittedError, match=r"conformalize\(X_cal, y_cal\)"):
            getattr(make().fit(*smooth_data(60, seed=0)), call)(X_NEW, argument)


def test_a_new_calibration_set_is_used():
    model = make().fit(*smooth_data(60, seed=0)).conformalize(*smooth_data(99, seed=1))
    before = model.predict_quantiles(X_NEW, LEVELS)
    model.conformalize(*smooth_data(99, seed=2))
    fresh = make().fit(*smooth_data(60, seed=0)).conformalize(*smooth_data(99, seed=2))
    after = model.predict_quantiles(X_NEW, LEVELS)
    assert not np.array_equal(before, after)
    np.testing.assert_array_equal(after, fresh.predict_quantiles(X_NEW, LEVELS))


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
    model = light(getattr(localconformal, name), **params).fit(*smooth_data(100, seed=0))
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


@pytest.mark.parametrize("levels", [0.0, 1.0, [0.5, 1.5], [], [[0.5]], "half", np.nan, None])
def test_bad_levels(levels):
    model = calibrated("law-kernel")
    with pytest.raises(ValueError, match=r"levels are .*inside \(0, 1\)"):
        model.predict_quantiles(X_NEW, levels)


@pytest.mark.parametrize(
    ("y", "told"),
    [
        (np.full(25, np.nan), "NaN or infinity"),
        (np.inf, "NaN or infinity"),
        (["a"] * 25, "finite numbers"),
        (np.zeros(24), r"\(24,\) and X has 25 rows"),
        (np.zeros((25, 2, 2)), r"\(25, k\) was expected"),
    ],
)
def test_bad_responses(y, told):
    with pytest.raises(ValueError, match=told):
        calibrated("law-kernel").predict_cdf(X_NEW, y)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "many"])
def test_bad_sample_sizes(n_samples):
    with pytest.raises(ValueError, match=r"n_samples is .*whole number"):
        calibrated("law-kernel").sample(X_NEW, n_samples)


def test_bad_rows_for_crps():
    model = calibrated("law-kernel")
    with pytest.raises(ValueError, match="inconsistent numbers"):
        model.crps(X_NEW, np.zeros(3))
    with pytest.raises(ValueError, match="contains NaN"):
        model.crps(X_NEW, np.full(25, np.nan))


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


def test_the_promise_in_words_and_fields():
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


def test_the_guarantee_speaks_of_the_distribution():
    model = calibrated("law-kernel")
    assert model.guarantee_.predictive == PredictiveGuarantee(99)
    assert str(model.guarantee_.predictive) in str(model.guarantee_)
    split = light(localconformal.SplitConformalRegressor).fit(*smooth_data(100, seed=0))
    assert split.guarantee_.predictive is None
    assert make().fit(*smooth_data(60, seed=0)).guarantee_.predictive.tolerance is None


def test_pickle():
    model = make().fit(*smooth_data(60, seed=0)).conformalize(*smooth_data(99, seed=1))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        loaded.predict_quantiles(X_NEW, LEVELS), model.predict_quantiles(X_NEW, LEVELS)
    )
