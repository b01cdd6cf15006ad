"""Scores: values and bounds are inverses; each score against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from sklearn import ensemble
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from inner import SCORES, Band, Rows, make_score
from localconformal import NormalisedScore, QuantileScore
from registry import optional

VARIANTS = {
    **{name: kind() for name, kind in SCORES.items()},
    "quantile-median": QuantileScore(unit="median"),
    "quantile-width": QuantileScore(unit="width"),
    "normalised-without-floor": NormalisedScore(beta=0.0),
}
SMALL_TREES = ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    return X, 5.0 + X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=200)


class Says:
    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return np.array(np.broadcast_to(self.answer, (len(X), *np.shape(self.answer))))


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def score(request, data):
    return clone(VARIANTS[request.param]).fit(SMALL_TREES, *data)


QUERIES = np.random.default_rng(1).uniform(-1.5, 1.5, size=(40, 2))


def test_units_are_positive_edges_in_order_and_points_finite(score):
    band = score(Rows(QUERIES))
    assert all(part.shape == (40,) for part in band)
    assert np.all(band.lower_unit > 0)
    assert np.all(band.upper_unit > 0)
    assert np.all(band.lower <= band.upper)
    assert score(Rows(QUERIES)).point.shape == (40,)
    assert np.all(np.isfinite(score(Rows(QUERIES)).point))


def test_y_is_inside_the_bounds_exactly_when_both_scores_pass(score):
    rng, band = np.random.default_rng(2), score(Rows(QUERIES))
    for _ in range(100):
        T, y = rng.normal(size=(40, 2, 1)), 5.0 + rng.normal(size=40)
        lower, upper = score.bounds(band, T)[:, :, 0].T
        V = score.values(band, y)
        np.testing.assert_array_equal(lower <= y, V[:, 0] <= T[:, 0, 0])
        np.testing.assert_array_equal(y <= upper, V[:, 1] <= T[:, 1, 0])
        # Ties count as covered: a new row equal to the calibration row that set T is inside.
        lower, upper = score.bounds(band, V[:, :, None])[:, :, 0].T
        assert np.all((lower <= y) & (y <= upper))
        np.testing.assert_allclose([lower, upper], [y, y], rtol=1e-12, atol=1e-12)


def test_every_level_is_answered_as_if_alone_and_infinity_is_the_whole_line(score):
    T = np.random.default_rng(5).normal(size=(40, 2, 3))
    T[:, :, 2] = np.inf
    band = score(Rows(QUERIES))
    together = score.bounds(band, T)
    for level in range(3):
        alone = score.bounds(band, T[:, :, [level]])
        np.testing.assert_array_equal(together[:, :, [level]], alone)
    assert np.all(together[:, 0, 2] == -np.inf)
    assert np.all(together[:, 1, 2] == np.inf)


def test_values_are_distances_from_the_edges_in_their_units():
    band = Band(*np.array([[2.0, 2.0], [1.0, 1.0], [3.0, 3.0], [2.0, 2.0], [4.0, 4.0]]))
    values = make_score("residual").values(band, np.array([0.0, 7.0]))
    np.testing.assert_array_equal(values, [[0.5, -0.75], [-3.0, 1.0]])
    # Scores beyond all numbers come without a warning.
    band = Band.around(np.array([-1e308, 0.0]), unit=np.array([1e-5, 1.0]))
    values = make_score("residual").values(band, np.array([1e308, np.inf]))
    assert not np.isfinite(values).any()


def test_out_of_bag_bands_are_those_of_the_forest(data):
    forest = ensemble.RandomForestRegressor(30, oob_score=True, random_state=0)
    residual, response = (make_score(name).fit(forest, *data) for name in ("residual", "response"))
    band = residual.out_of_bag()
    for edge in (band.lower, band.upper):
        np.testing.assert_array_equal(edge, residual.model_.oob_prediction_)
    np.testing.assert_array_equal(response.out_of_bag().lower, np.zeros(200))


@pytest.mark.parametrize("name", ["quantile", "normalised", "residual"])
def test_out_of_bag_references_are_refused_with_a_remedy(name, data):
    score = make_score(name).fit(SMALL_TREES, *data)
    with pytest.raises(ValueError, match=r"reference='oob' with .*cross-fit"):
        score.out_of_bag()


def test_a_fitted_mean_is_not_trained_again(data):
    frozen = FrozenEstimator(LinearRegression().fit(*data))
    for name in ("residual", "absolute", "response"):
        score = make_score(name).fit(frozen, *data)
        assert score.is_frozen(frozen)
        np.testing.assert_array_equal(score(Rows(QUERIES)).point, frozen.predict(QUERIES))
        # The response is never in sample.
        assert make_score(name).is_frozen(LinearRegression()) == (name == "response")


def lines(beta=0.01, c=1.0, data=None, **params):
    score = NormalisedScore(LinearRegression(), beta=beta)
    return score.fit(LinearRegression(), data[0], c * data[1], **params)


@pytest.mark.parametrize("beta", [0.01, 1.0])
@pytest.mark.parametrize("factor", [2.0**-20, 2.0**30])
def test_the_floor_and_the_spread_scale_with_y(data, beta, factor):
    score, scaled = lines(beta, data=data), lines(beta, factor, data)
    assert scaled.floor_ == pytest.approx(factor * score.floor_, rel=1e-9)
    np.testing.assert_allclose(
        scaled(Rows(QUERIES)).upper_unit, factor * score(Rows(QUERIES)).upper_unit, rtol=1e-9
    )


def test_a_spread_is_the_model_s_and_the_floor(data):
    X, y = data
    middle = np.median(np.abs(y - 4.0))
    score = NormalisedScore(Says(0.25), beta=0.1).fit(Says(4.0), X, y)
    np.testing.assert_allclose(score(Rows(X)).upper_unit, 0.25 + 0.1 * middle)
    found = score.values(score(Rows(X)), y)[:, 1]
    np.testing.assert_allclose(found, (y - 4.0) / score(Rows(X)).upper_unit)
    # A spread below zero is the floor; without beta it is hardly above zero.
    below = NormalisedScore(Says(-0.5), beta=0.1).fit(Says(4.0), X, y)
    np.testing.assert_allclose(below(Rows(X)).upper_unit, 0.1 * middle)
    spread = NormalisedScore(Says(-1.0), beta=0.0).fit(Says(4.0), X, y)(Rows(X)).upper_unit
    assert np.all((spread > 0.0) & (spread < 1e-300))
    # One that learns does so from the distance to the mean; a constant is the same out of fold.
    mean = DummyRegressor(strategy="constant", constant=4.0)
    learned = NormalisedScore(DummyRegressor(strategy="median"), beta=0.5).fit(mean, X, y)
    np.testing.assert_allclose(learned(Rows(X)).upper_unit, 1.5 * middle)


def test_a_model_that_remembers_its_rows_does_not_make_the_spread_vanish(data):
    X, y = data
    score = NormalisedScore(LinearRegression()).fit(DecisionTreeRegressor(random_state=0), X, y)
    assert np.abs(y - score(Rows(X)).point).max() == 0.0
    assert np.median(score(Rows(X)).upper_unit) > 0.5 * np.median(np.abs(y - 5.0 - X[:, 0]))


def test_the_seed_makes_the_folds_is_zero_by_default_and_weights_reach_them(data):
    X, _ = data
    plain = lines(data=data)(Rows(X)).upper_unit
    np.testing.assert_array_equal(plain, lines(data=data, random_state=0)(Rows(X)).upper_unit)
    assert not np.array_equal(plain, lines(data=data, random_state=1)(Rows(X)).upper_unit)
    weights = {"sample_weight": np.where(X[:, 0] < 0.5, 1.0, 1e-9)}
    assert not np.allclose(plain, lines(data=data, fit_params=weights)(Rows(X)).upper_unit)


@pytest.mark.parametrize("beta", [-0.1, float("nan")])
def test_a_bad_beta_is_refused(data, beta):
    with pytest.raises(ValueError, match=r"beta=.*at least 0"):
        NormalisedScore(beta=beta).fit(LinearRegression(), *data)


LINE = QuantileRegressor(alpha=0.0)
SINGLE = {
    "hist": ensemble.HistGradientBoostingRegressor(max_iter=30, random_state=0),
    "linear": LINE,
    "pipeline": make_pipeline(StandardScaler(), "passthrough", LINE),
    "gradient": ensemble.GradientBoostingRegressor(n_estimators=30, random_state=0),
}


@pytest.mark.parametrize("name", SINGLE)
def test_a_model_with_a_quantile_parameter_is_fitted_at_both_levels_and_left_alone(name):
    rng, model = np.random.default_rng(0), SINGLE[name]
    X = rng.uniform(-1, 1, size=(400, 2))
    y, before = X[:, 0] + rng.normal(size=400), repr(model.get_params())
    score = QuantileScore().fit(model, X, y, confidence_level=0.8)
    band = score(Rows(X))
    for curve, level in ((band.lower, 0.1), (score(Rows(X)).point, 0.5), (band.upper, 0.9)):
        assert np.mean(y <= curve) == pytest.approx(level, abs=0.07)
    assert repr(model.get_params()) == before


@pytest.mark.ci
def test_a_quantile_forest_answers_all_levels_at_once(data):
    X, y = data
    forest = optional("quantile_forest").RandomForestQuantileRegressor(
        n_estimators=20, min_samples_leaf=10, random_state=0
    )
    score = QuantileScore().fit(forest, X, y, confidence_level=0.8)
    assert len(score.models_) == 1
    expected, band = score.models_[0].predict(X, quantiles=[0.1, 0.5, 0.9]), score(Rows(X))
    np.testing.assert_allclose(np.column_stack([band.lower, band.upper]), expected[:, [0, 2]])
    np.testing.assert_allclose(score(Rows(X)).point, expected[:, 1])


def test_levels_are_symmetric_around_the_median(data):
    for level, expected in ((0.9, [0.05, 0.5, 0.95]), (0.6, [0.2, 0.5, 0.8])):
        score = QuantileScore().fit(Says([1.0, 3.0]), *data, confidence_level=level)
        assert score.levels_ == pytest.approx(expected)


def fan(levels, table=lambda x, z: x + (1.0 + np.abs(x)) * z):
    """A fitted model that says its levels, and gives these quantiles of a normal response."""
    return SimpleNamespace(quantiles=levels, predict=lambda X: table(X[:, :1], norm.ppf(levels)))


@pytest.mark.parametrize("level", [0.3, 0.6, 0.8, 0.9, 0.999])
def test_levels_of_a_model_are_taken_as_they_are_or_interpolated_and_none_lies_beyond(level, data):
    X, y = data
    band = QuantileScore().fit(fan([0.9, 0.05, 0.1, 0.95]), X, y, confidence_level=level)(Rows(X))
    t = min((1.0 + level) / 2.0, 0.95)
    for found, q in ((band.lower, 1.0 - t), (band.point, 0.5), (band.upper, t)):
        # On the normal scale these quantiles are lines.
        np.testing.assert_allclose(found, fan([q]).predict(X)[:, 0], rtol=1e-9, atol=1e-9)


def test_pairs_and_triples_equal_the_single_model_and_fitted_ones_are_used_as_they_are(data):
    X, y = data
    pair = [clone(LINE).set_params(quantile=q) for q in (0.05, 0.95)]
    single, two = (QuantileScore().fit(LINE, X, y), QuantileScore().fit(tuple(pair), X, y))
    three = QuantileScore().fit([pair[0], LINE, pair[1]], X, y)
    frozen = [FrozenEstimator(model.fit(X, y)) for model in pair]
    known = QuantileScore().fit(frozen, X[:5], y[:5])
    for other in (two, three, known):
        np.testing.assert_allclose(other(Rows(X)).lower, single(Rows(X)).lower, atol=1e-9)
        np.testing.assert_allclose(other(Rows(X)).upper, single(Rows(X)).upper, atol=1e-9)
    np.testing.assert_allclose(three(Rows(X)).point, single(Rows(X)).point, atol=1e-9)
    np.testing.assert_allclose(two(Rows(X)).point, (two(Rows(X)).lower + two(Rows(X)).upper) / 2)


@pytest.mark.parametrize(
    ("answer", "edges", "point"),
    [([3.0, 1.0], (1, 3), 2.0), ([1.0, 2.5, 3.0], (1, 3), 2.5), ([2.0, 9.0, 1.0], (1, 2), 2.0)],
)
def test_columns_are_uncrossed_and_the_point_lies_between_them(answer, edges, point, data):
    score = QuantileScore().fit(Says(answer), *data)
    band = score(Rows(data[0]))
    assert (band.lower[0], band.upper[0]) == edges
    assert score(Rows(data[0])).point[0] == point
    assert set(band.lower_unit) == set(band.upper_unit) == {1.0}
    band = QuantileScore(unit="median").fit(Says(answer), *data)(Rows(data[0]))
    assert np.all((band.lower_unit > 0) & (band.upper_unit > 0))


@pytest.mark.parametrize("unit", ["median", "width"])
def test_units_are_the_documented_distances_above_their_floor(unit):
    X, floor = np.linspace(0, 1, 21)[:, None], 0.001
    rays = SimpleNamespace(predict=lambda X: X * [-1.0, 0.0, 3.0])
    band, x = QuantileScore(unit=unit).fit(rays, X, np.zeros(21))(Rows(X)), X[:, 0]
    below, above = (x, 3 * x) if unit == "median" else (4 * x, 4 * x)
    np.testing.assert_allclose(band.lower_unit, np.maximum(below, floor * np.median(below)))
    np.testing.assert_allclose(band.upper_unit, np.maximum(above, floor * np.median(above)))


SHAPE = r"Says.predict returned an array of shape .*\(lower, upper\)"


@pytest.mark.parametrize(
    ("params", "model", "message"),
    [
        *(({}, Says(answer), SHAPE) for answer in (1.0, [1.0], [1.0] * 4, [[1.0, 2.0]] * 2)),
        *(({}, [Says(1.0)] * n, rf"got {n} quantile models; .* triple") for n in (1, 4)),
        ({}, LinearRegression(), r"LinearRegression, .*no quantile parameter; expected"),
        ({}, fan([5, 50, 95]), r"model's quantiles=\[5.*; expected a number inside \(0, 1\)"),
        ({}, fan([0.1, 0.9], lambda x, z: x), r"shape .*; expected a column for each of .*0\.9\]"),
        ({}, fan([0.1, 0.9], lambda x, z: x[1:] * z), r"for 200 rows; expected a column for each"),
        ({"unit": "metre"}, LINE, r"unit='metre'.*median.*one.*width"),
    ],
)
def test_models_and_units_that_cannot_be_used_are_refused_with_remedies(
    params, model, message, data
):
    with pytest.raises(ValueError, match=message):
        QuantileScore(**params).fit(model, *data)
