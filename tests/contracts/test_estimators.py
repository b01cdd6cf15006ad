"""What every estimator keeps, by being registered."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from registry import ESTIMATORS, KINDS, NOT_VALID, awkward_data, ci_but, light, smooth_data


@parametrize_with_checks([light(cls) for cls in KINDS])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.ci
@parametrize_with_checks([light(cls) for cls in ESTIMATORS if cls not in KINDS])
def test_scikit_learn_contract_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.ci
@parametrize_with_checks([cls() for cls in KINDS])
def test_scikit_learn_contract_without_arguments(estimator, check):
    check(estimator)


@functools.cache
def fitted_once(estimator_class):
    return light(estimator_class).fit(*awkward_data(300, seed=0))


@pytest.fixture
def fitted(estimator_class):
    return copy.deepcopy(fitted_once(estimator_class))


def assert_same(actual, expected):
    """Equal up to the last bits of a linear model's matrix product, which depend on the batch."""
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)


X_NEW = awkward_data(40, seed=9)[0]


def test_shapes_order_and_nested_levels(fitted):
    one, levels = fitted.predict_interval(X_NEW), [0.8, 0.2, 0.95, 0.5]
    several = fitted.predict_interval(X_NEW, confidence_level=levels)
    assert (one.shape, several.shape) == ((40, 2), (40, 2, 4))
    assert (one[:, 0] <= one[:, 1]).all()
    lower, upper = several[:, :, np.argsort(levels)].swapaxes(0, 1)
    assert (lower[:, 1:] <= lower[:, :-1]).all()
    assert (upper[:, 1:] >= upper[:, :-1]).all()
    # The lowest level has no lower one to enclose.
    alone = fitted.predict_interval(X_NEW, confidence_level=[0.2])
    np.testing.assert_array_equal(several[:, :, [1]], alone)
    # Asking other levels first changes nothing, and alpha is the complement.
    np.testing.assert_array_equal(one, fitted.predict_interval(X_NEW))
    complement = fitted.predict_interval(X_NEW, alpha=[0.2, 0.8, 0.05, 0.5])
    np.testing.assert_allclose(complement, several)


@pytest.mark.parametrize("size", ci_but([1e150], [1e39, 1e150]))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_values_beyond_single_precision(fitted, size):
    lower, upper = fitted.predict_interval(np.full((1, 2), size))[0]
    assert lower <= upper


def test_one_by_one_equals_batch_and_order_is_kept(fitted):
    batch = fitted.predict_interval(X_NEW, confidence_level=[0.6, 0.9])
    single = [fitted.predict_interval(row[None], confidence_level=[0.6, 0.9]) for row in X_NEW]
    assert_same(batch, np.concatenate(single))
    permutation = np.random.default_rng(0).permutation(len(X_NEW))
    permuted = fitted.predict_interval(X_NEW[permutation], confidence_level=[0.6, 0.9])
    assert_same(batch[permutation], permuted)


@pytest.mark.parametrize("units", ci_but([(4.0, 8.0)], [(4.0, 8.0), (0.25, 0.0), (1e3, 0.0)]))
def test_equivariance_in_y(estimator_class, units):
    scale, shift = units
    X, y = smooth_data(300, seed=2)
    plain = light(estimator_class).fit(X, y).predict_interval(X_NEW)
    moved = light(estimator_class).fit(X, scale * y + shift).predict_interval(X_NEW)
    np.testing.assert_allclose(moved, scale * plain + shift, rtol=1e-5, atol=1e-6 * scale)


def test_calibration_order_does_not_matter(estimator_class):
    X, y = awkward_data(200, seed=3)
    X_cal, y_cal = awkward_data(60, seed=4)
    model = light(estimator_class, calibration_size=None).fit(X, y)
    before = model.conformalize(X_cal, y_cal).predict_interval(X_NEW)
    after = model.conformalize(X_cal[::-1], y_cal[::-1]).predict_interval(X_NEW)
    assert_same(before, after)


