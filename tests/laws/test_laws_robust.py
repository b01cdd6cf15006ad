"""What a first user runs into: networks, few rows, units, names, filters, threads."""

import warnings

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localconformal import (
    ForestLaw,
    HiddenLayer,
    KernelLaw,
    LearnedLaw,
    ResponseLaw,
    ScaledLaw,
    ShiftedLaw,
    SLCPRegressor,
    StackedLaw,
)
from localconformal.laws.blend_models import ALPHAS, Network, NystroemRidge, ridge
from registry import ci_but, smooth_data

X, Y = smooth_data(120, seed=0)
NEW = smooth_data(30, seed=1)[0]


def network(**params):
    return MLPRegressor(hidden_layer_sizes=(6, 4), max_iter=30, random_state=0, **params)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("wrap", [lambda m: m, FrozenEstimator])
def test_a_hidden_layer_survives_the_cloning_of_its_law(wrap):
    fitted = make_pipeline(StandardScaler(), network()).fit(X, Y)
    law = KernelLaw(embedding=HiddenLayer(wrap(fitted)))
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0).fit(X, Y)
    assert np.isfinite(model.predict_interval(NEW)).all()


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_last_hidden_layer_of_the_regressors_own_network():
    model = SLCPRegressor(network(), law=KernelLaw(embedding="hidden"), random_state=0).fit(X, Y)
    layer = HiddenLayer(model.score_.model_).transform(X)
    assert layer.shape == (120, 4)
    assert np.all(layer >= 0.0)
    first = HiddenLayer(model.score_.model_, layer=0).transform(X)
    np.testing.assert_allclose(
        first, np.maximum(X @ model.score_.model_.coefs_[0] + model.score_.model_.intercepts_[0], 0)
    )


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("layer", [2, -3, 7])
def test_layers_that_are_not_there_are_refused(layer):
    with pytest.raises(ValueError, match="the network has 2 hidden layers; a number from -2 to 1"):
        HiddenLayer(network().fit(X, Y), layer).transform(X)


def test_a_model_without_layers_is_refused():
    with pytest.raises(ValueError, match="a fitted MLPRegressor was expected"):
        HiddenLayer(LinearRegression().fit(X, Y)).transform(X)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("model", [Network(max_iter=30, random_state=0), NystroemRidge(0)])
def test_models_of_the_blend_answer_each_row_by_itself(model):
    model.fit(X, Y)
    alone = np.concatenate([model.predict(NEW[i : i + 1]) for i in range(len(NEW))])
    np.testing.assert_array_equal(alone, model.predict(NEW))


@pytest.mark.parametrize("noise", [0.0, 1.0, 100.0])
def test_the_ridge_of_the_blend_is_that_of_the_library(noise):
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=(300, 20)) + 3.0, np.ones(300)])
    y = Z[:, 0] + noise * rng.normal(size=300)
    expected = RidgeCV(alphas=ALPHAS).fit(Z, y)
    slopes, error = ridge(Z, y)
    np.testing.assert_allclose(slopes, expected.coef_, atol=1e-9)
    assert error == pytest.approx(-expected.best_score_, rel=1e-6)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_row_wise_network_predicts_what_the_library_one_does():
    model = Network(max_iter=30, random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict(NEW), MLPRegressor.predict(model, NEW))


@pytest.mark.parametrize("n", [3, 10])
def test_the_blend_works_on_a_handful_of_rows_without_a_word(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = ShiftedLaw(ScaledLaw(), random_state=0).fit(X[:n], Y[:n])
    assert np.isfinite(law.quantile(NEW, [0.05, 0.95])).all()


def test_the_filter_of_warnings_is_left_as_it_was():
    before = list(warnings.filters)
    ShiftedLaw(models={"network": Network(max_iter=2)}, random_state=0).fit(X, Y)
    assert warnings.filters == before


@pytest.mark.parametrize("unit", ci_but([1e-9], [1e-9, 1e9]))
@pytest.mark.parametrize(
    "law",
    [
        ScaledLaw(),
        ForestLaw(target="size"),
        ForestLaw(target="scores"),
        ResponseLaw(ForestLaw(target="response")),
        KernelLaw(embedding="outputs-spread"),
        ShiftedLaw(models={"ridge": NystroemRidge(0)}),
    ],
    ids=["spread", "size", "scores", "response", "outputs-spread", "blend"],
)
def test_the_unit_of_the_response_does_not_matter(law, unit):
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0)
    plain = model.fit(X, Y).predict_interval(NEW)
    np.testing.assert_allclose(
        model.fit(X, unit * Y).predict_interval(NEW) / unit, plain, rtol=1e-5
    )


@pytest.mark.parametrize("models", [{"point": LinearRegression()}, [LinearRegression()], {"a": 3}])
def test_models_of_a_blend_need_names_of_their_own(models):
    with pytest.raises(ValueError, match="estimators by name"):
        ShiftedLaw(models=models).fit(X, Y)


@pytest.mark.parametrize("law", ["foo", "auto", 3, ForestLaw])
def test_laws_that_are_none_are_refused(law):
    for outer in (ScaledLaw(law), StackedLaw(["uniform", law])):
        with pytest.raises(ValueError, match=r"law is .*; one of 'forest', 'kernel'"):
            outer.fit(X, Y)


@pytest.mark.parametrize("params", [{"laws": 3}, {"laws": []}, {"n_folds": 1}, {"n_folds": 2.5}])
def test_stacks_of_nothing_are_refused(params):
    with pytest.raises(ValueError, match=r"was expected\.$"):
        StackedLaw(**params).fit(X, Y)


@pytest.mark.parametrize("levels", [("a", "b"), (0.5,), (0.9, 0.1), (0.0, 0.5)])
def test_levels_that_are_none_are_refused(levels):
    with pytest.raises(ValueError, match="increasing numbers inside"):
        LearnedLaw(levels=levels).fit(X, Y)


def test_threads_reach_the_laws_within():
    law = ScaledLaw(ForestLaw(), random_state=0, n_jobs=1).fit(X, Y)
    assert law.law_.model_.n_jobs == 1
    stack = StackedLaw(["uniform", "forest"], weights=[1, 1], random_state=0, n_jobs=1).fit(X, Y)
    assert stack.laws_[1].model_.n_jobs == 1
