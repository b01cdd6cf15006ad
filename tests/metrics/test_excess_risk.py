"""Excess risk against its definition, on oracle intervals, and on what a classifier can see."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from localconformal.datasets import load_simulation
from localconformal.metrics import excess_risk, mean_absolute_conditional_gap


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    return np.exp(X[:, 0]) * rng.normal(size=500), np.tile([-2.5, 2.5], (500, 1)), X


def cross_fitted(X, c, seed):
    p = np.empty(len(X))
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        p[test] = LogisticRegression().fit(X[train], c[train]).predict_proba(X[test])[:, 1]
    return p


def test_every_risk_is_that_of_its_definition(problem):
    y, intervals, X = problem
    c = (np.abs(y) <= 2.5).astype(float)
    result = excess_risk(y, intervals, X, 0.8, classifier=LogisticRegression(), random_state=3)
    p = cross_fitted(X, c, 3)
    np.testing.assert_allclose(result.predicted, p)
    clipped = {"": p, "_over": np.maximum(p, 0.8), "_under": np.minimum(p, 0.8)}
    for suffix, q in clipped.items():
        l1, l2, kl = [], [], []
        for qi, ci in zip(q, c, strict=True):
            l1.append(np.sign(0.8 - qi) * (0.8 - ci))
            l2.append((0.8 - ci) ** 2 - (qi - ci) ** 2)
            kl.append(np.log(qi / 0.8) if ci else np.log((1 - qi) / 0.2))
        for name, each in (("l1", l1), ("l2", l2), ("kl", kl)):
            assert getattr(result, name + suffix) == pytest.approx(np.mean(each))
            if not suffix:
                error = np.std(each, ddof=1) / np.sqrt(500)
                assert getattr(result, f"{name}_error") == pytest.approx(error)


def test_over_and_under_add_up_and_the_frame_has_them(problem):
    y, intervals, X = problem
    result = excess_risk(y, intervals, X)
    for name in ("l1", "l2", "kl"):
        parts = getattr(result, f"{name}_over") + getattr(result, f"{name}_under")
        assert parts == pytest.approx(getattr(result, name))
    frame = result.frame()
    assert list(frame["loss"]) == ["l1", "l2", "kl"]
    assert list(frame["value"]) == [result.l1, result.l2, result.kl]
    assert float(result) == result.l1


def test_oracle_intervals_have_no_excess_risk_and_constant_ones_have():
    simulation, scores = load_simulation("sim2"), []
    for repeat in range(6):
        X, y = simulation.sample(2_000, random_state=repeat)
        result = excess_risk(y, simulation.quantile(X, [0.05, 0.95]), X, random_state=repeat)
        scores += [result.l1 / result.l1_error, result.l2 / result.l2_error]
    assert np.max(np.abs(scores)) < 4.0
    assert abs(np.mean(scores)) < 2.0

    half = 1.645 * 0.15 * 2.5
    intervals = simulation.mean(X)[:, None] + [-half, half]
    pi = 1.0 - 2.0 * norm.sf(half / (0.15 * X[:, 0]))
    truth = mean_absolute_conditional_gap(pi)
    result = excess_risk(y, intervals, X)
    # A lower bound, and boosting comes near it.
    assert 0.7 * truth < result.l1 < truth + 3.0 * result.l1_error


def test_full_coverage_is_overcoverage(problem):
    y, _, X = problem
    result = excess_risk(y, np.tile([-np.inf, np.inf], (500, 1)), X, 0.9)
    assert result.l1 == pytest.approx(0.1)
    assert result.l2 == pytest.approx(0.01)
    assert result.kl == pytest.approx(-np.log(0.9), abs=1e-5)
    assert result.l1_under == 0.0


def test_few_rows_and_few_misses(problem):
    y, intervals, X = problem
    assert np.isnan(excess_risk(y[:1], intervals[:1], X[:1]).l1)
    for n in (2, 3, 30):
        assert np.isfinite(excess_risk(y[:n], intervals[:n], X[:n]).l1)
    rare = np.zeros(500)
    rare[:3] = 9.0
    result = excess_risk(rare, intervals, X)
    assert len(np.unique(result.predicted)) <= 5
    with pytest.raises(ValueError, match="n_splits is 1"):
        excess_risk(y, intervals, X, n_splits=1)


def test_labels_and_missing_values_are_seen():
    rng = np.random.default_rng(0)
    weather = rng.choice(["rain", "snow", "sun"], size=1_500).astype(object)
    y = rng.normal(size=1_500) * np.where(weather == "snow", 3.0, 1.0)
    weather[rng.random(1_500) < 0.05] = None
    frame = pd.DataFrame({"weather": weather, "x": rng.normal(size=1_500)})
    frame.loc[::7, "x"] = np.nan
    result = excess_risk(y, np.tile([-1.8, 1.8], (1_500, 1)), frame)
    assert result.l1 > 5.0 * result.l1_error
    assert result.l1_under > result.l1_over


def test_a_classifier_sees_the_frame_itself():
    class Fixed(LogisticRegression):
        def fit(self, X, y):
            assert list(X.columns) == ["x"]
            return super().fit(X, y)

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200)})
    result = excess_risk(
        rng.normal(size=200), np.tile([-1, 1], (200, 1)), frame, classifier=Fixed()
    )
    assert np.isfinite(result.kl)