def test_files_clones_and_equal_seeds_give_the_same_and_nothing_else_is_touched(fitted, tmp_path):
    before = fitted.predict_interval(X_NEW)
    joblib.dump(fitted, tmp_path / "model.joblib")
    for copied in (pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(before, copied.predict_interval(X_NEW))
    # Neither the global seed nor filters, error states or inputs.
    state, filters, errors = np.random.get_state()[1].copy(), [*warnings.filters], np.geterr()
    X, y = awkward_data(300, seed=0)
    np.testing.assert_array_equal(before, clone(fitted).fit(X, y).predict_interval(X_NEW))
    assert (state == np.random.get_state()[1]).all()
    assert (filters, errors) == (warnings.filters, np.geterr())
    for changed, given in zip((X, y), awkward_data(300, seed=0), strict=True):
        np.testing.assert_array_equal(changed, given)
    assert clone(fitted).set_params(confidence_level=0.5).confidence_level == 0.5


@pytest.mark.parametrize("estimator_class", ci_but(KINDS, ESTIMATORS))
def test_model_selection(estimator_class):
    X, y = smooth_data(150, seed=5)
    model = light(estimator_class)
    assert cross_val_score(model, X, y, cv=3).shape == (3,)
    search = GridSearchCV(model, {"confidence_level": [0.8, 0.9]}, cv=2).fit(X, y)
    assert search.predict(X).shape == (150,)
    assert search.best_estimator_.predict_interval(X).shape == (150, 2)


@pytest.mark.parametrize("make", ci_but([pd.DataFrame], [pd.DataFrame, pl.DataFrame]))
def test_frames(estimator_class, make):
    X, y = smooth_data(200, seed=6)
    names = {"columns" if make is pd.DataFrame else "schema": ["a", "b"]}
    model, new = light(estimator_class).fit(make(X, **names), y), make(X_NEW, **names)
    if make is pd.DataFrame:
        new.index = np.arange(40) * 7
    arrays = light(estimator_class).fit(X, y)
    assert_same(model.predict_interval(new), arrays.predict_interval(X_NEW))
    several = model.predict_interval(new, confidence_level=[0.5, 0.9], output="frame")
    assert list(several.columns) == ["lower_0.5", "upper_0.5", "lower_0.9", "upper_0.9"]
    single = model.predict_interval(new, output="frame")
    assert list(single.columns) == ["lower", "upper"]
    for frame in (several, single, model.diagnose(new)):
        assert type(frame) is make
        assert make is pl.DataFrame or (frame.index == new.index).all()


def test_diagnose(fitted):
    frame = fitted.diagnose(X_NEW)
    # Those in the middle are left out where a terminal is narrow.
    known = ["local_lower", "local_upper", "fallback", "crossed", "infinite", "point_outside"]
    widths = ["width_noise", "width"]
    assert list(frame.columns) == [*known, "correction", *widths, "effective_sample_size"]
    assert len(frame) == 40
    assert not frame.isna().any(axis=None)
    assert (frame["effective_sample_size"] >= 1).all()


def test_guarantee_and_report(fitted):
    promise, report = fitted.guarantee_, fitted.fit_report_
    assert promise.marginal == promise.finite_sample == (type(fitted).__name__ not in NOT_VALID)
    assert ("0.9" if promise.marginal else "No coverage level") in str(promise)
    assert promise.n_calibration == report["rows"]["calibration"] == 75
    assert report["rows"]["train"] == 225
    assert all(seconds >= 0 for seconds in report["seconds"].values())


def test_prediction_before_calibration_names_the_call(estimator_class):
    with pytest.raises(NotFittedError):
        light(estimator_class).predict_interval(X_NEW)
    model = light(estimator_class, calibration_size=None).fit(*awkward_data(100, seed=0))
    assert model.predict(X_NEW).shape == (40,)
    assert model.guarantee_.n_calibration is None
    with pytest.raises(NotFittedError, match=r"conformalize\(X_cal, y_cal\)"):
        model.predict_interval(X_NEW)


def test_failed_conformalize_keeps_the_previous_calibration(fitted):
    before = fitted.predict_interval(X_NEW)
    X_cal, y_cal = awkward_data(50, seed=8)
    y_cal[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        fitted.conformalize(X_cal, y_cal)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        fitted.conformalize(X_cal, y_cal[4:])
    np.testing.assert_array_equal(before, fitted.predict_interval(X_NEW))


def test_seen_rows_are_noticed(estimator_class):
    (X, y), (X_new, y_new) = smooth_data(100, seed=0), smooth_data(20, seed=1)
    model = light(estimator_class, calibration_size=None).fit(X, y)
    with pytest.warns(UserWarning, match="10 of 30 calibration rows are identical"):
        model.conformalize(np.vstack([X[:10], X_new]), np.append(y[:10], y_new))
