"""Quantile models of every kind behind one score."""

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from quantile_forest import RandomForestQuantileRegressor
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRegressor

from localconformal import QuantileScore
from localconformal.scores.quantile import at_level

SINGLE = {
    "hist": HistGradientBoostingRegressor(max_iter=30, random_state=0),
    "gradient": GradientBoostingRegressor(n_estimators=30, random_state=0),
    "lightgbm": LGBMRegressor(n_estimators=30, n_jobs=1, verbose=-1, random_state=0),
    "xgboost": XGBRegressor(n_estimators=30, n_jobs=1, random_state=0),
    "linear": QuantileRegressor(alpha=0.0),
    "pipeline": make_pipeline(StandardScaler(), "passthrough", QuantileRegressor(alpha=0.0)),
    "boosted-pipeline": make_pipeline(
        StandardScaler(), LGBMRegressor(n_estimators=30, n_jobs=1, verbose=-1, random_state=0)
    ),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    return X, X[:, 0] + rng.normal(size=400)


def share_below(curve, y):
    return np.mean(y <= curve)


def linear_pair(data, levels=(0.05, 0.95)):
    return tuple(QuantileRegressor(quantile=level, alpha=0.0) for level in levels)


@pytest.mark.parametrize("name", SINGLE)
def test_a_model_with_a_quantile_parameter_is_fitted_at_both_levels(name, data):
    X, y = data
    score = QuantileScore().fit(SINGLE[name], X, y, confidence_level=0.8)
    band = score.band(X)
    assert share_below(band.lower, y) == pytest.approx(0.1, abs=0.07)
    assert share_below(band.upper, y) == pytest.approx(0.9, abs=0.07)
    assert share_below(score.point(X), y) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("name", SINGLE)
def test_the_model_that_came_stays_as_it_was(name):
    before = repr(SINGLE[name].get_params())
    made = at_level(SINGLE[name], 0.3)
    assert repr(SINGLE[name].get_params()) == before
    assert 0.3 in made.get_params().values()


def test_nominal_levels_may_differ_from_the_confidence_level(data):
    X, y = data
    score = QuantileScore(quantiles=(0.25, 0.75)).fit(SINGLE["linear"], X, y, confidence_level=0.9)
    assert score.levels_ == [0.25, 0.5, 0.75]
    assert share_below(score.band(X).upper, y) == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize("level", [0.9, 0.5, 0.3])
def test_nominal_levels_leave_out_the_same_on_either_side(level, data):
    score = QuantileScore().fit(SINGLE["linear"], *data, confidence_level=level)
    assert score.levels_ == pytest.approx([(1 - level) / 2, 0.5, (1 + level) / 2])


def test_pairs_and_triples_equal_the_single_model(data):
    X, y = data
    single = QuantileScore().fit(SINGLE["linear"], X, y)
    pair = QuantileScore().fit(linear_pair(data), X, y)
    triple = QuantileScore().fit(list(linear_pair(data, (0.05, 0.5, 0.95))), X, y)
    for other in (pair, triple):
        np.testing.assert_allclose(other.band(X).lower, single.band(X).lower, atol=1e-9)
        np.testing.assert_allclose(other.band(X).upper, single.band(X).upper, atol=1e-9)
    np.testing.assert_allclose(triple.point(X), single.point(X), atol=1e-9)
    middle = (pair.band(X).lower + pair.band(X).upper) / 2
    np.testing.assert_allclose(pair.point(X), middle)


def test_fitted_pairs_are_used_as_they_are(data):
    X, y = data
    fitted = [FrozenEstimator(model.fit(X, y)) for model in linear_pair(data)]
    score = QuantileScore()
    assert score.is_frozen(fitted)
    band = score.fit(fitted, X[:5], y[:5]).band(X)
    np.testing.assert_array_equal(band.lower, fitted[0].predict(X))
    assert not score.is_frozen(linear_pair(data))


def test_a_quantile_forest_answers_all_levels_at_once(data):
    X, y = data
    forest = RandomForestQuantileRegressor(n_estimators=20, min_samples_leaf=10, random_state=0)
    score = QuantileScore().fit(forest, X, y, confidence_level=0.8)
    assert len(score.models_) == 1
    expected = score.models_[0].predict(X, quantiles=[0.1, 0.5, 0.9])
    np.testing.assert_allclose(score.band(X).lower, expected[:, 0])
    np.testing.assert_allclose(score.band(X).upper, expected[:, 2])
    np.testing.assert_allclose(score.point(X), expected[:, 1])


class Columns:
    """A fitted model whose predictions are these functions of the first feature, as columns."""

    def __init__(self, *functions):
        self.functions = functions

    def predict(self, X):
        return np.stack([function(X[:, 0]) for function in self.functions], axis=1)


def test_a_fitted_model_with_two_or_three_columns_works():
    X, y = np.linspace(-1, 1, 11)[:, None], np.zeros(11)
    two = QuantileScore().fit(Columns(lambda x: x - 1, lambda x: x + 1), X, y)
    np.testing.assert_allclose(two.point(X), X[:, 0], atol=1e-15)
    three = QuantileScore().fit(Columns(lambda x: x - 1, lambda x: x + 0.5, lambda x: x + 1), X, y)
    np.testing.assert_allclose(three.point(X), X[:, 0] + 0.5)
    assert three.is_frozen(Columns())


def test_crossed_curves_are_uncrossed():
    X, y = np.linspace(-1, 1, 21)[:, None], np.zeros(21)
    band = QuantileScore().fit(Columns(lambda x: x, lambda x: -x), X, y).band(X)
    np.testing.assert_array_equal(band.lower, -np.abs(X[:, 0]))
    np.testing.assert_array_equal(band.upper, np.abs(X[:, 0]))


@pytest.mark.parametrize("unit", ["median", "width"])
def test_units_are_the_documented_distances_above_their_floor(unit):
    X, y = np.linspace(0, 1, 21)[:, None], np.zeros(21)
    model = Columns(lambda x: -x, lambda x: 0 * x, lambda x: 3 * x)
    score = QuantileScore(unit=unit, floor=0.1).fit(model, X, y)
    x, band = X[:, 0], score.band(X)
    below, above = (x, 3 * x) if unit == "median" else (4 * x, 4 * x)
    np.testing.assert_allclose(band.lower_unit, np.maximum(below, 0.1 * np.median(below)))
    np.testing.assert_allclose(band.upper_unit, np.maximum(above, 0.1 * np.median(above)))


def test_a_median_outside_the_edges_still_leaves_positive_units():
    X, y = np.linspace(0, 1, 21)[:, None], np.zeros(21)
    model = Columns(lambda x: -x, lambda x: 5 * x, lambda x: x)
    band = QuantileScore(unit="median").fit(model, X, y).band(X)
    assert np.all(band.upper_unit > 0)


def test_a_model_without_a_quantile_parameter_is_refused_with_remedies(data):
    with pytest.raises(ValueError, match=r"LinearRegression came .*no quantile parameter; pass"):
        QuantileScore().fit(LinearRegression(), *data)


def test_a_wrong_number_of_models_is_refused(data):
    with pytest.raises(ValueError, match=r"4 quantile models came; a pair .* triple"):
        QuantileScore().fit(linear_pair(data) * 2, *data)


def test_predictions_of_another_shape_are_refused():
    X, y = np.zeros((5, 1)), np.zeros(5)
    with pytest.raises(ValueError, match=r"shape \(5, 4\).*\(lower, upper\)"):
        QuantileScore().fit(Columns(*[np.abs] * 4), X, y)


@pytest.mark.parametrize(
    "quantiles",
    [(0.9, 0.1), (0.0, 0.9), (0.5, 0.9), (0.1, 0.5), (0.1, 1.0), (0.1, "a", 0.9), (0.1, None, 0.9)],
)
def test_bad_nominal_levels_are_refused(quantiles, data):
    with pytest.raises(ValueError, match=r"quantiles are .*a pair of levels inside \(0, 1\)"):
        QuantileScore(quantiles=quantiles).fit(SINGLE["linear"], *data)


def test_an_unknown_unit_is_refused_with_the_known_ones(data):
    with pytest.raises(ValueError, match=r"unit is 'metre'.*median.*one.*width"):
        QuantileScore(unit="metre").fit(SINGLE["linear"], *data)
