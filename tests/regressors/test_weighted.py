"""Weighted conformal prediction: coverage under a shift, equality with split conformal, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import beta, norm
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from localconformal import KernelLaw, SplitConformalRegressor
from localconformal.quantiles import weighted_conformal_quantile
from localconformal.regressors.density_ratio import fit_ratio
from localconformal.regressors.weighted import WeightedConformalRegressor
from registry import smooth_data

SHAPE = 0.3


def shifted_rows(n, seed, shape=1.0):
    """X = -1 + 2 Beta(shape, shape), uniform for 1; noise grows with |x|."""
    rng = np.random.default_rng(seed)
    x = np.clip(-1.0 + 2.0 * rng.beta(shape, shape, size=n), -1.0 + 1e-9, 1.0 - 1e-9)
    return x[:, None], x + rng.normal(size=n) * np.abs(x) / (1.0 + np.abs(x))


def ratio(X):
    """Density of the shifted rows over that of uniform ones."""
    return beta.pdf((np.asarray(X)[:, 0] + 1.0) / 2.0, SHAPE, SHAPE)


def coverage(model, X):
    """P(lower <= Y <= upper | x), averaged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        lower, upper = model.predict_interval(X).T
    x = X[:, 0]
    scale = np.abs(x) / (1.0 + np.abs(x))
    return np.mean(norm.cdf((upper - x) / scale) - norm.cdf((lower - x) / scale))


def coverages(n_seeds, **params):
    """Of weighted and of plain split conformal prediction, on shifted rows."""
    found = []
    for seed in range(n_seeds):
        X, y = shifted_rows(600, seed)
        X_new, _ = shifted_rows(2_000, seed + 10_000, SHAPE)
        weighted = WeightedConformalRegressor(LinearRegression(), random_state=seed, **params)
        plain = SplitConformalRegressor(LinearRegression(), random_state=seed)
        found.append([coverage(m.fit(X, y), X_new) for m in (weighted, plain)])
    return np.array(found)


def test_covers_under_a_known_shift_where_split_conformal_does_not():
    found = coverages(60, weights=ratio)
    mean, error = found.mean(axis=0), found.std(axis=0) / np.sqrt(len(found))
    assert mean[0] > 0.9 - 3.0 * error[0]
    assert mean[1] < 0.86


@pytest.mark.ci
@pytest.mark.parametrize(
    "params",
    [
        {"sides": "union"},
        {"score": "absolute"},
        {"adjustment": "additive", "law": KernelLaw(bandwidth=0.3)},
        {"adjustment": "scaled", "law": "forest"},
        {"adjustment": "theta", "law": KernelLaw(bandwidth=0.3)},
    ],
    ids=str,
)
def test_covers_with_any_score_and_law(params):
    found = coverages(60, weights=ratio, **params)[:, 0]
    assert found.mean() > 0.9 - 3.0 * found.std() / np.sqrt(len(found))


def test_estimated_weights_come_close():
    # The true log-ratio has poles at the ends, which a polynomial follows from afar.
    classifier = make_pipeline(PolynomialFeatures(8), LogisticRegression(C=100.0, max_iter=1_000))
    by_user, by_default = [], []
    for seed in range(8):
        X, y = shifted_rows(1_200, seed)
        target, _ = shifted_rows(1_200, seed + 5_000, SHAPE)
        X_new, _ = shifted_rows(2_000, seed + 10_000, SHAPE)
        for found, weights in ((by_user, classifier), (by_default, None)):
            model = WeightedConformalRegressor(
                LinearRegression(), weights=weights, random_state=seed
            )
            found.append(coverage(model.fit(X, y, target=target), X_new))
    assert np.mean(by_user) > 0.87
    assert np.mean(by_default) > 0.87
    assert not model.guarantee_.finite_sample
    assert "estimated" in str(model.guarantee_)


@pytest.mark.parametrize("weights", [None, lambda X: np.full(len(X), 7.0)], ids=["none", "equal"])
def test_equal_weights_are_split_conformal(weights):
    X, y = smooth_data(300, seed=0)
    split = SplitConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    model = WeightedConformalRegressor(
        LinearRegression(), weights=weights, score="absolute", random_state=0
    ).fit(X, y)
    levels = [0.5, 0.9, 0.95]
    np.testing.assert_array_equal(
        model.predict_interval(X, levels), split.predict_interval(X, levels)
    )


def test_intervals_are_those_of_the_definition():
    X, y = smooth_data(200, seed=1)
    X_cal, y_cal = smooth_data(80, seed=2)
    rng = np.random.default_rng(0)
    held, own = rng.uniform(size=80), rng.uniform(0.0, 8.0, size=200)
    model = WeightedConformalRegressor(
        LinearRegression(), score="absolute", calibration_size=None, random_state=0
    )
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
    model = WeightedConformalRegressor(
        LinearRegression(), weights=lambda X: np.zeros(len(X)), random_state=0
    ).fit(X, y)
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
    model = WeightedConformalRegressor(LinearRegression(), random_state=0, **params)
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
    model = WeightedConformalRegressor(LinearRegression(), random_state=0)
    with pytest.raises(ValueError, match="came here but not to fit"):
        model.fit(X, y).predict_interval(X, weights=np.ones(80))
    with pytest.raises(ValueError, match="came to fit but not here"):
        model.fit(X, y, weights=np.ones(80)).predict_interval(X)


def test_there_is_no_distribution_and_the_guarantee_says_what_is_assumed():
    X, y = smooth_data(80, seed=0)
    model = WeightedConformalRegressor(LinearRegression(), random_state=0).fit(X, y)
    assert model.guarantee_.predictive is None
    with pytest.raises(ValueError, match="weighs calibration rows"):
        model.predict_quantiles(X, [0.5])
    known = model.fit(X, y, weights=np.ones(80)).guarantee_
    assert known.marginal
    assert known.finite_sample
    assert "ratio of the two densities" in str(known)
