"""Laws of a transformed score: in units of a spread, of the response, around a better model."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor

from localconformal import (
    ForestLaw,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    StackedLaw,
    UniformLaw,
)
from localconformal.laws import outputs as outputs_module
from localconformal.laws.blend_models import ALPHAS, Network, NystroemRidge, default_models, ridge
from localconformal.laws.outputs import FLOOR, Outputs, blank_outputs, fit_spread, with_spread

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])


def half(X):
    """mu(x) of a point model that knows half of the slope."""
    return np.asarray(X)[:, 0] / 2.0


def zero(X):
    return np.zeros(len(X))


def rows(n, seed, noise=1.0):
    """X, y with slope 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 2))
    return X, X[:, 0] + noise * rng.normal(size=n)


def around(point, X, y):
    """Scores y - mu, and what the model says."""
    return y - point(X), Outputs(point, point(X), y)


def test_the_law_of_the_response_is_that_of_y_minus_mu():
    (X, y), (Q, _) = rows(150, 0), rows(20, 1)
    direct = NeighborsLaw(n_neighbors=30).fit(X, y).quantile(Q, LEVELS)
    law = ResponseLaw(NeighborsLaw(n_neighbors=30))
    # The same response, whatever the point model: the interval does not move.
    for point in (half, zero):
        v, outputs = around(point, X, y)
        found = law.fit(X, v, outputs=outputs).quantile(Q, LEVELS) + point(Q)[:, None]
        np.testing.assert_allclose(found, direct, atol=1e-8)
    # Residuals are known as such wherever zero lies.
    v, outputs = around(half, X, y + 1e9)
    assert np.isfinite(law.fit(X, v, outputs=outputs).quantile(X, LEVELS)).all()


@pytest.mark.parametrize("kind", [ResponseLaw, ShiftedLaw])
def test_scores_that_are_no_residuals_are_refused(kind):
    X, y = rows(60, 0)
    v, outputs = around(half, X, y)
    for other in (np.abs(v), 2 * v, -v):
        with pytest.raises(
            ValueError, match=rf"{kind.__name__} came .*choose conformity_score='residual'"
        ):
            kind().fit(X, other, outputs=outputs)


def test_the_scaled_law_is_wide_where_scores_are_large():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(800, 1))
    law = ScaledLaw(random_state=0).fit(X, np.where(X[:, 0] > 0.5, 4.0, 1.0) * rng.normal(size=800))
    Q = np.linspace(0.05, 0.95, 19)[:, None]
    width = np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1)
    assert 2.5 < width[Q[:, 0] > 0.55].mean() / width[Q[:, 0] < 0.45].mean() < 6.0


def shifted(X, y, point, **models):
    v, outputs = around(point, X, y)
    return ShiftedLaw(models=models, random_state=0).fit(X, v, outputs=outputs)


def test_shifting_finds_a_mean_that_the_point_model_does_not_know():
    (X, y), (Q, _) = rows(300, 0, noise=0.2), rows(30, 1)
    law = shifted(X, y, zero, line=LinearRegression())
    assert law.weights_["line"] > 0.9
    np.testing.assert_allclose(law.quantile(Q, [0.5])[:, 0], Q[:, 0], atol=0.15)
    assert np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1).max() < 1.0
    # Far outside the blend stays within reach.
    assert np.abs(law.quantile([[1e30, -1e30]], LEVELS)).max() < 100


def test_the_point_model_keeps_its_weight_where_it_is_the_best():
    (X, y), (Q, _) = rows(200, 0, noise=0.2), rows(20, 1)
    models = {"neighbour": KNeighborsRegressor(1), "mean": KNeighborsRegressor(100)}
    law = shifted(X, y, lambda Q: np.asarray(Q)[:, 0], **models)
    assert law.weights_["point"] > 0.9
    assert sum(law.weights_.values()) == pytest.approx(1.0)
    expected = UniformLaw().fit(X, y - X[:, 0]).quantile(Q, LEVELS)
    np.testing.assert_allclose(law.quantile(Q, LEVELS), expected, atol=0.15)


