"""Weighted conformal prediction: equality with split conformal, the definition, errors."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from localconformal import SplitConformalRegressor, WeightedConformalRegressor
from localconformal.quantiles import weighted_conformal_quantile
from registry import smooth_data

X, Y = smooth_data(200, seed=1)
ONES = np.ones(200)


def weighted(**params):
    return WeightedConformalRegressor(LinearRegression(), **{"random_state": 0, **params})


@pytest.mark.parametrize("weights", [None, lambda X: np.full(len(X), 7.0)], ids=["none", "equal"])
def test_equal_weights_are_split_conformal(weights):
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, Y)
    model = weighted(weights=weights, conformity_score="absolute").fit(X, Y)
    levels = [0.5, 0.9, 0.95]
    expected = split.predict_interval(X, levels)
    np.testing.assert_array_equal(model.predict_interval(X, levels), expected)


def test_intervals_are_those_of_the_definition():
    X_cal, y_cal = smooth_data(80, seed=2)
    rng = np.random.default_rng(0)
    held, own = rng.uniform(size=80), rng.uniform(0.0, 8.0, size=200)
    model = weighted(conformity_score="absolute", calibration_size=None)
    model.fit(X, Y, weights=ONES).conformalize(X_cal, y_cal, weights=held)
    scores = np.abs(y_cal - model.predict(X_cal))
    expected = [weighted_conformal_quantile(scores, held, w, 0.9) for w in own]
    with pytest.warns(UserWarning, match="of 200 intervals are infinite"):
        lower, upper = model.predict_interval(X, weights=own).T
    np.testing.assert_allclose((upper - lower) / 2.0, expected, rtol=1e-9)
    assert np.isinf(expected).any()
    diagnosis = model.diagnose(X, weights=own)
    assert np.allclose(diagnosis["effective_sample_size"], held.sum() ** 2 / (held**2).sum())


def test_rows_without_any_weight():
    model = weighted(weights=lambda X: np.zeros(len(X))).fit(X, Y)
    with pytest.warns(UserWarning, match="infinite"):
        assert np.all(np.isinf(model.predict_interval(X)))


@pytest.mark.parametrize(
    ("params", "fit", "told"),
    [
        ({"weights": lambda X: X[:, 0]}, {"weights": ONES}, "pass only one"),
        ({"weights": lambda X: X[:, 0]}, {"target": np.zeros((9, 2))}, "pass only one"),
        ({}, {"weights": ONES, "target": np.zeros((9, 2))}, "pass only one"),
        ({"weights": LogisticRegression()}, {}, "target= in fit"),
        ({"weights": LogisticRegression()}, {"weights": ONES}, "pass only one"),
        ({"weights": lambda X: np.ones(3)}, {}, "for each of"),
        ({"weights": lambda X: -np.ones(len(X))}, {}, "are negative or not finite, such as -1"),
        ({}, {"weights": np.nan * ONES}, "such as nan"),
        ({}, {"weights": ONES[1:]}, "inconsistent"),
        ({}, {"target": np.zeros((9, 3))}, "target= .the new rows.*3 features"),
    ],
)
def test_bad_weights(params, fit, told):
    with pytest.raises(ValueError, match=told):
        weighted(**params).fit(X, Y, **fit)


def test_weights_are_given_everywhere_or_nowhere():
    with pytest.raises(ValueError, match="here but not in fit"):
        weighted().fit(X, Y).predict_interval(X, weights=ONES)
    with pytest.raises(ValueError, match="in fit but not here"):
        weighted().fit(X, Y, weights=ONES).predict_interval(X)


def test_learned_weights_are_even_without_a_shift_and_whatever_the_number_of_rows():
    rng = np.random.default_rng(1)

    def effective(old, target, **params):
        """Effective share of 500 calibration rows that are like the old ones."""
        model = weighted(calibration_size=None, **params).fit(old, old[:, 0], target=target)
        fresh = rng.normal(size=(500, old.shape[1]))
        found = model.conformalize(fresh, fresh[:, 0]).diagnose(fresh[:1])
        return found["effective_sample_size"][0] / 500

    assert effective(rng.normal(size=(600, 5)), rng.normal(size=(150, 5))) > 0.89
    old, target = rng.normal(size=(300, 1)), rng.normal(1.0, size=(300, 1))
    line = LogisticRegression(C=1e6)
    one, many = (effective(np.repeat(old, n, axis=0), target, weights=line) for n in (1, 100))
    # Where the shares of rows decided, the clip would make all weights equal.
    assert max(one, many) < 0.6


def test_there_is_no_distribution_and_the_guarantee_says_what_is_assumed():
    model = weighted().fit(X, Y)
    assert model.guarantee_.predictive is None
    with pytest.raises(ValueError, match="with different calibration rows"):
        model.predict_quantiles(X, [0.5])
    known = model.fit(X, Y, weights=ONES).guarantee_
    assert known.marginal
    assert known.finite_sample
    assert "ratio of the two densities" in str(known)
