"""Scores against their definitions, and what `fit` does when nothing is said."""

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor

from localconformal import NormalisedScore, QuantileScore
from localconformal.scores import SCORES, Band, BaseScore, make_score
from localconformal.scores.quantile import at_level


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(60, 2))
    return X, 5.0 + X[:, 0] * rng.normal(size=60)


class Says:
    """A fitted model that says this, whatever the rows."""

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return np.array(np.broadcast_to(self.answer, (len(X), *np.shape(self.answer))))


def test_only_the_absolute_score_has_one_side():
    assert not BaseScore.one_sided
    assert {name for name, kind in SCORES.items() if kind.one_sided} == {"absolute"}


def test_values_are_distances_from_the_edges_in_their_units():
    band = Band(*np.array([[1.0, 1.0], [3.0, 3.0], [2.0, 2.0], [4.0, 4.0]]))
    values = make_score("residual").values(band, np.array([0.0, 7.0]))
    np.testing.assert_array_equal(values, [[0.5, -0.75], [-3.0, 1.0]])


def test_scores_beyond_all_numbers_come_without_a_warning():
    band = Band.around(np.array([-1e308, 0.0]), np.array([1e-5, 1.0]))
    values = make_score("residual").values(band, np.array([1e308, np.inf]))
    assert not np.isfinite(values).any()


# ---- the normalised residual ------------------------------------------------------------------


def test_the_spread_learns_the_distance_from_the_mean(data):
    X, y = data
    mean = DummyRegressor(strategy="constant", constant=2.0)
    score = NormalisedScore(DummyRegressor(strategy="median"), beta=0.5).fit(mean, X, y)
    # A constant is the same out of fold.
    middle = np.median(np.abs(y - 2.0))
    assert score.floor_ == pytest.approx(0.5 * middle)
    np.testing.assert_allclose(score.spread(X), 1.5 * middle)


def test_a_spread_of_its_own_is_the_model_s_and_the_floor(data):
    X, y = data
    score = NormalisedScore(Says(0.25), beta=0.1).fit(Says(4.0), X, y)
    floor = 0.1 * np.median(np.abs(y - 4.0))
    np.testing.assert_allclose(score.spread(X), 0.25 + floor)
    band = score.band(X)
    np.testing.assert_array_equal(band.lower_unit, band.upper_unit)
    np.testing.assert_allclose(score.values(band, y)[:, 1], (y - 4.0) / (0.25 + floor))


def test_a_spread_below_zero_is_the_floor(data):
    score = NormalisedScore(Says(-0.5), beta=0.1).fit(Says(4.0), *data)
    np.testing.assert_array_equal(score.spread(data[0]), score.floor_)


def test_without_beta_a_spread_below_zero_is_hardly_above_it(data):
    score = NormalisedScore(Says(-1.0), beta=0.0).fit(Says(4.0), *data)
    assert np.all((score.spread(data[0]) > 0.0) & (score.spread(data[0]) < 1e-300))


class Counted(RegressorMixin, BaseEstimator):
    """Remembers how many rows each fit of any copy saw."""

    seen = ()

    def fit(self, X, y):
        Counted.seen = (*Counted.seen, len(y))
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


