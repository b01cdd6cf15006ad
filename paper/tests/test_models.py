"""Base models that methods share, and methods by the paper's names."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import cross_val_predict

from benchmarks.harness import PRESETS, Rows, calibrated, normalise, predict_sets, try_method
from paper.flexcode import TERMS, FlexCode
from paper.methods import METHODS, NEED_LAYERS
from paper.models import (
    FAMILIES,
    LEVELS,
    NETWORK,
    RUNNING,
    LinearQuantiles,
    Memory,
    grow,
    model_cases,
)
from registry import ci_but

SMOKE = PRESETS["smoke"]


def noisy_split(n=150, seed=0):
    rng = np.random.default_rng(seed)

    def draw():
        X = rng.uniform(size=(n, 2))
        return Rows(X, 3.0 + X[:, 0] * (1 + rng.normal(size=n)), np.zeros(n).astype(str))

    return normalise(draw(), draw(), draw())


@pytest.mark.parametrize("family", ci_but(["ridge"], RUNNING))
def test_methods_share_the_fits_of_a_family(family):
    split = noisy_split()
    models = FAMILIES[family].make(split.train.X, split.train.y, 1, SMOKE)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    models.quantile.fit(split.train.X, split.train.y)
    found = {}
    for name, make in METHODS.items():
        if name in NEED_LAYERS and family != NETWORK:
            continue
        row, found[name] = try_method(name, make(models, 1, SMOKE), split, prediction)
        assert "failed" not in row, name
        assert 0.75 <= row["coverage"] <= 1.0, name
    # One fit of the model for all methods, and one for each fold; the mean and the size of errors,
    # in and out of fold, may be models of one kind, and so may a series on two thirds of the rows.
    fits = [kind for kind, _ in models.memory.fitted]
    assert fits.count(repr(models.quantile.model)) == 1 + 5
    assert 1 + 5 <= fits.count(repr(models.mean.model)) <= 1 + 5 + 2 + 1 + 3
    # Sharing changes no interval, and a shared model answers as the model itself.
    models.memory.fitted.clear()
    for name in ("SLCP", "MADSplit"):
        fresh = predict_sets(calibrated(METHODS[name](models, 1, SMOKE), split), split.test)
        np.testing.assert_array_equal(fresh.hulls, found[name].hulls)
    both = [clone(model) for model in (models.mean, models.mean.model)]
    folds = [cross_val_predict(model, split.train.X, split.train.y) for model in both]
    np.testing.assert_array_equal(*folds)
    quantiles = clone(models.quantile).fit(split.train.X, split.train.y)
    answers = quantiles.predict(split.test.X, quantiles=LEVELS)
    assert answers.shape == (150, 3)
    assert (answers[:, 2] > answers[:, 0]).mean() > 0.95


def test_rounded_pinball_agrees_with_the_linear_program():
    split = noisy_split(400)
    ours = LinearQuantiles(width=0.01, penalty=0.0).fit(split.train.X, split.train.y)
    for k, level in enumerate(LEVELS):
        exact = QuantileRegressor(quantile=level, alpha=0).fit(split.train.X, split.train.y)
        np.testing.assert_allclose(
            ours.predict(split.test.X)[:, k], exact.predict(split.test.X), atol=0.03
        )


def test_memory_tells_rows_and_models_apart():
    memory, split = Memory(), noisy_split(50)
    X, y = split.train.X, split.train.y
    first = memory.fit(LinearQuantiles(), X, y)
    assert memory.fit(LinearQuantiles(), X.copy(), y.copy()) is first
    assert memory.fit(LinearQuantiles(penalty=1.0), X, y) is not first
    assert memory.fit(LinearQuantiles(), X, y + 1) is not first


def test_parts_are_scaled_by_training_rows_alone():
    split = noisy_split()
    np.testing.assert_allclose(split.train.X.mean(axis=0), 0.0, atol=1e-12)
    assert np.abs(split.train.y).mean() == pytest.approx(1.0)
    assert abs(np.abs(split.test.y).mean() - 1.0) > 1e-6


def test_a_method_that_fails_says_why_and_stops_nothing():
    row, sets = try_method("none", None, noisy_split(20), np.zeros(20))
    assert sets is None
    assert row["failed"].startswith("AttributeError")


def test_a_series_finds_two_modes_and_answers_each_row_by_itself():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1_500, 2))
    y = np.where(X[:, 0] < 0.5, 0.0, rng.choice([-2.0, 2.0], 1_500)) + 0.2 * rng.normal(size=1_500)
    law = FlexCode(grow(20, 0)).fit(X, y)
    assert 2 <= law.terms_ <= TERMS
    one, two = law.cdf([[0.2, 0.5], [0.8, 0.5]], np.array([[-1.0, 1.0]] * 2))
    assert one[1] - one[0] > 0.8
    assert two[1] - two[0] < 0.2
    at_once = law.quantile(X[:50], [0.05, 0.95])
    np.testing.assert_array_equal(at_once, [law.quantile(x[None], [0.05, 0.95])[0] for x in X[:50]])


def test_networks_have_fewer_repeats():
    preset = replace(SMOKE, repeats=3, network_repeats=1)
    found = [
        (case["model"], case["repeat"]) for case in model_cases(preset, model=["ridge", NETWORK])
    ]
    assert found == [("ridge", 0), (NETWORK, 0), ("ridge", 1), ("ridge", 2)]
