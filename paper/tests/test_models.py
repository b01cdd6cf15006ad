import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.model_selection import cross_val_predict

from benchmarks.harness import PRESETS, Rows, calibrated, normalise, predict_sets, try_method
from paper.methods import METHODS
from paper.models import FAMILIES, LinearQuantiles, Memory, choose_network

SMOKE = PRESETS["smoke"]
RUNNING = [name for name, family in FAMILIES.items() if not family.left_out]
every_family = pytest.mark.parametrize("family", RUNNING)
LEVELS = [0.05, 0.5, 0.95]


def noisy_split(n=150, seed=0):
    rng = np.random.default_rng(seed)

    def draw():
        X = rng.uniform(size=(n, 2))
        return Rows(X, 3.0 + X[:, 0] * (1 + rng.normal(size=n)), np.zeros(n).astype(str))

    return normalise(draw(), draw(), draw())


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.ci] * (name != "ridge")) for name in RUNNING],
)
def task(request):
    """Family, split, models and what all methods answer."""
    split = noisy_split()
    models = FAMILIES[request.param].make(split.train.X, split.train.y, 1, SMOKE)
    prediction = models.mean.fit(split.train.X, split.train.y).predict(split.test.X)
    found = {
        name: try_method(name, make(models, 1, SMOKE), split, prediction)
        for name, make in METHODS.items()
    }
    return split, models, found


@pytest.mark.ci
def test_every_method_runs_and_covers(task):
    _, _, found = task
    for name, (row, sets) in found.items():
        assert "failed" not in row, name
        assert 0.75 <= row["coverage"] <= 1.0, name
        assert sets.lengths.shape == (150,)


@pytest.mark.ci
def test_all_methods_share_one_fit_of_the_model_and_one_for_each_fold(task):
    _, models, _ = task
    fits = [name for name, _ in models.memory.fitted]
    assert fits.count("mean") == 1 + 5
    assert fits.count("quantile") == 1
    assert models.memory.trained == len(fits)


def test_a_shared_model_answers_as_the_model_itself(task):
    split, models, _ = task
    alone = clone(models.mean.model).fit(split.train.X, split.train.y)
    shared = clone(models.mean).fit(split.train.X, split.train.y)
    np.testing.assert_array_equal(shared.predict(split.test.X), alone.predict(split.test.X))
    folds = [cross_val_predict(model, split.train.X, split.train.y) for model in (shared, alone)]
    np.testing.assert_array_equal(*folds)


def test_sharing_changes_no_interval(task):
    split, models, found = task
    models.memory.fitted.clear()
    for name in ("SLCP", "MADSplit"):
        fresh = predict_sets(calibrated(METHODS[name](models, 1, SMOKE), split), split.test)
        np.testing.assert_array_equal(fresh.hulls, found[name][1].hulls)


def test_quantile_models_do_not_cross(task):
    split, models, _ = task
    quantiles = clone(models.quantile).fit(split.train.X, split.train.y)
    answers = np.sort(quantiles.predict(split.test.X, quantiles=LEVELS), axis=1)
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


def test_a_level_that_was_not_fitted_is_refused():
    split = noisy_split(50)
    model = LinearQuantiles().fit(split.train.X, split.train.y)
    with pytest.raises(ValueError, match=r"level 0\.3 was not fitted"):
        model.predict(split.test.X, quantiles=[0.3])


def test_memory_tells_rows_and_models_apart():
    memory, split = Memory(), noisy_split(50)
    X, y = split.train.X, split.train.y
    first = memory.fit("a", LinearQuantiles(), X, y)
    assert memory.fit("a", LinearQuantiles(), X.copy(), y.copy()) is first
    assert memory.fit("b", LinearQuantiles(), X, y) is not first
    assert memory.fit("a", LinearQuantiles(), X, y + 1) is not first


def test_parts_are_scaled_by_training_rows_alone():
    split = noisy_split()
    np.testing.assert_allclose(split.train.X.mean(axis=0), 0.0, atol=1e-12)
    assert np.abs(split.train.y).mean() == pytest.approx(1.0)
    assert abs(np.abs(split.test.y).mean() - 1.0) > 1e-6


def test_a_method_that_fails_says_why_and_stops_nothing():
    row, sets = try_method("none", None, noisy_split(20), np.zeros(20))
    assert sets is None
    assert row["failed"].startswith("AttributeError")


def test_networks_are_trained_for_the_epochs_of_the_preset():
    pytest.importorskip("skorch")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    chosen = choose_network(X, X[:, 0], 1, SMOKE)
    assert FAMILIES["neural_net"].left_out == ""
    assert chosen.mean.fit(X, X[:, 0]).n_epochs_ <= SMOKE.epochs
    quantiles = chosen.quantile.fit(X, X[:, 0]).predict(X, quantiles=[0.05, 0.5, 1 - 0.05])
    assert np.all(np.diff(quantiles, axis=1) >= 0)
