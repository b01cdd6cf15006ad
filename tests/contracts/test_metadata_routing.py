"""scikit-learn's metadata routing: weights reach the models that request them, and no others."""

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import localconformal as lc
from registry import ESTIMATORS, ci_but, light, smooth_data

X, Y = smooth_data(160, seed=0)
WEIGHT = np.where(X[:, 0] > 0, 1.0, 1e-9)
NEW = X[:20]
EACH = pytest.mark.parametrize(
    "estimator_class",
    ci_but(
        {lc.MondrianConformalRegressor, lc.SLCPRegressor, lc.SplitConformalRegressor}, ESTIMATORS
    ),
)


@pytest.fixture(autouse=True)
def _enabled():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def asking(model, value=True):
    """The estimator with a base model that answers this when asked for weights."""
    base = clone(model.get_params()["estimator"]).set_fit_request(sample_weight=value)
    return clone(model).set_params(estimator=base)


def without_routing(model, **fit_params):
    with sklearn.config_context(enable_metadata_routing=False):
        return clone(model).fit(X, Y, **fit_params).predict(NEW)


@EACH
def test_a_base_model_that_requests_weights_gets_them(estimator_class):
    model = light(estimator_class)
    weighted = asking(model).fit(X, Y, sample_weight=WEIGHT).predict(NEW)
    np.testing.assert_array_equal(weighted, without_routing(model, sample_weight=WEIGHT))
    assert not np.array_equal(weighted, without_routing(model))


@EACH
def test_a_base_model_that_requests_none_gets_none(estimator_class):
    model = light(estimator_class)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        clone(model).fit(X, Y, sample_weight=WEIGHT)
    with pytest.raises(TypeError, match="sample_weight"):
        asking(model, False).fit(X, Y, sample_weight=WEIGHT)
    scored = asking(model, False).set_score_request(sample_weight=True)
    weights = {"sample_weight": WEIGHT}
    found = cross_validate(scored, X, Y, params=weights, cv=2, return_estimator=True)["estimator"]
    plain = cross_validate(model, X, Y, params={}, cv=2, return_estimator=True)["estimator"]
    for one, other in zip(found, plain, strict=True):
        np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


class Mute:
    """A model that cannot request anything: the weighted mean."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y, sample_weight=None):
        self.mean = np.average(y, weights=sample_weight)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean)


@pytest.mark.parametrize("estimator", [None, Mute()], ids=["default", "mute"])
def test_a_request_here_speaks_for_a_base_model_that_cannot(estimator):
    model = lc.SplitConformalRegressor(estimator, random_state=0).set_score_request(
        sample_weight=False
    )

    def fitted(model):
        search = GridSearchCV(model, {"confidence_level": [0.9]}, cv=2)
        return search.fit(X, Y, sample_weight=WEIGHT).best_estimator_

    asked = fitted(clone(model).set_fit_request(sample_weight=True)).predict(NEW)
    np.testing.assert_array_equal(asked, without_routing(model, sample_weight=WEIGHT))
    assert not np.array_equal(asked, without_routing(model))
    with pytest.raises(UnsetMetadataPassedError, match="SplitConformalRegressor"):
        fitted(model)


def piped(request):
    """A line behind a scaler, which asks for weights by this request."""
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    return make_pipeline(scaler, LinearRegression().set_fit_request(sample_weight=request))


def test_an_alias_and_a_pipeline_are_followed():
    model = lc.SplitConformalRegressor(piped("importance"), random_state=0)
    found = model.fit(X, Y, importance=WEIGHT).predict(NEW)
    expected = without_routing(light(lc.SplitConformalRegressor), sample_weight=WEIGHT)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("backend", ci_but({"threading"}, ["threading", "loky"]))
def test_folds_are_routed_wherever_they_are_fitted(backend):
    model = lc.SLCPRegressor(piped(True), law="uniform", random_state=0)
    alone = clone(model).fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    with joblib.parallel_config(backend):
        together = model.set_params(n_jobs=2).fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    np.testing.assert_array_equal(alone, together)


def test_several_base_models_request_the_same_or_are_refused():
    low, high = (QuantileRegressor(quantile=q, alpha=0) for q in (0.05, 0.95))
    both = [one.set_fit_request(sample_weight=True) for one in (low, high)]
    model = lc.ConformalizedQuantileRegressor(tuple(both), random_state=0)
    found = clone(model).fit(X, Y, sample_weight=WEIGHT).predict(NEW)
    np.testing.assert_array_equal(found, without_routing(model, sample_weight=WEIGHT))
    high.set_fit_request(sample_weight=False)
    with pytest.raises(ValueError, match="call set_fit_request with the same"):
        lc.ConformalizedQuantileRegressor((low, high)).fit(X, Y, sample_weight=WEIGHT)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (lc.ConditionalConformalRegressor, "groups"),
        (lc.MondrianConformalRegressor, "groups"),
        (lc.WeightedConformalRegressor, "weights"),
    ],
)
def test_what_a_method_takes_beside_x_is_routed_to_it(kind, name):
    value, asked = 1.0 + (X[:, 0] > 0), light(kind).set_fit_request(**{name: True})
    found = cross_validate(asked, X, Y, params={name: value}, cv=2, return_estimator=True)
    for one in found["estimator"]:
        assert np.isfinite(one.predict_interval(NEW, **{name: value[:20]})).any()
