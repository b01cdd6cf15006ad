"""Laws of a transformed score: in units of a spread, of the response, around a better model."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor

from localconformal import (
    ForestLaw,
    LocalizedConformalRegressor,
    NeighborsLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    StackedLaw,
    UniformLaw,
)
from localconformal.laws import outputs as outputs_module
from localconformal.laws.blend_models import ALPHAS, Network, NystroemRidge, default_models, ridge
from localconformal.laws.changed import Change
from localconformal.laws.once import Once, one_query
from localconformal.laws.outputs import FLOOR, Outputs, blank_outputs, with_spread
from localconformal.laws.outputs import around as in_units_of
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
    # Residuals are known as such wherever zero lies.
    v, outputs = around(half, X, y + 1e9)
    assert np.isfinite(law.fit(X, v, outputs=outputs).quantile(X, LEVELS)).all()


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


def test_a_spread_that_is_known_is_used(monkeypatch):
    X, y = rows(50, 0)
    v, outputs = around(zero, X, y)
    known = Outputs(zero, outputs.reference, y, None, lambda Q: np.full(len(Q), 3.0), np.ones(50))
    monkeypatch.setattr(outputs_module, "fit_spread", None)
    law = ScaledLaw().fit(X, v, outputs=known)
    expected = 3.0 * UniformLaw().fit(X, v).quantile(X[:1], LEVELS)
    np.testing.assert_allclose(law.quantile(X[:1], LEVELS), expected, rtol=1e-6)


# ---- around a blend of models -----------------------------------------------------------------


def shifted(X, y, point, **models):
    v, outputs = around(point, X, y)
    return ShiftedLaw(models=models, random_state=0).fit(X, v, outputs=outputs)


def test_shifting_finds_a_mean_that_the_point_model_does_not_know():
    (X, y), (Q, _) = rows(300, 0, noise=0.2), rows(30, 1)
    law = shifted(X, y, zero, **LINE)
    assert law.weights_["line"] > 0.9
    np.testing.assert_allclose(law.quantile(Q, [0.5])[:, 0], Q[:, 0], atol=0.15)
    assert np.ptp(law.quantile(Q, [0.05, 0.95]), axis=1).max() < 1.0
    # Far outside the blend stays within reach.
    assert np.abs(law.quantile([[1e30, -1e30]], LEVELS)).max() < 100
    # More models than the least weight allows for.
    many = blend_weights({"point": y + 1.0, **{f"line {i}": y + 1.0 for i in range(40)}}, y)
    assert sum(many.values()) == pytest.approx(1.0)
    assert all(weight > 0 for weight in many.values())


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
def test_the_default_models_are_of_different_kinds_take_any_rows_and_answer_each_by_itself():
    (X, y), (Q, _) = rows(60, 0), rows(20, 1)
    models, filters = default_models(seed=0), list(warnings.filters)
    assert len({type(model) for model in models.values()}) > 1
    for name, model in models.items():
        if isinstance(model, HistGradientBoostingRegressor):
            model.set_params(max_iter=3)
        predicted = model.fit(X, y).predict(Q)
        assert predicted.shape == (20,), name
        assert np.isfinite(predicted).all(), name
        assert warnings.filters == filters, name
        if isinstance(model, Network | NystroemRidge):
            alone = np.concatenate([model.predict(Q[i : i + 1]) for i in range(len(Q))])
            np.testing.assert_array_equal(alone, predicted, err_msg=name)
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

    def left_out(alpha):
        for i in range(25):
            rest = np.arange(25) != i
            model = Ridge(alpha=alpha).fit(Z[rest], y[rest])
            yield float(y[i] - model.predict(Z[[i]])[0]) ** 2

    slopes, error = ridge(Z, y)
    expected = RidgeCV(alphas=ALPHAS).fit(Z, y)
    np.testing.assert_allclose(slopes, expected.coef_, rtol=1e-6, atol=1e-9)
    assert error == pytest.approx(np.mean(list(left_out(expected.alpha_))), rel=1e-6)
    assert error == pytest.approx(-expected.best_score_, rel=1e-6)


def test_laws_and_models_that_are_none_are_refused():
    for law in ("foo", "auto", 3, ForestLaw):
        for outer in (ResponseLaw(law), StackedLaw(["uniform", law])):
            with pytest.raises(ValueError, match=r"law is .*; one of 'forest', 'kernel'"):
                outer.fit(*rows(20, 0))
    for models in ({"point": LinearRegression()}, [LinearRegression()], {"a": 3}):
        with pytest.raises(ValueError, match="estimators by name"):
            ShiftedLaw(models=models).fit(*rows(20, 0))


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


# ---- what the point model says, and its spread ------------------------------------------------


@pytest.mark.ci
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


@pytest.mark.parametrize("spread", [False, True])
def test_parts_have_their_rows_only_and_held_out_rows_what_was_said_without_them(spread):
    n, rest, fold = 10, np.array([0, 1, 5, 9]), np.array([8, 2])
    outputs = Outputs(
        lambda X: np.asarray(X)[:, 0],
        np.arange(n) + 0.0,
        np.arange(n) + 10.0,
        model="the model",
        predict_spread=(lambda X: np.ones(len(X))) if spread else None,
        reference_spread=np.arange(n) + 100.0 if spread else None,
    )
    part, without = outputs.take(rest), outputs.held_out(rest, fold)
    for one in (part, without):
        np.testing.assert_array_equal(one.reference, outputs.reference[rest])
        np.testing.assert_array_equal(one.response, outputs.response[rest])
    np.testing.assert_array_equal(part.predict([[5.0]]), [5.0])
    assert part.model == "the model"
    if spread:
        np.testing.assert_array_equal(part.reference_spread, outputs.reference_spread[rest])
    else:
        assert part.reference_spread is None
    # The function at these rows would be another number: it has seen them.
    np.testing.assert_array_equal(without.predict([[5.0], [6.0]]), outputs.reference[fold])
    # The spread has seen the scores of the fold.
    assert without.predict_spread is None
    assert without.reference_spread is None


def test_a_spread_is_positive_out_of_bag_and_learned_once():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    v = np.where(X[:, 0] > 0.5, 5.0, 0.1) * rng.normal(size=300)
    # A row's own size tells nothing of its spread.
    v[7] = 1e6
    learned = with_spread(blank_outputs(v), X, v)
    assert np.all(learned.reference_spread >= FLOOR * np.median(np.abs(v)))
    assert learned.reference_spread[7] < 1e5
    assert np.all(learned.predict_spread([[0.1], [0.9]]) > 0)
    assert with_spread(learned, X, v) is learned
    learned = with_spread(blank_outputs(np.zeros(30)), np.zeros((30, 1)), np.zeros(30))
    assert np.all(learned.reference_spread > 0)
    assert np.all(learned.predict_spread(np.zeros((3, 1))) > 0)


def test_predictions_are_in_units_of_their_own_and_within_float32():
    seen = in_units_of(np.array([5.0, -1e308]), 2.0, 1e-10)
    np.testing.assert_array_equal(seen, [3e10, -1e30])
    assert np.all(np.isfinite(seen.astype(np.float32)))


class Counted:
    """A function that knows how often it was called."""

    def __init__(self, value=0.0):
        self.calls, self.value = 0, value

    def __call__(self, X):
        self.calls += 1
        return np.full(len(X), self.value)


def test_an_answer_is_remembered_inside_the_block_only_even_after_an_error():
    function, X = Counted(), np.zeros((3, 1))
    once = Once(function)
    once(X), once(X)
    assert function.calls == 2
    with one_query():
        once(X), once(X)
        with one_query():
            once(X)
        once(X)
    assert function.calls == 3

    def fails():
        with one_query():
            once(X)
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    once(X)
    assert function.calls == 5


def test_only_the_same_object_counts_as_the_same_rows():
    function, X = Counted(), np.zeros((3, 1))
    once, other = Once(function), Once(function)
    with one_query():
        once(X), once(X.copy()), other(X)
        assert function.calls == 3
        # Objects that are gone leave their identities to others.
        for value in range(20):
            assert Once(Counted(value))(X)[0] == value
        for length in range(1, 20):
            assert len(once(np.zeros((length, 1)))) == length


def test_threads_have_memories_of_their_own():
    function, X = Counted(), np.zeros((3, 1))
    once = Once(function)

    def ask(_):
        with one_query():
            return once(X)[0], once(X)[0]

    with ThreadPoolExecutor(4) as pool, one_query():
        once(X)
        assert list(pool.map(ask, range(20))) == [(0.0, 0.0)] * 20
    assert function.calls == 21
