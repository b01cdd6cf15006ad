"""Rows that may calibrate: p-values against plain oracles, their size, power, cells and words."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import anderson_ksamp, binom
from sklearn.linear_model import LinearRegression

import localconformal as lc
from localconformal.audit import exchangeability_test
from localconformal.audit.exchangeability import (
    _classifier_test,
    _power,
    _score_test,
    _statistic,
)
from registry import ESTIMATORS, ci_but, light, smooth_data


def rows(n, rng, noise=1.0, moved=0.0):
    X = rng.normal(size=(n, 2)) + moved
    return X, X[:, 0] + noise * rng.normal(size=n)


def fitted(n_cal, rng):
    model = lc.SplitConformalRegressor(LinearRegression(), calibration_size=None, random_state=0)
    X_cal, y_cal = rows(n_cal, rng)
    return model.fit(*rows(100, rng)).conformalize(X_cal, y_cal), X_cal


@pytest.mark.filterwarnings("ignore")
def test_the_statistic_is_that_of_anderson_and_darling():
    rng = np.random.default_rng(0)
    seen, new = rng.normal(size=30), 0.3 + rng.normal(size=20)
    order = np.argsort(np.concatenate([seen, new]))
    is_new = np.repeat([0.0, 1.0], [30, 20])[order]
    n, m = 30, 20
    # As printed in their paper (Scholz and Stephens 1987, equation 3), for two samples.
    k = np.cumsum(is_new)[:-1]
    i = np.arange(1, 50)
    plain = np.sum((k * 50 - i * m) ** 2 / (i * (50 - i))) / (n * m)
    assert _statistic(is_new) * 50**2 / (n * m) == pytest.approx(plain)
    peer = anderson_ksamp([seen, new], midrank=False)
    p = _score_test(seen, new, np.zeros(50), rng)
    assert p == pytest.approx(peer.pvalue, abs=0.05) or min(p, peer.pvalue) < 0.01


@pytest.mark.parametrize("kind", ["continuous", "ties", "cells"])
def test_the_test_of_scores_keeps_its_size(kind):
    rng, found = np.random.default_rng(1), []
    for _ in range(60):
        seen, new = rng.normal(size=25), rng.normal(size=15)
        cells = np.zeros(40)
        if kind == "ties":
            seen, new = np.round(seen), np.round(new)
        if kind == "cells":
            # Another share of a cell with other scores is no change within cells.
            cells = np.concatenate([rng.random(25) < 0.3, rng.random(15) < 0.7])
            seen, new = seen + 5 * cells[:25], new + 5 * cells[25:]
        found.append(_score_test(seen, new, cells, rng) <= 0.1)
    assert sum(found) <= binom.ppf(0.999, 60, 0.1)


@pytest.mark.ci
def test_both_tests_keep_their_size_over_many_repeats():
    """200 here, 1,000 in benchmarks/exchangeability.py."""
    rng = np.random.default_rng(2)
    p = np.empty((200, 2))
    for pair in p:
        pair[0] = _score_test(*np.split(rng.normal(size=80), [50]), np.zeros(80), rng)
        pair[1] = _classifier_test(rng.normal(size=(60, 2)), rng.normal(size=(50, 2)), rng)[0]
    for size in (0.05, 0.2):
        assert ((p <= size).sum(axis=0) <= binom.ppf(0.999, 200, size)).all()


def test_changes_of_noise_and_of_x_are_told_apart():
    rng = np.random.default_rng(3)
    model, X_cal = fitted(600, rng)
    quiet = exchangeability_test(model, *rows(400, rng), X_calibration=X_cal)
    assert not quiet.is_doubtful
    assert "No difference was found from the 600 in use" in str(quiet)
    assert quiet.power > 0.9
    louder = exchangeability_test(model, *rows(400, rng, noise=1.5), X_calibration=X_cal)
    assert louder.score_p_value < 0.01 < louder.x_p_value
    assert "Scores differ: intervals made for 90% cover" in str(louder)
    moved = exchangeability_test(model, *rows(400, rng, moved=1.0), X_calibration=X_cal)
    assert moved.x_p_value < 0.001
    assert moved.auc > 0.7
    assert moved.is_doubtful
    if moved.score_p_value >= 0.025:
        assert "Only x differs" in str(moved)
    unknown = exchangeability_test(model, *rows(400, rng))
    assert math.isnan(unknown.x_p_value)
    assert "pass X_calibration" in str(unknown)


@pytest.mark.ci
def test_the_power_grows_with_rows_and_says_what_is_found():
    rng = np.random.default_rng(4)
    few, many = _power(100, 30, 0.9, rng), _power(1_000, 500, 0.9, rng)
    assert few < 0.6 < 0.95 < many
    model, _ = fitted(200, rng)
    # Noise that doubles the misses, drawn anew.
    hits, repeats = 0, 12
    larger = 1.6448536269514722 / 1.2815515655446004
    for seed in range(repeats):
        found = exchangeability_test(model, *rows(100, np.random.default_rng(seed), larger))
        hits += found.score_p_value <= 0.05
    # The calibration set is one, so that the share may be off by more than the binomial's.
    assert abs(hits / repeats - found.power) < 0.5


@pytest.mark.parametrize("cls", ci_but([lc.LocartRegressor], ESTIMATORS))
def test_every_estimator_and_its_law_stand_for_x(cls):
    X, y = smooth_data(600, 0)
    model = light(cls).fit(X[:400], y[:400])
    found = exchangeability_test(model, X[400:], y[400:])
    assert 0.0 < found.score_p_value <= 1.0
    has_law = model.adjustment_ is not None
    assert math.isnan(found.x_p_value) != has_law
    again = exchangeability_test(model, X[400:], y[400:])
    assert str(found) == str(again)


def test_frames_labels_and_wrong_input():
    rng = np.random.default_rng(5)
    X, y = rows(300, rng)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = lc.MondrianConformalRegressor(LinearRegression(), random_state=0)
    labels = np.where(X[:, 1] > 0, "up", "down")
    model.fit(frame[:200], y[:200], groups=labels[:200])
    found = exchangeability_test(
        model, frame[200:], y[200:], X_calibration=frame[:50], groups=labels[200:]
    )
    assert not math.isnan(found.x_p_value)
    few = exchangeability_test(
        model, frame[200:], y[200:], X_calibration=X[:9], groups=labels[200:]
    )
    assert math.isnan(few.auc)
    with pytest.raises(ValueError, match="inconsistent numbers"):
        exchangeability_test(model, frame[200:], y[:20], groups=labels[200:])


def test_labels_that_few_rows_have_are_no_difference():
    """A label is as new to held-out calibration rows as it is to new rows."""
    rng, found = np.random.default_rng(0), []
    for _ in range(20):
        tables = [
            pd.DataFrame(
                {"size": rng.normal(size=200), "shop": rng.integers(0, 500, 200).astype(str)}
            )
            for _ in range(2)
        ]
        found.append(_classifier_test(*tables, rng)[0])
    assert np.count_nonzero(np.array(found) < 0.05) <= binom.ppf(0.999, 20, 0.05)


def test_smaller_noise_is_said_to_be_covered():
    rng = np.random.default_rng(3)
    model, _ = fitted(300, rng)
    X, y = rows(300, rng, noise=0.3)
    told = exchangeability_test(model, X, y)
    assert told.coverage > 0.98
    assert "cover 100.0% of these rows" in str(told)
    assert "needs 40 rows" in str(exchangeability_test(model, X[:20], y[:20], X_calibration=X))
