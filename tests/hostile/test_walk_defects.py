"""What random walks once found, each as its own small case."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, QuantileRegressor
from walk_inputs import BOOSTING

from localconformal import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    ForestLaw,
    LCPRegressor,
    LearnedLaw,
    LocalizedConformalRegressor,
    MADSplitRegressor,
    MondrianConformalRegressor,
    NormalisedScore,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.laws.features import FeatureEmbedding
from registry import ESTIMATORS, light, smooth_data

X, Y = smooth_data(60, seed=0)


class FlatModel(QuantileRegressor):
    """Zero everywhere, so that numbers of any size can be asked of it."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class FailsFarAway(FlatModel):
    """A model that breaks down far away only."""

    def predict(self, X):
        if np.any(np.asarray(X) > 1e6):
            raise ValueError("these rows are beyond this model.")
        return super().predict(X)


class NaNFarAway(FlatModel):
    def predict(self, X):
        return np.where(np.abs(np.asarray(X)[:, 0]) > 1e6, np.nan, 0.0)


class InfiniteModel(FlatModel):
    def predict(self, X):
        return np.full(len(X), np.inf)


class Particular(HistGradientBoostingRegressor):
    """Takes missing values, but not all of a column, as boosting of some versions does."""

    def fit(self, X, y):
        if np.isnan(np.asarray(X)).all(axis=0).any():
            raise ValueError("window shape cannot be larger\nthan input array shape")
        return super().fit(X, y)


# ---- refused in one sentence -----------------------------------------------------------------