@pytest.mark.parametrize(("params", "folds"), [({}, 5), ({"n_folds": 3}, 3)])
def test_the_mean_is_fitted_once_for_all_rows_and_once_a_fold(data, params, folds):
    Counted.seen = ()
    NormalisedScore(Says(1.0), **params).fit(Counted(), *data)
    assert sorted(Counted.seen) == sorted([60, *[60 - 60 // folds] * folds])


def test_the_seed_makes_the_folds_and_is_zero_by_default(data):
    def spread(**seed):
        line = LinearRegression()
        return NormalisedScore(line).fit(line, *data, **seed).spread(data[0])

    np.testing.assert_array_equal(spread(), spread(random_state=0))
    assert not np.array_equal(spread(), spread(random_state=1))


@pytest.mark.parametrize("mean", [Says(0.0), LinearRegression()], ids=["fitted", "to fit"])
@pytest.mark.parametrize("spread", [None, Says(1.0), LinearRegression()], ids=["none", "fit", "to"])
def test_what_comes_fitted_of_the_mean_and_the_spread(mean, spread):
    score = NormalisedScore(spread)
    fitted = [isinstance(mean, Says), isinstance(spread, Says)]
    assert score.is_frozen(mean) == all(fitted)
    assert score.comes_fitted(mean) == any(fitted)


# ---- out of bag -------------------------------------------------------------------------------


def test_out_of_bag_bands_are_those_of_the_forest(data):
    X, y = data
    forest = RandomForestRegressor(30, oob_score=True, random_state=0)
    residual, response = (make_score(name).fit(forest, X, y) for name in ("residual", "response"))
    band = residual.out_of_bag_band()
    np.testing.assert_array_equal(band.lower, residual.model_.oob_prediction_)
    np.testing.assert_array_equal(band.upper, band.lower)
    np.testing.assert_array_equal(band.lower_unit, np.ones(60))
    np.testing.assert_array_equal(response.out_of_bag_band().lower, np.zeros(60))
    np.testing.assert_array_equal(response.point(X), residual.point(X))


def test_the_response_is_never_in_sample():
    assert make_score("response").is_frozen(LinearRegression())
    assert not make_score("absolute").is_frozen(LinearRegression())


# ---- quantile models --------------------------------------------------------------------------


def test_levels_are_symmetric_around_the_median_and_those_of_ninety_per_cent(data):
    model = FrozenEstimator(Says([1.0, 2.0, 3.0]))
    assert QuantileScore().fit(model, *data).levels_ == pytest.approx([0.05, 0.5, 0.95])
    score = QuantileScore().fit(model, *data, confidence_level=0.6)
    assert score.levels_ == pytest.approx([0.2, 0.5, 0.8])


@pytest.mark.parametrize("quantiles", [(0.1, 0.9), [0.2, 0.6], np.array([0.01, 0.51])])
def test_pairs_of_any_kind_are_levels(quantiles, data):
    levels = QuantileScore(quantiles).fit(Says([1.0, 3.0]), *data).levels_
    assert levels == [quantiles[0], 0.5, quantiles[1]]


BAD_QUANTILES = [
    (0.1,),
    (0.1, 0.5, 0.9),
    (0.1, 0.9, "high"),
    ("low", 0.9),
    ("low", "high"),
    "ab",
    0.1,
    {0.1: 1, 0.9: 2},
    (0.6, 0.9),
    (0.1, 0.4),
    (0.1, 0.5),
    (-0.1, 0.9),
    (0.1, 1.1),
    (float("nan"), 0.9),
]


@pytest.mark.parametrize("quantiles", BAD_QUANTILES, ids=repr)
def test_what_is_no_pair_around_the_median_is_refused(quantiles, data):
    with pytest.raises(ValueError, match=r"quantiles are .*one on each side of 0.5"):
        QuantileScore(quantiles).fit(Says([1.0, 3.0]), *data)


@pytest.mark.parametrize("answer", [1.0, [1.0], [1.0, 2.0, 3.0, 4.0], [[1.0, 2.0], [1.0, 2.0]]])
def test_one_model_with_another_number_of_columns_is_refused(answer, data):
    with pytest.raises(ValueError, match=r"Says.predict returned an array of shape"):
        QuantileScore().fit(Says(answer), *data)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_neither_pair_nor_triple_is_refused(count, data):
    with pytest.raises(ValueError, match=rf"{count} quantile models came"):
        QuantileScore().fit([Says(1.0)] * count, *data)


def test_a_list_is_frozen_when_all_its_models_are(data):
    line = QuantileRegressor(quantile=0.5, alpha=0.0)
    assert QuantileScore().is_frozen([Says(1.0), Says(2.0)])
    assert not QuantileScore().is_frozen([Says(1.0), line])
    assert not QuantileScore().is_frozen(line)
    assert QuantileScore().comes_fitted([Says(1.0), line])
    assert not QuantileScore().comes_fitted(line)


def test_a_median_of_three_models_lies_between_the_edges(data):
    score = QuantileScore(unit="median").fit([Says(1.0), Says(2.5), Says(3.0)], *data)
    band = score.band(data[0])
    assert set(score.point(data[0])) == {2.5}
    assert set(band.lower_unit) == {1.5}
    assert set(band.upper_unit) == {0.5}


def test_the_unit_one_is_one(data):
    band = QuantileScore().fit(Says([1.0, 3.0]), *data).band(data[0])
    assert set(band.lower_unit) == set(band.upper_unit) == {1.0}


def test_units_without_width_are_floored_by_a_thousandth_of_the_typical_one():
    X = np.arange(11.0)[:, None]

    class Fan:
        def predict(self, X):
            return np.column_stack([-X[:, 0], X[:, 0]])

    band = QuantileScore(unit="width").fit(Fan(), X, X[:, 0]).band(X)
    assert band.lower_unit[0] == pytest.approx(0.001 * 10.0)
    np.testing.assert_array_equal(band.upper_unit[1:], 2.0 * X[1:, 0])


def test_a_copy_at_a_level_has_it_where_its_kind_keeps_it():
    assert at_level(QuantileRegressor(alpha=0.0), 0.3).quantile == 0.3


@pytest.mark.parametrize(
    ("answer", "edges"), [([3.0, 2.0, 1.0], (1, 3)), ([2.0, 9.0, 1.0], (1, 2))]
)
def test_the_outer_curves_are_uncrossed_whatever_the_median(answer, edges, data):
    score = QuantileScore().fit(Says(answer), *data)
    band = score.band(data[0])
    assert (band.lower[0], band.upper[0]) == edges
    assert score.point(data[0])[0] == np.clip(answer[1], *edges)


@pytest.mark.parametrize("kind", SCORES.values(), ids=SCORES)
def test_rows_come_by_position_and_settings_by_name(kind):
    parameters = list(inspect.signature(kind.fit).parameters.values())
    assert {p.kind for p in parameters[:4]} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    assert {p.kind for p in parameters[4:]} == {inspect.Parameter.KEYWORD_ONLY}
