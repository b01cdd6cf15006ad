"""Weighted conformal prediction: equality with split conformal, the definition, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from localconformal import SplitConformalRegressor
from localconformal.quantiles import weighted_conformal_quantile
from localconformal.regressors.density_ratio import fit_ratio
from localconformal.regressors.weighted import WeightedConformalRegressor
from registry import smooth_data


def weighted(**params):
    return WeightedConformalRegressor(LinearRegression(), **{"random_state": 0, **params})


def ratio(X):
    return np.exp(np.asarray(X)[:, 0])


@pytest.mark.parametrize("weights", [None, lambda X: np.full(len(X), 7.0)], ids=["none", "equal"])
def test_equal_weights_are_split_conformal(weights):
    X, y = smooth_data(300, seed=0)
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    model = weighted(weights=weights, score="absolute").fit(X, y)
    levels = [0.5, 0.9, 0.95]
    np.testing.assert_array_equal(
        model.predict_interval(X, levels), split.predict_interval(X, levels)
    )


def test_intervals_are_those_of_the_definition():
    X, y = smooth_data(200, seed=1)
    X_cal, y_cal = smooth_data(80, seed=2)
    rng = np.random.default_rng(0)
    held, own = rng.uniform(size=80), rng.uniform(0.0, 8.0, size=200)
    model = weighted(score="absolute", calibration_size=None)
    model.fit(X, y, weights=np.ones(200)).conformalize(X_cal, y_cal, weights=held)
    scores = np.abs(y_cal - model.predict(X_cal))
    expected = [weighted_conformal_quantile(scores, held, w, 0.9) for w in own]
    with pytest.warns(UserWarning, match="of 200 intervals are infinite"):
        lower, upper = model.predict_interval(X, weights=own).T
    np.testing.assert_allclose((upper - lower) / 2.0, expected, rtol=1e-9)
    assert np.isinf(expected).any()
    diagnosis = model.diagnose(X, weights=own)
    assert np.allclose(diagnosis["effective_sample_size"], held.sum() ** 2 / (held**2).sum())


def test_rows_without_any_weight():
    X, y = smooth_data(200, seed=1)
    model = weighted(weights=lambda X: np.zeros(len(X))).fit(X, y)
    with pytest.warns(UserWarning, match="infinite"):
        assert np.all(np.isinf(model.predict_interval(X)))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_with_categories_and_missing_values(kind):
    rng = np.random.default_rng(0)
    columns = {
        "a": np.where(rng.uniform(size=300) < 0.1, np.nan, rng.normal(size=300)),
        "b": rng.integers(0, 3, size=300).astype(float),
    }
    X, y = kind(columns), rng.normal(size=300)
    target = kind({name: column[:100] for name, column in columns.items()})
    model = WeightedConformalRegressor(random_state=0).fit(X, y, target=target)
    assert isinstance(model.predict_interval(target, output="frame"), kind)


@pytest.mark.parametrize(
    ("params", "fit", "told"),
    [
        ({"weights": ratio}, {"weights": np.ones(50)}, "pass one of them"),
        ({"weights": ratio}, {"target": np.zeros((9, 2))}, "pass one of them"),
        ({}, {"weights": np.ones(50), "target": np.zeros((9, 2))}, "pass one of them"),
        ({"weights": LogisticRegression()}, {}, "target= of fit"),
        ({"weights": LogisticRegression()}, {"weights": np.ones(50)}, "pass one of them"),
        ({"weights": lambda X: np.ones(3)}, {}, "for each of"),
        ({"weights": lambda X: -np.ones(len(X))}, {}, "are negative or not finite, such as -1"),
        ({}, {"weights": np.full(50, np.nan)}, "such as nan"),
        ({}, {"weights": np.ones(49)}, "inconsistent"),
        ({}, {"target": np.zeros((9, 3))}, "target, the new rows.*3 features"),
    ],
)
def test_bad_weights(params, fit, told):
    X, y = smooth_data(50, seed=0)
    model = weighted(**params)
    with pytest.raises(ValueError, match=told):
        model.fit(X, y, **fit)


def test_learned_weights_do_not_depend_on_how_many_rows_there_are_of_each_kind():
    rng = np.random.default_rng(0)
    X, target = rng.normal(size=(300, 1)), rng.normal(1.0, size=(300, 1))
    classifier = LogisticRegression(C=1e6)
    one, many = (
        fit_ratio(classifier, np.repeat(X, times, axis=0), target, 0.01, 0)(X) for times in (1, 100)
    )
    np.testing.assert_allclose(many, one, rtol=0.3)


def test_without_a_shift_learned_weights_are_even():
    rng = np.random.default_rng(1)
    X, target, fresh = (rng.normal(size=(n, 5)) for n in (600, 150, 500))
    w = fit_ratio(None, X, target, 0.01, 0)(fresh)
    assert w.std() / w.mean() < 0.35


def test_weights_come_everywhere_or_nowhere():
    X, y = smooth_data(80, seed=0)
    model = weighted()
    with pytest.raises(ValueError, match="came here but not to fit"):
        model.fit(X, y).predict_interval(X, weights=np.ones(80))
    with pytest.raises(ValueError, match="came to fit but not here"):
        model.fit(X, y, weights=np.ones(80)).predict_interval(X)


def test_there_is_no_distribution_and_the_guarantee_says_what_is_assumed():
    X, y = smooth_data(80, seed=0)
    model = weighted().fit(X, y)
    assert model.guarantee_.predictive is None
    with pytest.raises(ValueError, match="weighs calibration rows"):
        model.predict_quantiles(X, [0.5])
    known = model.fit(X, y, weights=np.ones(80)).guarantee_
    assert known.marginal
    assert known.finite_sample
    assert "ratio of the two densities" in str(known)