PAIR = (LinearRegression(), LinearRegression())
LEARNED = LearnedLaw(BOOSTING, levels=(0.1, 0.5, 0.9))
NO_B = pd.DataFrame({"a": X[:, 0], "b": np.nan})
#: Words -> an estimator, rows and responses that it refuses with them.
REFUSED = {
    "a pair of models": (SLCPRegressor(PAIR), X, Y, "has no predict; one regression model"),
    "no spread": (MADSplitRegressor(PAIR[0], spread_estimator=3), X, Y, "has no predict"),
    "spread by name": (MADSplitRegressor(PAIR[0], spread_estimator="m"), X, Y, "has no predict"),
    "no kernel": (LCPRegressor(PAIR[0], law=LEARNED), X, Y, "no kernel between two rows"),
    "infinite": (MondrianConformalRegressor(InfiniteModel()), X, Y, "predicts NaN or infinite"),
    "beyond floats": (light(SplitConformalRegressor), X, [10**400] * 60, "as large as inf"),
    "empty column of an array": (
        SplitConformalRegressor(Particular()),
        NO_B.to_numpy(),
        Y,
        r"^Particular .* the columns 1 have no .*; leave them out",
    ),
    "empty column of a frame": (
        SLCPRegressor(Particular(), law="kernel"),
        NO_B,
        Y,
        r"^Particular .* the columns 'b' have no .*; leave them out",
    ),
    **{
        f"quantiles {given!r}": (
            light(ConformalizedQuantileRegressor, quantiles=given),
            X,
            Y,
            "a pair of levels",
        )
        for given in ("a", ("a", "b"), 0.5, (0.1, None), (np.nan, 0.9))
    },
    **{
        f"groups {position} of {make.__module__}": (
            MondrianConformalRegressor(PAIR[0], groups=position),
            make(X),
            Y,
            f"groups is column {position}; X has 2 columns",
        )
        for make in (np.asarray, pd.DataFrame, pl.DataFrame)
        for position in (2, -3)
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_in_one_sentence(name):
    model, rows, y, words = REFUSED[name]
    with pytest.raises(ValueError, match=words) as refused:
        model.fit(rows, y)
    assert "\n" not in str(refused.value)


@pytest.mark.filterwarnings("ignore:Some intervals are infinite")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_every_estimator_refuses_numbers_and_levels_out_of_range(cls):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"as large as 1e\+300; at most 1e\+150"):
            light(cls).fit(X, np.where(np.arange(60) == 3, -1e300, Y))
    with pytest.raises(ValueError, match="predicts NaN or infinite values"):
        light(cls, estimator=NaNFarAway()).fit(X, Y).predict(np.full((1, 2), 1e9))
    model = light(cls).fit(X[:40], Y[:40])
    before = model.predict_interval(X, 0.5)
    for level in (np.nan, 1.5, "high"):
        model.set_params(confidence_level=level)
        with pytest.raises(ValueError, match=r"confidence_level is .* a number inside \(0, 1\)"):
            model.conformalize(X[40:], Y[40:])
        np.testing.assert_array_equal(model.predict_interval(X, 0.5), before)


def test_a_calibration_that_fails_within_fit_leaves_no_model():
    model = SplitConformalRegressor(FailsFarAway(), random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="beyond this model"):
        model.fit(np.full_like(X, 1e7), Y)
    for ask in (model.predict, model.predict_interval):
        with pytest.raises(NotFittedError):
            ask(X)


# ---- answered --------------------------------------------------------------------------------


def test_truth_values_are_numbers_for_every_model():
    model = light(ConformalizedQuantileRegressor)
    as_numbers = model.fit((X > 0).astype(float), Y).predict_interval((X > 0).astype(float))
    np.testing.assert_array_equal(model.fit(X > 0, Y).predict_interval(X > 0), as_numbers)


def test_the_largest_numbers_have_finite_points():
    for seed in range(3):
        largest = np.finfo(float).max * np.random.default_rng(seed).uniform(-1, 1, size=(30, 2))
        for rows in (largest, 1e-300 * largest, np.sign(largest)):
            assert np.all(np.isfinite(FeatureEmbedding().fit(rows).transform(largest)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_intervals_among_the_largest_numbers():
    far = np.full((2, 2), np.finfo(float).max / 4)
    for cls in ESTIMATORS:
        lower, upper = light(cls, estimator=FlatModel()).fit(X, Y).predict_interval(far).T
        assert np.all(lower <= upper), cls
    # A line's predictions are then large too, beside tiny responses.
    law = ForestLaw(RandomForestRegressor(5), random_state=0, n_jobs=1)
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, 1e-140 * Y)
    lower, upper = model.predict_interval([[1e200, 0.0]])[0]
    assert lower <= upper


@pytest.mark.parametrize("adjustment", ["theta", "multiplicative", "multiplicative-expectation"])
def test_scores_beyond_float64_in_local_units_give_infinite_bounds_and_a_word(adjustment):
    model = light(LocalizedConformalRegressor, estimator=FlatModel(), law="kernel")
    model.set_params(adjustment=adjustment, calibration_size=None).fit(X, 1e-170 * Y)
    model.conformalize(X + 0.5, 1e149 * Y)
    with pytest.warns(UserWarning, match="the adjusted calibration scores are themselves"):
        assert np.all(np.isinf(model.predict_interval(X)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("cls", [MADSplitRegressor, LocalizedConformalRegressor, CDSplitRegressor])
def test_a_calibration_score_beyond_float64_counts_as_infinite(cls, sign):
    """It is larger than all others, so that it moves no bound until its own rank is asked for."""
    own = {"spread_estimator": FlatModel(), "beta": 0.0}
    if cls is not MADSplitRegressor:
        own = {"score": NormalisedScore(**own), "law": "uniform"}
    model = cls(FlatModel(), random_state=0, calibration_size=None, **own)
    # A spread of 0 is the smallest number there is; half of the scores are 1e2 / 1e-308.
    model.fit(X, np.zeros(60))
    wrong = np.where(np.arange(60) < 3, sign * 1e2, np.sign(Y) * 1e-308)
    finite = np.where(np.arange(60) < 3, sign * 1e-300, wrong)
    expected = model.conformalize(X, finite).predict_interval(X, 0.9)
    assert np.all(np.isfinite(expected))
    model.conformalize(X, wrong)
    np.testing.assert_array_equal(model.predict_interval(X, 0.9), expected)
    with pytest.warns(UserWarning, match="intervals are infinite"):
        assert np.all(np.isinf(model.predict_interval(X, 0.97)))
