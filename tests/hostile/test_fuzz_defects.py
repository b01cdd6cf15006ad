"""What random walks once found, each as its own small case."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from fuzz_inputs import BOOSTING
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    ForestLaw,
    LCPRegressor,
    LearnedLaw,
    LocalizedConformalRegressor,
    MADSplitRegressor,
    MondrianConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.laws.features import FeatureEmbedding
from localconformal.scores import NormalisedScore
from registry import light, smooth_data


class FailsAtLast:
    """A fitted model that breaks down at calibration rows only."""

    def predict(self, X):
        if np.any(np.asarray(X) > 1e6):
            raise ValueError("these rows are beyond this model.")
        return np.zeros(len(X))


def test_a_calibration_that_fails_within_fit_leaves_no_model():
    X, y = smooth_data(40, seed=0)
    model = SplitConformalRegressor(FailsAtLast(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="beyond this model"):
        model.fit(np.full_like(X, 1e7), y)
    for ask in (model.predict, model.predict_interval):
        with pytest.raises(NotFittedError):
            ask(X)


def test_responses_that_cannot_be_squared_are_refused(estimator_class):
    X, y = smooth_data(40, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"as large as 1e\+300; at most 1e\+150"):
            light(estimator_class).fit(X, np.where(np.arange(40) == 3, -1e300, y))


def test_truth_values_are_numbers_for_every_model():
    X, y = smooth_data(60, seed=0)
    model = ConformalizedQuantileRegressor(QuantileRegressor(alpha=0), random_state=0)
    as_numbers = model.fit((X > 0).astype(float), y).predict_interval((X > 0).astype(float))
    np.testing.assert_array_equal(model.fit(X > 0, y).predict_interval(X > 0), as_numbers)


@pytest.mark.parametrize("seed", range(3))
def test_the_largest_numbers_have_finite_points(seed):
    X = np.finfo(float).max * np.random.default_rng(seed).uniform(-1, 1, size=(30, 2))
    for rows, queries in [(X, X), (1e-300 * X, X), (np.sign(X), X)]:
        assert np.all(np.isfinite(FeatureEmbedding().fit(rows).transform(queries)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_intervals_among_the_largest_numbers(estimator_class):
    X, y = smooth_data(60, seed=1)
    far = np.full((2, 2), np.finfo(float).max / 4)
    model = light(estimator_class, estimator=FlatModel()).fit(X, y)
    intervals = model.predict_interval(far)
    assert np.all(intervals[:, 0] <= intervals[:, 1])


class FlatModel(QuantileRegressor):
    """Zero everywhere, so that numbers of any size can be asked of it."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_a_point_prediction_that_is_no_number_is_refused(estimator_class):
    X, y = smooth_data(60, seed=2)
    model = light(estimator_class, estimator=NaNFarAway()).fit(X, y)
    with pytest.raises(ValueError, match="predicts NaN or infinite values"):
        model.predict(np.full((1, 2), 1e9))


class NaNFarAway(FlatModel):
    """No number for rows far away."""

    def predict(self, X):
        return np.where(np.abs(np.asarray(X)[:, 0]) > 1e6, np.nan, 0.0)


@pytest.mark.parametrize("level", [np.nan, 1.5, "high"])
def test_conformalize_refuses_a_level_that_was_set_since(estimator_class, level):
    X, y = smooth_data(60, seed=4)
    model = light(estimator_class).fit(X[:40], y[:40])
    before = model.predict_interval(X, 0.5)
    model.set_params(confidence_level=level)
    with pytest.raises(ValueError, match=r"confidence_level is .* a number inside \(0, 1\)"):
        model.conformalize(X[40:], y[40:])
    np.testing.assert_array_equal(model.predict_interval(X, 0.5), before)


@pytest.mark.parametrize("quantiles", ["a", ("a", "b"), 0.5, (0.1, None), (np.nan, 0.9)])
def test_quantiles_that_are_no_pair_of_levels_are_refused_in_a_sentence(quantiles):
    model = ConformalizedQuantileRegressor(QuantileRegressor(alpha=0), quantiles=quantiles)
    with pytest.raises(ValueError, match="a pair of levels"):
        model.fit(*smooth_data(40, seed=0))


@pytest.mark.parametrize("spread", [3, "model"])
def test_a_spread_estimator_that_cannot_predict_is_refused(spread):
    with pytest.raises(ValueError, match="has no predict"):
        MADSplitRegressor(LinearRegression(), spread_estimator=spread).fit(*smooth_data(40, seed=0))


