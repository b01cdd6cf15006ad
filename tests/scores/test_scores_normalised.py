"""The normalised residual: its spread learns from rows the mean has not seen."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from localconformal import NormalisedScore


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(300, 1))
    return X, X[:, 0] * rng.normal(size=300)


@pytest.mark.parametrize("beta", [0.01, 1.0])
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**30])
def test_the_floor_and_the_spread_scale_with_y(data, beta, factor):
    X, y = data
    score, scaled = (
        NormalisedScore(LinearRegression(), beta=beta).fit(LinearRegression(), X, c * y)
        for c in (1.0, factor)
    )
    assert scaled.floor_ == pytest.approx(factor * score.floor_, rel=1e-9)
    np.testing.assert_allclose(scaled.spread(X), factor * score.spread(X), rtol=1e-9)
    for V, W in zip(
        score.values(score.band(X), y), scaled.values(scaled.band(X), factor * y), strict=True
    ):
        np.testing.assert_allclose(W, V, rtol=1e-6, atol=1e-6)


def test_the_floor_is_beta_times_the_median_out_of_fold_residual(data):
    X, y = data
    frozen = FrozenEstimator(LinearRegression().fit(X, y))
    score = NormalisedScore(beta=0.5).fit(frozen, X, y)
    assert score.floor_ == 0.5 * np.median(np.abs(y - frozen.predict(X)))


def test_a_model_that_remembers_its_rows_does_not_make_the_spread_vanish(data):
    X, y = data
    score = NormalisedScore(LinearRegression()).fit(DecisionTreeRegressor(random_state=0), X, y)
    assert np.abs(y - score.point(X)).max() == 0.0
    assert np.median(score.spread(X)) > 0.5 * np.median(np.abs(y))


def test_the_spread_follows_the_noise(data):
    score = NormalisedScore(LinearRegression()).fit(LinearRegression(), *data)
    near, far = score.spread(np.array([[0.1], [0.9]]))
    assert near < far / 2


def test_a_spread_that_turns_negative_is_floored():
    class Negative:
        def predict(self, X):
            return np.full(len(X), -1.0)

    X, y = np.zeros((20, 1)), np.arange(20.0)
    score = NormalisedScore(Negative(), beta=0.0).fit(LinearRegression(), X, y)
    assert np.all(score.spread(X) > 0)


@pytest.mark.parametrize("beta", [-0.1, float("nan")])
def test_a_bad_beta_is_refused(data, beta):
    with pytest.raises(ValueError, match=r"beta is .*at least 0"):
        NormalisedScore(beta=beta).fit(LinearRegression(), *data)


def test_fit_parameters_reach_the_folds(data):
    X, y = data
    weights = np.where(X[:, 0] < 0.5, 1.0, 1e-9)
    plain = NormalisedScore(LinearRegression()).fit(LinearRegression(), X, y)
    weighted = NormalisedScore(LinearRegression()).fit(
        LinearRegression(), X, y, fit_params={"sample_weight": weights}
    )
    assert not np.allclose(plain.spread(X), weighted.spread(X))


def test_the_default_spread_model_is_seeded(data):
    one, again = (
        NormalisedScore().fit(HistGradientBoostingRegressor(max_iter=5), *data, random_state=3)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.spread(data[0]), again.spread(data[0]))
