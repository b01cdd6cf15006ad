"""Laws of a transformed score: in units of a spread, of the response, around a better model."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import localconformal as lc
from inner import law_of

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


class Says:
    def __init__(self, function):
        self.function = function

    def predict(self, X):
        return self.function(np.asarray(X))


HALF, ZERO, ALL = (Says(lambda X, slope=slope: slope * X[:, 0]) for slope in (0.5, 0.0, 1.0))


def rows(n, seed, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + noise * rng.normal(size=n)


def around(point, law, X, y, **params):
    model = lc.SLCPRegressor(point, law=law, calibration_size=None, random_state=0, **params)
    return model.fit(X, y)


def test_the_law_of_the_response_is_that_of_y_minus_mu():
    (X, y), (Q, _) = rows(150, 0), rows(20, 1)
    direct = lc.NeighborsLaw(n_neighbors=30).fit(X, y).quantile(Q, LEVELS)
    law = lc.ResponseLaw(lc.NeighborsLaw(n_neighbors=30))
    # The same response, whatever the point model: the interval does not move.
    for point in (HALF, ZERO):
        found = law_of(around(point, law, X, y)).quantile(Q, LEVELS)
        np.testing.assert_allclose(found + point.predict(Q)[:, None], direct, atol=1e-8)
    # Residuals are known as such wherever zero lies.
    model = around(HALF, law, X, y + 1e9).conformalize(*rows(50, 2))
    assert np.isfinite(model.predict_interval(Q)).all()


@pytest.mark.parametrize("kind", [lc.ResponseLaw, lc.ShiftedLaw])
def test_scores_that_are_no_residuals_are_refused(kind):
    with pytest.raises(ValueError, match=rf"{kind.__name__} .*score='residual'"):
        around(HALF, kind(), *rows(60, 0), sides="absolute")


def test_the_scaled_law_is_wide_where_scores_are_large_and_its_spread_is_out_of_bag():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(800, 1))
    v = np.where(X[:, 0] > 0.5, 4.0, 1.0) * rng.normal(size=800)
    Q = np.linspace(0.05, 0.95, 19)[:, None]
    width = np.ptp(lc.ScaledLaw(random_state=0).fit(X, v).quantile(Q, [0.05, 0.95]), axis=1)
    assert 2.5 < width[Q[:, 0] > 0.55].mean() / width[Q[:, 0] < 0.45].mean() < 6.0
    # A row's own size tells nothing of its spread: in units of that it stays a million.
    v[np.argmax(X[:, 0])] = 1e6
    assert lc.ScaledLaw(random_state=0).fit(X, v).quantile([[0.1]], [1.0]) > 1e5


def shifted(X, y, point, **models):
    return law_of(around(point, lc.ShiftedLaw(models=models, random_state=0), X, y))


def test_shifting_finds_a_mean_that_the_point_model_does_not_know():
    (X, y), (Q, _) = rows(300, 0, noise=0.2), rows(30, 1)
    law = shifted(X, y, ZERO, line=LinearRegression())
    assert law.weights_["line"] > 0.9
    np.testing.assert_allclose(law.quantile(Q, [0.5])[:, 0], Q[:, 0], atol=0.15)
    assert np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1).max() < 1.0
    # Far outside the blend stays within reach.
    assert np.abs(law.quantile([[1e30, -1e30]], LEVELS)).max() < 100


def test_the_point_model_keeps_its_weight_where_it_is_the_best():
    (X, y), (Q, _) = rows(200, 0, noise=0.2), rows(20, 1)
    models = {"neighbour": KNeighborsRegressor(1), "mean": KNeighborsRegressor(100)}
    law = shifted(X, y, ALL, **models)
    assert law.weights_["point"] > 0.9
    assert sum(law.weights_.values()) == pytest.approx(1.0)
    expected = lc.UniformLaw().fit(X, y - X[:, 0]).quantile(Q, LEVELS)
    np.testing.assert_allclose(law.quantile(Q, LEVELS), expected, atol=0.15)


def test_a_model_that_memorises_does_not_make_the_law_narrow():
    """Noise alone: the residuals of rows that a model has seen would be zero."""
    X, y = rows(300, 0)[0], np.random.default_rng(0).normal(size=300)
    law = shifted(X, y, Says(lambda X: np.full(len(X), 50.0)), memory=KNeighborsRegressor(1))
    assert law.weights_["memory"] > 0.9
    width = np.ptp(law.quantile(X, [0.05, 0.95]), axis=1)
    # y minus another row's y has standard deviation sqrt(2).
    assert np.median(width) > 0.85 * 2 * 1.645 * np.sqrt(2)


def test_laws_and_models_that_are_none_are_refused():
    for law in ("foo", "auto", 3, lc.ForestLaw):
        for outer in (lc.ResponseLaw(law), lc.StackedLaw(["uniform", law])):
            with pytest.raises(ValueError, match=r"law=.*'forest', 'kernel'"):
                outer.fit(*rows(20, 0))
    for models in ({"point": LinearRegression()}, [LinearRegression()], {"a": 3}):
        with pytest.raises(ValueError, match="estimators by name"):
            lc.ShiftedLaw(models=models).fit(*rows(20, 0))
