"""Laws of a transformed score: in units of a spread, of the response, around a better model."""

import numpy as np
import pytest

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


def test_scores_that_are_no_residuals_are_refused():
    with pytest.raises(ValueError, match=r"ResponseLaw .*score='residual'"):
        around(HALF, lc.ResponseLaw(), *rows(60, 0), sides="absolute")


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


def test_laws_that_are_none_are_refused():
    for law in ("foo", "auto", 3, lc.ForestLaw):
        for outer in (lc.ResponseLaw(law), lc.StackedLaw(["uniform", law])):
            with pytest.raises(ValueError, match=r"law=.*'forest', 'kernel'"):
                outer.fit(*rows(20, 0))
