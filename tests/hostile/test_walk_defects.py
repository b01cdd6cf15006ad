"""What random walks once found, each as its own small case."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, QuantileRegressor

import localconformal as lc
from registry import ESTIMATORS, light, smooth_data

X, Y = smooth_data(60, seed=0)
LINE = LinearRegression()


class Flat(QuantileRegressor):
    """Zero everywhere, or another value far away, so that numbers of any size can be asked."""

    def __init__(self, far=0.0, quantile=0.5):
        super().__init__(quantile=quantile)
        self.far = far

    def fit(self, X, y):
        return self

    def predict(self, X):
        away = np.abs(np.asarray(X)).max(axis=1) > 1e6
        return np.where(away, self.far, 0.0).astype(float)


@pytest.mark.filterwarnings("ignore:Some intervals are infinite")
def test_every_estimator_refuses_numbers_and_levels_out_of_range(estimator_class):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(ValueError, match=r"as large as 1e\+300; expected at most 1e\+150"):
            light(estimator_class).fit(X, np.where(np.arange(60) == 3, -1e300, Y))
    for far in (np.nan, np.inf):
        model = light(estimator_class, estimator=Flat(far)).fit(X, Y)
        with pytest.raises(ValueError, match="predicts NaN or infinite values"):
            model.predict(np.full((1, 2), 1e9))
    model = light(estimator_class).fit(X[:40], Y[:40])
    before = model.predict_interval(X, 0.5)
    for level in (np.nan, 1.5, "high"):
        model.set_params(confidence_level=level)
        with pytest.raises(ValueError, match=r"confidence_level=.* a number inside \(0, 1\)"):
            model.conformalize(X[40:], Y[40:])
        np.testing.assert_array_equal(model.predict_interval(X, 0.5), before)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_intervals_among_the_largest_numbers():
    far = np.full((2, 2), np.finfo(float).max / 4)
    for cls in ESTIMATORS:
        lower, upper = light(cls, estimator=Flat()).fit(X, Y).predict_interval(far).T
        assert np.all(lower <= upper), cls
    # A line's predictions are then large too, beside tiny responses.
    law = lc.ForestLaw(RandomForestRegressor(5), random_state=0, n_jobs=1)
    model = lc.SLCPRegressor(LINE, law=law, random_state=0).fit(X, 1e-140 * Y)
    lower, upper = model.predict_interval([[1e200, 0.0]])[0]
    assert lower <= upper


@pytest.mark.parametrize("adjustment", ["theta", "multiplicative", "multiplicative-expectation"])
def test_scores_beyond_float64_in_local_units_give_infinite_bounds_and_a_word(adjustment):
    model = light(lc.LocalizedConformalRegressor, estimator=Flat(), law="kernel")
    model.set_params(adjustment=adjustment, calibration_size=None).fit(X, 1e-170 * Y)
    model.conformalize(X + 0.5, 1e149 * Y)
    with pytest.warns(UserWarning, match="adjusted scores are infinite"):
        assert np.all(np.isinf(model.predict_interval(X)))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    "cls", [lc.MADSplitRegressor, lc.LocalizedConformalRegressor, lc.CDSplitRegressor]
)
def test_a_calibration_score_beyond_float64_counts_as_infinite(cls, sign):
    """It is larger than all others, so that it moves no bound until its own rank is asked for."""
    own = {"spread_estimator": Flat(), "beta": 0.0}
    if cls is not lc.MADSplitRegressor:
        own = {"conformity_score": lc.NormalisedScore(**own), "law": "uniform"}
    model = cls(Flat(), random_state=0, calibration_size=None, **own)
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