def test_a_model_that_memorises_does_not_make_the_law_narrow():
    """Noise alone: the residuals of rows that a model has seen would be zero."""
    X, y = rows(300, 0)[0], np.random.default_rng(0).normal(size=300)
    law = shifted(X, y, lambda Q: np.full(len(Q), 50.0), memory=KNeighborsRegressor(1))
    assert law.weights_["memory"] > 0.9
    width = np.ptp(law.quantile(X, [0.05, 0.95]), axis=1)
    # y minus another row's y has standard deviation sqrt(2).
    assert np.median(width) > 0.85 * 2 * 1.645 * np.sqrt(2)


@pytest.mark.ci
@pytest.mark.parametrize("n", [3, 10])
def test_the_blend_works_on_a_handful_of_rows_without_a_word(n):
    X, y = rows(n, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = ShiftedLaw(ScaledLaw(), random_state=0).fit(X, y)
    assert np.isfinite(law.quantile(rows(30, 1)[0], [0.05, 0.95])).all()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_default_models_leave_the_filters_and_answer_each_row_by_itself():
    (X, y), (Q, _) = rows(60, 0), rows(20, 1)
    filters = list(warnings.filters)
    for name, model in default_models(seed=0).items():
        if isinstance(model, HistGradientBoostingRegressor):
            model.set_params(max_iter=3)
        predicted = model.fit(X, y).predict(Q)
        assert warnings.filters == filters, name
        alone = np.concatenate([model.predict(row[None]) for row in Q])
        np.testing.assert_allclose(alone, predicted, rtol=1e-12, err_msg=name)
        if isinstance(model, Network):
            np.testing.assert_allclose(predicted, MLPRegressor.predict(model, Q))


@pytest.mark.parametrize("d", [1, 3])
def test_kernel_ridge_has_the_mean_of_its_rows_and_fits_them(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, d))
    y = 50.0 + np.sin(X[:, 0]) + X[:, -1]
    model = NystroemRidge(random_state=0).fit(X, y)
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=1e-9)
    assert np.var(y - model.predict(X)) < 0.05 * np.var(y)


@pytest.mark.parametrize("noise", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("unit", [0.01, 1.0, 100.0])
def test_ridge_has_the_least_error_of_rows_left_out(noise, unit):
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=(25, 4)) + 3.0, np.ones(25)]) * unit
    y = Z[:, 0] / unit + noise * rng.normal(size=25)
    slopes, error = ridge(Z, y)
    expected = RidgeCV(alphas=ALPHAS).fit(Z, y)
    np.testing.assert_allclose(slopes, expected.coef_, rtol=1e-6, atol=1e-9)
    assert error == pytest.approx(-expected.best_score_, rel=1e-6)


def test_laws_and_models_that_are_none_are_refused():
    for law in ("foo", "auto", 3, ForestLaw):
        for outer in (ResponseLaw(law), StackedLaw(["uniform", law])):
            with pytest.raises(ValueError, match=r"law is .*; one of 'forest', 'kernel'"):
                outer.fit(*rows(20, 0))
    for models in ({"point": LinearRegression()}, [LinearRegression()], {"a": 3}):
        with pytest.raises(ValueError, match="estimators by name"):
            ShiftedLaw(models=models).fit(*rows(20, 0))


@pytest.mark.ci
def test_the_spread_is_fine_where_noise_jumps_and_coarse_where_it_is_smooth():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 8))
    jumps = np.where(np.floor(20 * X[:, 0]) % 2 == 0, 1.0, 20.0)
    smooth = np.abs(rng.laplace(size=600)) * (1.0 + X[:, 0])
    for sizes, leaf_rows in ((jumps, 5), (smooth, 30)):
        assert fit_spread(X, sizes, seed=0, n_jobs=1)[0].min_samples_leaf == leaf_rows


def test_a_spread_is_positive_and_out_of_bag(monkeypatch):
    monkeypatch.setattr(outputs_module, "SPREAD_FORESTS", ((20, 5, 0.5), (10, 30, 1.0)))
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(80, 1))
    v = np.where(X[:, 0] > 0.5, 5.0, 0.1) * rng.normal(size=80)
    # A row's own size tells nothing of its spread.
    v[7] = 1e6
    learned = with_spread(blank_outputs(v), X, v)
    assert np.all(learned.reference_spread >= FLOOR * np.median(np.abs(v)))
    assert learned.reference_spread[7] < 1e5
    nothing = with_spread(blank_outputs(np.zeros(30)), np.zeros((30, 1)), np.zeros(30))
    assert np.all(nothing.predict_spread(np.zeros((3, 1))) > 0)
