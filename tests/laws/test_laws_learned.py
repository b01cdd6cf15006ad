"""The learned law: any quantile model, un-crossed, as a full distribution."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from inner import seen
from localconformal import LearnedLaw, ResponseLaw, SLCPRegressor, StackedLaw
from registry import ci_but, optional, quiet_catboost, smooth_data

LEVELS = (0.1, 0.5, 0.9)
LINES = QuantileRegressor(alpha=0)
QUICK = {"histograms", "lines", "pipeline"}
MODELS = {
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=5, random_state=0),
    "lines": lambda: LINES,
    "pipeline": lambda: make_pipeline(StandardScaler(), LINES),
    "default": lambda: None,
    "boosting": lambda: GradientBoostingRegressor(n_estimators=5, random_state=0),
    "lightgbm": lambda: optional("lightgbm").LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1),
    "catboost": lambda: quiet_catboost(),
    "catboost levels": lambda: quiet_catboost(loss_function="MultiQuantile:alpha=0.1,0.5,0.9"),
    "catboost objective of levels": lambda: quiet_catboost(
        objective="MultiQuantile:alpha=0.1,0.5,0.9"
    ),
    "xgboost levels": lambda: optional("xgboost").XGBRegressor(
        n_estimators=5, objective="reg:quantileerror", quantile_alpha=[0.9, 0.1, 0.5], n_jobs=1
    ),
    "forest": lambda: optional("quantile_forest").RandomForestQuantileRegressor(
        10, min_samples_leaf=5, random_state=0
    ),
}


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


CASES = [(name, LEVELS) for name in MODELS]
CASES += [("lines", levels) for levels in ((1e-4, 0.9999), (0.05, 0.05 + 1e-9), (0.065, 1 / 3))]


@pytest.mark.parametrize("case", ci_but([case for case in CASES if case[0] in QUICK], CASES))
def test_a_learned_level_is_answered_by_its_curve_and_the_whole_is_monotone(case):
    name, levels = case
    law = LearnedLaw(MODELS[name](), levels=levels, random_state=0, n_jobs=1).fit(*rows(200, 0))
    X = rows(30, 1)[0]
    points, models = seen(law, X), law.models_
    if name == "forest":
        curves = np.asarray(models[0].predict(points, quantiles=list(levels)))
    elif name.endswith("levels"):
        assert len(models) == 1
        curves = models[0].predict(points)
    else:
        curves = np.stack([model.predict(points) for model in models], axis=1)
    for ask in (law.quantile, law.upper_quantile):
        np.testing.assert_allclose(ask(X, levels), np.sort(curves, axis=1), rtol=1e-8, atol=1e-6)
    assert np.all(np.diff(law.quantile(X, np.linspace(0.001, 0.999, 200)), axis=1) >= 0)
    assert np.all(np.isfinite(law.quantile(X, [1e-9, 1.0])))


class Says(RegressorMixin, BaseEstimator):
    """This function of the level, everywhere."""

    def __init__(self, function=None, quantile=0.5):
        self.function = function
        self.quantile = quantile

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), self.function(self.quantile))


def test_crossing_curves_are_sorted():
    X, v = rows(50, 0)
    law = LearnedLaw(Says(np.negative), levels=LEVELS, n_jobs=1).fit(X, v)
    np.testing.assert_allclose(law.quantile(X[:2], LEVELS), [[-0.9, -0.5, -0.1]] * 2)


def test_between_two_curves_the_line_is_straight_on_the_normal_scale():
    (X, v), asked = rows(50, 0), np.array([0.1, 0.3, 0.5, 0.9])
    law = LearnedLaw(Says(norm.ppf), levels=(0.1, 0.9), n_jobs=1).fit(X, v)
    np.testing.assert_allclose(law.quantile(X[:1], asked), norm.ppf([asked]), atol=1e-6)


@pytest.mark.parametrize("levels", [(), (0.5,), (0.0, 0.5), (0.5, 1.0), (0.9, 0.1), ("a", "b")])
def test_bad_levels_are_refused(levels):
    with pytest.raises(ValueError, match=r"levels=.*at least two increasing numbers inside"):
        LearnedLaw(levels=levels).fit(*rows(20, 0))


OWN = [0.02, 0.3, 0.5, 0.98]


class Fan:
    """A fitted model: x + (1 + |x|) z(t) at any level t; each kind says it in its own way."""

    def answer(self, X, levels):
        x = np.asarray(X)[:, :1]
        return x + (1.0 + np.abs(x)) * norm.ppf(levels)


class Asked(Fan):
    def predict(self, X, quantiles=None):
        return self.answer(X, quantiles)


class ListOfRows(Fan):
    """As TabPFN: an array per level, and only if it is told that quantiles are meant."""

    def predict(self, X, *, output_type="mean", quantiles=None):
        table = self.answer(X, [0.5] if quantiles is None else quantiles)
        return list(table.T) if output_type == "quantiles" else table.mean(axis=1)


class Turned(Fan):
    def predict(self, X, output_type="mean", alphas=None):
        return self.answer(X, alphas).T


class Told(Fan):
    """Levels of its own, in an order of its own."""

    quantiles = tuple(OWN[::-1])

    def predict(self, X):
        return self.answer(X, OWN[::-1])


FANS = [Asked, ListOfRows, Turned, Told]


@pytest.mark.parametrize("kind", FANS)
@pytest.mark.parametrize("n", [1, 4, 9])
def test_a_fitted_model_gives_its_quantiles_however_they_come_and_however_many_rows(kind, n):
    X, y = smooth_data(60, 0)
    law = LearnedLaw(kind(), levels=None if kind is Told else OWN).fit(X, y)
    expected = Fan().answer(X[:n], OWN)
    np.testing.assert_allclose(law.quantile(X[:n], OWN), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(law.upper_quantile(X[:n], OWN), expected, rtol=1e-9, atol=1e-9)


def test_levels_between_those_of_a_model_are_interpolated_and_beyond_them_it_is_the_outermost():
    X, y = smooth_data(60, 0)
    law = LearnedLaw(Told(), levels=[0.001, 0.02, 0.1, 0.4, 0.7, 0.999]).fit(X, y)
    inside = [0.02, 0.1, 0.4, 0.7]
    # Linear on the normal scale, on which these quantiles are lines.
    np.testing.assert_allclose(law.quantile(X, inside), Fan().answer(X, inside), atol=1e-8)
    np.testing.assert_allclose(law.quantile(X, [0.001, 0.999]), Fan().answer(X, [0.02, 0.98]))


def test_the_law_of_a_fitted_model_follows_the_point_that_residuals_are_taken_from():
    X, y = smooth_data(300, 0)
    bounds = []
    for law in (
        LearnedLaw(Told()),
        ResponseLaw(LearnedLaw(Told())),
        StackedLaw([LearnedLaw(Told())]),
    ):
        model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, y)
        assert "train the fitted model" in str(model.guarantee_)
        bounds.append(model.predict_interval(X))
    np.testing.assert_allclose(bounds[0], bounds[1], atol=1e-6)
    np.testing.assert_allclose(bounds[0], bounds[2], atol=1e-6)
    model = SLCPRegressor(LinearRegression(), law=LearnedLaw(LINES), random_state=0).fit(X, y)
    assert "fitted model" not in str(model.guarantee_)


@pytest.mark.parametrize(
    ("law", "params", "words"),
    [
        (LearnedLaw(Told()), {"conformity_score": "absolute"}, "neither y nor y - mu"),
        (LearnedLaw(Told(), embedding="outputs"), {}, "leave the embedding out"),
    ],
)
def test_what_a_fitted_model_cannot_be_the_law_of_is_said(law, params, words):
    with pytest.raises(ValueError, match=words):
        SLCPRegressor(LinearRegression(), law=law, random_state=0, **params).fit(*rows(60, 0))


def test_models_that_cannot_learn_quantiles_are_refused():
    X, v = rows(20, 0)
    with pytest.raises(ValueError, match="does not say which quantiles it predicts; expected"):
        LearnedLaw(FrozenEstimator(QuantileRegressor().fit(X, v))).fit(X, v)
    with pytest.raises(ValueError, match=r"LinearRegression, which has no quantile parameter"):
        LearnedLaw(LinearRegression()).fit(X, v)
