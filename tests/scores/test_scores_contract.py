"""What every registered score keeps: values and bounds are inverses."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from localconformal import NormalisedScore, QuantileScore
from localconformal.scores import SCORES, Band, make_score

VARIANTS = {
    **{name: kind() for name, kind in SCORES.items()},
    "quantile-median": QuantileScore(unit="median"),
    "quantile-width": QuantileScore(unit="width"),
    "normalised-without-floor": NormalisedScore(beta=0.0),
}
SMALL_TREES = HistGradientBoostingRegressor(max_iter=10, random_state=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(200, 2))
    return X, X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=200)


@pytest.fixture(scope="module", params=VARIANTS, ids=str)
def score(request, data):
    return clone(VARIANTS[request.param]).fit(SMALL_TREES, *data)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(1).uniform(-1.5, 1.5, size=(40, 2))


def test_units_are_positive_and_edges_in_order(score, queries):
    band = score.band(queries)
    assert all(part.shape == (40,) for part in band)
    assert np.all(band.lower_unit > 0)
    assert np.all(band.upper_unit > 0)
    assert np.all(band.lower <= band.upper)


def test_y_is_inside_the_bounds_exactly_when_both_scores_pass(score, queries):
    rng = np.random.default_rng(2)
    band = score.band(queries)
    for _ in range(200):
        T, y = rng.normal(size=(40, 2, 1)), rng.normal(size=40)
        lower, upper = score.bounds(band, T)[:, :, 0].T
        V = score.values(band, y)
        np.testing.assert_array_equal(lower <= y, V[:, 0] <= T[:, 0, 0])
        np.testing.assert_array_equal(y <= upper, V[:, 1] <= T[:, 1, 0])


def test_a_threshold_at_the_score_itself_puts_y_on_the_bound(score, queries):
    y = np.random.default_rng(3).normal(size=40)
    band = score.band(queries)
    bounds = score.bounds(band, score.values(band, y)[:, :, None])
    np.testing.assert_allclose(bounds[:, :, 0], np.stack([y, y], axis=1), rtol=1e-12, atol=1e-12)


def test_y_on_its_own_bound_is_never_lost_to_rounding(score, queries):
    """Ties count as covered: a new row equal to the calibration row that set T is inside."""
    rng = np.random.default_rng(4)
    band = score.band(queries)
    for _ in range(50):
        y = rng.normal(size=40)
        lower, upper = score.bounds(band, score.values(band, y)[:, :, None])[:, :, 0].T
        assert np.all(lower <= y)
        assert np.all(y <= upper)


def test_every_level_is_answered_as_if_alone(score, queries):
    T = np.random.default_rng(5).normal(size=(40, 2, 3))
    band = score.band(queries)
    together = score.bounds(band, T)
    for level in range(3):
        alone = score.bounds(band, T[:, :, [level]])
        np.testing.assert_array_equal(together[:, :, [level]], alone)


def test_infinite_thresholds_give_the_whole_line(score, queries):
    bounds = score.bounds(score.band(queries), np.full((40, 2, 1), np.inf))
    assert np.all(bounds[:, 0] == -np.inf)
    assert np.all(bounds[:, 1] == np.inf)


def test_points_lie_in_the_band_of_models_and_are_finite(score, queries):
    assert score.point(queries).shape == (40,)
    assert np.all(np.isfinite(score.point(queries)))


@pytest.mark.parametrize("name", SCORES)
def test_names_make_fresh_scores_and_objects_are_cloned(name):
    assert type(make_score(name)) is SCORES[name]
    given = SCORES[name]()
    assert make_score(given) is not given


def test_a_band_around_a_centre_has_no_width():
    band = Band.around(np.arange(3.0))
    np.testing.assert_array_equal(band.lower, band.upper)
    np.testing.assert_array_equal(band.lower_unit, np.ones(3))


@pytest.mark.parametrize("name", ["quantile", "normalised", "residual"])
def test_out_of_bag_references_are_refused_with_a_remedy(name, data):
    score = make_score(name).fit(SMALL_TREES, *data)
    with pytest.raises(ValueError, match=r"reference='oob' came with .*cross-fit"):
        score.out_of_bag_band()


def test_a_fitted_mean_is_not_trained_again(data, queries):
    frozen = FrozenEstimator(LinearRegression().fit(*data))
    for name in ("residual", "absolute", "response"):
        score = make_score(name).fit(frozen, *data)
        assert score.is_frozen(frozen)
        np.testing.assert_array_equal(score.point(queries), frozen.predict(queries))
    assert not make_score("residual").is_frozen(LinearRegression())
    assert not NormalisedScore().is_frozen(frozen)
    assert NormalisedScore(spread_estimator=frozen).is_frozen(frozen)
