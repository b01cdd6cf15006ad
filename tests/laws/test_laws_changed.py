"""Laws of a transformed score: in units of a spread, of the response, around a better model."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from localconformal import (
    KernelLaw,
    LocalizedConformalRegressor,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    UniformLaw,
)
from localconformal.laws import outputs as outputs_module
from localconformal.laws.blend_models import default_models
from localconformal.laws.changed import Change
from localconformal.laws.knots import GRID
from localconformal.laws.outputs import Outputs, blank_outputs
from localconformal.laws.shifted import blend_weights

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
LINE = {"line": LinearRegression()}


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
    v, outputs = around(half, X, y)
    law = ResponseLaw(NeighborsLaw(n_neighbors=30)).fit(X, v, outputs=outputs)
    direct = NeighborsLaw(n_neighbors=30).fit(X, y)
    expected = direct.quantile(Q, LEVELS) - half(Q)[:, None]
    np.testing.assert_allclose(law.quantile(Q, LEVELS), expected, atol=1e-8)
    # The same response, whatever the point model: the interval does not move.
    other = ResponseLaw(NeighborsLaw(n_neighbors=30))
    other.fit(X, y, outputs=Outputs(zero, zero(X), y))
    np.testing.assert_allclose(other.quantile(Q, LEVELS), expected + half(Q)[:, None], atol=1e-8)


@pytest.mark.parametrize("kind", [ResponseLaw, ShiftedLaw])
def test_scores_that_are_no_residuals_are_refused(kind):
    X, y = rows(60, 0)
    v, outputs = around(half, X, y)
    for other in (np.abs(v), 2 * v, -v):
        with pytest.raises(ValueError, match=f"{kind.__name__} came with a score other than"):
            kind().fit(X, other, outputs=outputs)
    model = LocalizedConformalRegressor(LinearRegression(), law=kind(), score="absolute")
    with pytest.raises(ValueError, match="choose score='residual'"):
        model.fit(X, y)


@pytest.mark.parametrize("far", [1e9, 1e-9])
def test_residuals_are_known_at_any_scale(far):
    X, y = rows(60, 0)
    v, outputs = around(half, X, far * y + 7.0 * far)
    assert np.isfinite(ResponseLaw().fit(X, v, outputs=outputs).quantile(X, LEVELS)).all()


@pytest.mark.parametrize("law", [ScaledLaw("kernel"), ResponseLaw("kernel")], ids=str)
def test_scaling_the_scores_scales_the_quantiles(law):
    (X, v), (Q, _) = rows(120, 0), rows(20, 1)
    law.set_params(random_state=0)
    one = law.fit(X, v).quantile(Q, LEVELS)
    for c in (2.0**-20, 2.0**20):
        np.testing.assert_allclose(law.fit(X, c * v).quantile(Q, LEVELS), c * one, rtol=1e-9)


def test_shifting_scales_with_the_scores():
    (X, v), (Q, _) = rows(120, 0), rows(20, 1)
    law = ShiftedLaw("kernel", LINE, random_state=0)
    one = law.fit(X, v).quantile(Q, LEVELS)
    for c in (2.0**-20, 2.0**20):
        np.testing.assert_allclose(law.fit(X, c * v).quantile(Q, LEVELS), c * one, rtol=1e-6)


def test_the_scaled_law_is_wide_where_scores_are_large():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(800, 1))
    sigma = np.where(X[:, 0] > 0.5, 4.0, 1.0)
    law = ScaledLaw(random_state=0).fit(X, sigma * rng.normal(size=800))
    Q = np.linspace(0.05, 0.95, 19)[:, None]
    width = np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1)
    assert 2.5 < width[Q[:, 0] > 0.55].mean() / width[Q[:, 0] < 0.45].mean() < 6.0
    # Without localization of W, all rows share one shape.
    shape = law.rows([[0.2], [0.8]]).values
    np.testing.assert_allclose(shape[0] / shape[0, 5], shape[1] / shape[1, 5], rtol=1e-9)


def test_the_spread_of_a_score_of_zeros_is_harmless():
    law = ScaledLaw(random_state=0).fit(np.zeros((40, 1)), np.zeros(40))
    np.testing.assert_array_equal(law.quantile([[0.0]], LEVELS), 0.0)


def test_a_spread_that_is_known_is_used(monkeypatch):
    X, y = rows(50, 0)
    v, outputs = around(zero, X, y)
    known = Outputs(zero, outputs.reference, y, None, lambda Q: np.full(len(Q), 3.0), np.ones(50))
    monkeypatch.setattr(outputs_module, "fit_spread", None)
    law = ScaledLaw().fit(X, v, outputs=known)
    expected = 3.0 * UniformLaw().fit(X, v).quantile(X[:1], LEVELS)
    np.testing.assert_allclose(law.quantile(X[:1], LEVELS), expected, rtol=1e-6)


def test_shifting_finds_a_mean_that_the_point_model_does_not_know():
    (X, y), (Q, _) = rows(300, 0, noise=0.2), rows(30, 1)
    v, outputs = around(zero, X, y)
    law = ShiftedLaw(models=LINE, random_state=0).fit(X, v, outputs=outputs)
    assert law.weights_["line"] > 0.9
    np.testing.assert_allclose(law.quantile(Q, [0.5])[:, 0], Q[:, 0], atol=0.15)
    assert np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1).max() < 1.0


def test_the_point_model_keeps_its_weight_where_it_is_the_best():
    (X, y), (Q, _) = rows(200, 0, noise=0.2), rows(20, 1)
    v, outputs = around(lambda Q: np.asarray(Q)[:, 0], X, y)
    models = {"neighbour": KNeighborsRegressor(1), "mean": KNeighborsRegressor(100)}
    law = ShiftedLaw(models=models, random_state=0).fit(X, v, outputs=outputs)
    assert law.weights_["point"] > 0.9
    assert sum(law.weights_.values()) == pytest.approx(1.0)
    expected = UniformLaw().fit(X, v).quantile(Q, LEVELS)
    np.testing.assert_allclose(law.quantile(Q, LEVELS), expected, atol=0.15)


def test_a_model_that_memorises_does_not_make_the_law_narrow():
    """Noise alone: the residuals of rows that a model has seen would be zero."""
    rng = np.random.default_rng(0)
    (X, _), y = rows(300, 0), rng.normal(size=300)
    v, outputs = around(lambda Q: np.full(len(Q), 50.0), X, y)
    law = ShiftedLaw(models={"memory": KNeighborsRegressor(1)}, random_state=0)
    law.fit(X, v, outputs=outputs)
    assert law.weights_["memory"] > 0.9
    width = np.ptp(law.quantile(X, [0.05, 0.95]), axis=1)
    # y minus another row's y has standard deviation sqrt(2).
    assert np.median(width) > 0.85 * 2 * 1.645 * np.sqrt(2)


def test_more_models_than_the_least_weight_allows_for():
    _, y = rows(60, 0)
    same = {f"line {i}": y + 1.0 for i in range(40)}
    weights = blend_weights({"point": y + 1.0, **same}, y)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert all(weight > 0 for weight in weights.values())


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_blend_of_few_rows_works(n):
    X, y = rows(n, 0)
    law = ShiftedLaw(models=LINE, random_state=0).fit(X, y)
    assert np.isfinite(law.quantile(X, LEVELS)).all()


def test_the_default_models_are_of_different_kinds_and_take_any_rows():
    X, y = rows(40, 0)
    for name, model in default_models(seed=0).items():
        if isinstance(model, HistGradientBoostingRegressor):
            model.set_params(max_iter=3)
        predicted = model.fit(X, y).predict(X)
        assert predicted.shape == (40,), name
        assert np.isfinite(predicted).all(), name


def test_far_outside_the_blend_stays_within_reach():
    X, y = rows(100, 0)
    law = ShiftedLaw(models=LINE, random_state=0).fit(X, y)
    assert np.abs(law.quantile([[1e30, -1e30]], LEVELS)).max() < 100


def test_changes_within_changes_work():
    (X, y), (Q, _) = rows(150, 0), rows(20, 1)
    v, outputs = around(half, X, y)
    law = ShiftedLaw(ScaledLaw(KernelLaw(bandwidth=0.5)), LINE, random_state=0)
    values = law.fit(X, v, outputs=outputs).rows(Q).values
    assert values.shape == (20, len(GRID))
    assert np.all(np.diff(values, axis=1) >= 0)


def test_a_seed_fixes_everything():
    (X, y), (Q, _) = rows(90, 0), rows(5, 1)
    law = ScaledLaw("kernel")
    first, again, other = (
        law.set_params(random_state=s).fit(X, y).quantile(Q, LEVELS) for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_the_spread_is_fine_where_noise_jumps_and_coarse_where_it_is_smooth():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 8))
    noise = np.abs(rng.laplace(size=600))
    for sizes, leaf_rows in (
        (np.where(np.floor(20 * X[:, 0]) % 2 == 0, 1.0, 20.0), 5),
        (noise * (1.0 + X[:, 0]), 30),
    ):
        model, known = outputs_module.fit_spread(X, sizes, seed=0, n_jobs=1)
        assert model.min_samples_leaf == leaf_rows
        assert known.shape == (600,)
        assert np.all(known > 0)


def test_a_change_of_variable_is_undone_at_reference_rows_and_at_others():
    rng = np.random.default_rng(0)
    location, scale, v = rng.normal(size=6), 0.5 + rng.random(6), rng.normal(size=6)
    change = Change(location, scale, lambda X: (location[:2], scale[:2]), blank_outputs(v))
    W = change.standardise(v)
    np.testing.assert_allclose(W, (v - location) / scale)
    np.testing.assert_allclose(change.restore_reference(W[:, None])[:, 0], v)
    np.testing.assert_allclose(change.restore(W[:2, None], None)[:, 0], v[:2])
    some = change.take(np.array([4, 1]))
    np.testing.assert_allclose(some.restore_reference(W[[4, 1], None])[:, 0], v[[4, 1]])
    np.testing.assert_array_equal(some.outputs.response, v[[4, 1]])