def test_a_message_that_shows_a_model_stays_in_one_line():
    model = LCPRegressor(LinearRegression(), law=LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9)))
    with pytest.raises(ValueError, match="no kernel between two rows") as refused:
        model.fit(*smooth_data(40, seed=0))
    assert "\n" not in str(refused.value)


def test_predictions_among_the_largest_numbers_have_finite_points():
    X, y = smooth_data(60, seed=3)
    law = ForestLaw(RandomForestRegressor(5), random_state=0, n_jobs=1)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, 1e-140 * y)
    far = np.array([[1e200, 0.0]])
    lower, upper = model.predict_interval(far)[0]
    assert lower <= upper


@pytest.mark.parametrize("adjustment", ["theta", "multiplicative", "multiplicative-expectation"])
def test_scores_beyond_float64_in_local_units_give_infinite_bounds_and_a_word(adjustment):
    X, y = smooth_data(80, seed=5)
    model = LocalizedConformalRegressor(
        FlatModel(), law="kernel", adjustment=adjustment, calibration_size=None, random_state=0
    ).fit(X, 1e-170 * y)
    model.conformalize(X + 0.5, 1e149 * y)
    with pytest.warns(UserWarning, match="the adjusted calibration scores are themselves"):
        intervals = model.predict_interval(X)
    assert np.all(np.isinf(intervals))


def test_a_pair_of_models_where_one_is_expected_is_refused():
    pair = (LinearRegression(), LinearRegression())
    with pytest.raises(ValueError, match="has no predict; one regression model"):
        SLCPRegressor(pair, law="kernel").fit(*smooth_data(40, seed=0))


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("position", [2, -3])
def test_groups_in_a_column_that_is_not_there_are_refused(make, position):
    X, y = smooth_data(40, seed=0)
    model = MondrianConformalRegressor(LinearRegression(), groups=position, random_state=0)
    with pytest.raises(ValueError, match=f"groups is column {position}; X has 2 columns"):
        model.fit(make(X), y)


def test_groups_by_prediction_need_predictions():
    X, y = smooth_data(40, seed=0)
    with pytest.raises(ValueError, match="predicts NaN or infinite values"):
        MondrianConformalRegressor(InfiniteModel(), random_state=0).fit(X, y)


class InfiniteModel(FlatModel):
    """Beyond all numbers."""

    def predict(self, X):
        return np.full(len(X), np.inf)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("cls", [MADSplitRegressor, LocalizedConformalRegressor, CDSplitRegressor])
def test_a_calibration_score_beyond_float64_counts_as_infinite(cls, sign):
    """It is larger than all others, so that it moves no bound until its own rank is asked for."""
    X, y = smooth_data(60, seed=6)
    own = {"spread_estimator": FlatModel(), "beta": 0.0}
    if cls is not MADSplitRegressor:
        own = {"score": NormalisedScore(**own), "law": "uniform"}
    model = cls(FlatModel(), random_state=0, calibration_size=None, **own)
    # A spread of 0 is the smallest number there is; half of the scores are 1e2 / 1e-308.
    model.fit(X, np.zeros(60))
    wrong = np.where(np.arange(60) < 3, sign * 1e2, np.sign(y) * 1e-308)
    finite = np.where(np.arange(60) < 3, sign * 1e-300, wrong)
    model.conformalize(X, finite)
    expected = model.predict_interval(X, 0.9)
    assert np.all(np.isfinite(expected))
    model.conformalize(X, wrong)
    np.testing.assert_array_equal(model.predict_interval(X, 0.9), expected)
    with pytest.warns(UserWarning, match="intervals are infinite"):
        assert np.all(np.isinf(model.predict_interval(X, 0.97)))


class Particular(HistGradientBoostingRegressor):
    """Takes missing values, but not all of a column, as boosting of some versions does."""

    def fit(self, X, y):
        if np.isnan(np.asarray(X)).all(axis=0).any():
            raise ValueError("window shape cannot be larger\nthan input array shape")
        return super().fit(X, y)


def test_a_column_without_known_values_is_named():
    X, y = smooth_data(200, seed=0)
    X[:, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"^Particular .* the columns 1 have no .*; leave them out"
    ):
        SplitConformalRegressor(Particular(), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^Particular .* the columns 'b' have no .*; leave them"):
        SLCPRegressor(Particular(), law="kernel").fit(pd.DataFrame(X, columns=["a", "b"]), y)


def test_whole_numbers_beyond_floats_are_told():
    X, _ = smooth_data(50, seed=0)
    with pytest.raises(ValueError, match="values as large as inf"):
        SplitConformalRegressor(LinearRegression()).fit(X, [10**400] * 50)
