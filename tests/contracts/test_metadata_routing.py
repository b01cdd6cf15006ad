"""scikit-learn's metadata routing: weights reach the models that request them, and no others."""

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localconformal import (
    ConformalizedQuantileRegressor,
    MondrianConformalRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
    WeightedConformalRegressor,
)
from registry import ESTIMATORS, ci_but, light, smooth_data

X, Y = smooth_data(160, seed=0)
WEIGHT = np.where(X[:, 0] > 0, 1.0, 1e-9)
NEW = X[:20]
EACH = pytest.mark.parametrize(
    "estimator_class",
    ci_but({MondrianConformalRegressor, SLCPRegressor, SplitConformalRegressor}, ESTIMATORS),
)


@pytest.fixture(autouse=True)
def _enabled():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def base_of(model):
    return model.get_params()["estimator"]


def asking(model, value=True):
    """The estimator with a base model that answers this when asked for weights."""
    return clone(model).set_params(
        estimator=clone(base_of(model)).set_fit_request(sample_weight=value)
    )


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
    # Asked for by another: by a scorer, say.
    found = cross_validate(
        asking(model, False).set_score_request(sample_weight=True),
        X,
        Y,
        params={"sample_weight": WEIGHT},
        cv=2,
        return_estimator=True,
    )
    plain = cross_validate(model, X, Y, params={}, cv=2, return_estimator=True)
    for one, other in zip(found["estimator"], plain["estimator"], strict=True):
        np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


def test_weights_go_through_validation_and_searches():
    model = asking(light(SplitConformalRegressor)).set_score_request(sample_weight=False)
    found = cross_validate(
        model, X, Y, params={"sample_weight": WEIGHT}, cv=2, return_estimator=True
    )
    plain = cross_validate(light(SplitConformalRegressor), X, Y, params={}, cv=2)
    assert not np.array_equal(found["test_score"], plain["test_score"])
    search = GridSearchCV(model, {"confidence_level": [0.8, 0.9]}, cv=2)
    best = search.fit(X, Y, sample_weight=WEIGHT).best_estimator_
    expected = without_routing(light(SplitConformalRegressor), sample_weight=WEIGHT)
    np.testing.assert_array_equal(best.predict(NEW), expected)


class Recorder(RegressorMixin, BaseEstimator):
    """A model of scikit-learn's kind that keeps the weights it got."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = sample_weight
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Mute:
    """A model that cannot request anything."""

    def __init__(self):
        self.inner = Recorder()

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y, sample_weight=None):
        self.inner.fit(X, y, sample_weight)
        return self

    def predict(self, X):
        return self.inner.predict(X)


@pytest.mark.parametrize("estimator", [None, Mute()], ids=["default", "mute"])
def test_a_request_here_speaks_for_a_base_model_that_cannot(estimator):
    model = SplitConformalRegressor(estimator, random_state=0).set_score_request(
        sample_weight=False
    )
    expected = clone(model).fit(X, Y, sample_weight=WEIGHT)

    def fitted(model):
        search = GridSearchCV(model, {"confidence_level": [0.9]}, cv=2)
        return search.fit(X, Y, sample_weight=WEIGHT).best_estimator_

    asked = fitted(clone(model).set_fit_request(sample_weight=True))
    np.testing.assert_array_equal(asked.predict(NEW), expected.predict(NEW))
    if estimator is not None:
        assert asked.score_.model_.inner.seen_ is not None
    with pytest.raises(UnsetMetadataPassedError, match="SplitConformalRegressor"):
        fitted(model)


def test_an_alias_and_a_pipeline_are_followed():
    steps = (
        StandardScaler().set_fit_request(sample_weight=False),
        LinearRegression().set_fit_request(sample_weight="importance"),
    )
    model = SplitConformalRegressor(make_pipeline(*steps), random_state=0)
    found = model.fit(X, Y, importance=WEIGHT).predict(NEW)
    expected = without_routing(light(SplitConformalRegressor), sample_weight=WEIGHT)
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("backend", ci_but({"threading"}, ["threading", "loky"]))
def test_folds_are_routed_wherever_they_are_fitted(backend):
    steps = (
        StandardScaler().set_fit_request(sample_weight=False),
        LinearRegression().set_fit_request(sample_weight=True),
    )
    model = SLCPRegressor(make_pipeline(*steps), law="uniform", random_state=0)
    alone = clone(model).fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    with joblib.parallel_config(backend):
        together = model.set_params(n_jobs=2).fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    np.testing.assert_array_equal(alone, together)


def test_several_base_models_request_the_same_or_are_refused():
    low, high = (QuantileRegressor(quantile=q, alpha=0) for q in (0.05, 0.95))
    both = [one.set_fit_request(sample_weight=True) for one in (low, high)]
    model = ConformalizedQuantileRegressor(tuple(both), random_state=0)
    found = model.fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    with sklearn.config_context(enable_metadata_routing=False):
        expected = clone(model).fit(X, Y, sample_weight=WEIGHT).predict_interval(NEW)
    np.testing.assert_array_equal(found, expected)
    high.set_fit_request(sample_weight=False)
    with pytest.raises(ValueError, match="set the same requests"):
        ConformalizedQuantileRegressor((low, high)).fit(X, Y, sample_weight=WEIGHT)
    high.set_fit_request(sample_weight="importance")
    with pytest.raises(ValueError, match="set the same requests"):
        ConformalizedQuantileRegressor((low, high)).fit(
            X, Y, sample_weight=WEIGHT, importance=1.0 - WEIGHT
        )


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (light(MondrianConformalRegressor), "groups"),
        (light(WeightedConformalRegressor), "weights"),
    ],
)
def test_what_a_method_takes_beside_x_is_routed_to_it(model, name):
    value = 1.0 + (X[:, 0] > 0)
    asked = clone(model).set_fit_request(**{name: True})
    found = cross_validate(asked, X, Y, params={name: value}, cv=2, return_estimator=True)
    for one in found["estimator"]:
        assert np.isfinite(one.predict_interval(NEW, **{name: value[:20]})).any()


@pytest.mark.ci
def test_a_model_that_requested_weights_can_be_saved(tmp_path):
    from localconformal.io.models import load_model, save_model

    scaler = StandardScaler().set_fit_request(sample_weight=False)
    base = make_pipeline(scaler, LinearRegression().set_fit_request(sample_weight=True))
    model = SplitConformalRegressor(base, random_state=0).fit(X, Y, sample_weight=WEIGHT)
    again = load_model(save_model(model, tmp_path / "model.skops"))
    np.testing.assert_array_equal(again.predict_interval(NEW), model.predict_interval(NEW))
    # The model itself still asks for weights.
    model.fit(X, Y, sample_weight=WEIGHT)
