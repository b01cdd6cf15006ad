"""Networks learn what they should, the same way every time, and leave PyTorch's state alone."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from localconformal import (  # noqa: E402
    ConformalizedQuantileRegressor,
    HiddenLayer,
    KernelLaw,
    SLCPRegressor,
)
from paper.networks import MeanNetwork, QuantileNetwork  # noqa: E402

MEAN = MeanNetwork(max_epochs=30, random_state=0)
QUANTILES = QuantileNetwork(max_epochs=30, random_state=0)
both = pytest.mark.parametrize("network", [MEAN, QUANTILES], ids=["mean", "quantile"])
LEVELS = [0.05, 0.5, 0.95]


def draw(n=400, seed=0):
    """Noise that grows with the first of two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, 3.0 + np.sin(4 * X[:, 0]) + X[:, 0] * rng.normal(size=n)


def answers(network, X):
    return network.predict(X) if isinstance(network, MeanNetwork) else network.predict(X, LEVELS)


def test_the_mean_is_learned():
    X, y = draw(2000)
    network = clone(MEAN).fit(X, y)
    fresh, _ = draw(500, seed=1)
    error = network.predict(fresh) - (3.0 + np.sin(4 * fresh[:, 0]))
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_quantiles_are_learned():
    X, y = draw(3000)
    quantiles = clone(QUANTILES).fit(X, y).predict(X, LEVELS)
    below = (y[:, None] <= quantiles).mean(axis=0)
    np.testing.assert_allclose(below, LEVELS, atol=0.05)
    width = quantiles[:, 2] - quantiles[:, 0]
    assert width[X[:, 0] > 0.8].mean() > 2 * width[X[:, 0] < 0.2].mean()


def test_quantiles_never_cross_even_when_barely_trained():
    X, y = draw(200)
    levels = np.linspace(0.02, 0.98, 49)
    network = QuantileNetwork(levels, max_epochs=1, random_state=0).fit(X, y)
    assert np.all(np.diff(network.predict(X, levels), axis=1) >= 0)


@both
def test_a_seed_decides_everything(network):
    X, y = draw()
    first, again = (clone(network).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(answers(first, X), answers(again, X))
    other = clone(network).set_params(random_state=1).fit(X, y)
    assert np.any(answers(first, X) != answers(other, X))


@both
def test_global_state_is_neither_used_nor_changed(network):
    X, y = draw()
    torch.manual_seed(7)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = clone(network).fit(X, y)
    answered = answers(first, X)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.manual_seed(8)
    np.testing.assert_array_equal(answers(clone(network).fit(X, y), X), answered)


def test_fits_side_by_side_are_those_one_after_the_other():
    X, y = draw()
    networks = [clone(MEAN).set_params(random_state=seed, max_epochs=8) for seed in range(4)]
    alone = [clone(network).fit(X, y).predict(X) for network in networks]
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(lambda network: network.fit(X, y).predict(X), networks))
    np.testing.assert_array_equal(beside, alone)
    assert torch.get_num_threads() == threads


@both
def test_a_row_is_answered_alike_alone_and_among_others(network):
    X, y = draw()
    fitted = clone(network).fit(X, y)
    alone = [answers(fitted, X[[i]])[0] for i in range(40)]
    np.testing.assert_array_equal(alone, answers(fitted, X)[:40])


@both
def test_a_pickled_network_answers_alike(network):
    X, y = draw()
    fitted = clone(network).fit(X, y)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(answers(loaded, X), answers(fitted, X))
    assert len(pickle.dumps(fitted)) < 1_000_000


@both
def test_units_of_x_and_y_do_not_matter(network):
    X, y = draw()
    plain = answers(clone(network).fit(X, y), X)
    shift, scale = np.array([2000.0, -3.0]), np.array([0.25, 1024.0])
    other = clone(network).fit(X * scale + shift, 16.0 * y + 5.0)
    np.testing.assert_allclose(answers(other, X * scale + shift), 16.0 * plain + 5.0, rtol=0.05)


def test_the_folded_layers_are_the_network_as_trained():
    X, y = draw()
    network = clone(MEAN).fit(X, y)
    scaled = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    own = network.net_.predict(torch.from_numpy(scaled))[:, 0]
    unit = np.abs(y - y.mean()).mean()
    np.testing.assert_allclose(network.predict(X), own * unit + y.mean(), rtol=1e-5)


def test_the_best_epoch_is_kept():
    X, y = draw(200)
    network = MeanNetwork(
        max_epochs=60, learning_rate=0.05, validation_share=0.3, random_state=0
    ).fit(X, y)
    losses = network.net_.history[:, "valid_loss"]
    held = torch.randperm(200, generator=seeded(network))[:60].numpy()
    unit = np.abs(y - y.mean()).mean()
    kept = np.mean(((network.predict(X[held]) - y[held]) / unit) ** 2)
    assert kept == pytest.approx(min(losses), rel=1e-4)
    assert losses[-1] > min(losses)


def seeded(network):
    """The generator as a fit starts with it."""
    seed = int(np.random.RandomState(network.random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)


def test_training_ends_when_nothing_is_gained():
    X, _ = draw()
    noise = np.random.default_rng(1).normal(size=len(X))
    network = MeanNetwork(max_epochs=1000, patience=3, validation_share=0.3, random_state=0).fit(
        X, noise
    )
    losses = network.net_.history[:, "valid_loss"]
    assert network.n_epochs_ < 1000
    assert np.argmin(losses) == network.n_epochs_ - 1 - 3


def test_an_interrupt_ends_the_fit(monkeypatch):
    from paper.networks import Perceptron

    def interrupted(self, x):
        raise KeyboardInterrupt

    monkeypatch.setattr(Perceptron, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clone(MEAN).fit(*draw(50))


@both
def test_a_column_that_never_varied_is_left_out(network):
    X, y = draw()
    X = np.column_stack([X, np.full(len(X), 0.1)])
    fitted = clone(network).fit(X, y)
    other = X.copy()
    other[:, 2] = 50.0
    np.testing.assert_allclose(answers(fitted, other), answers(fitted, X), rtol=1e-9)


@both
def test_a_constant_response_is_answered(network):
    X, _ = draw(100)
    fitted = clone(network).fit(X, np.full(100, 7.0))
    np.testing.assert_allclose(answers(fitted, X), 7.0, atol=1.0)


def test_a_prediction_without_levels_is_the_median_or_between_the_nearest():
    X, y = draw(200)
    three = clone(QUANTILES).fit(X, y)
    np.testing.assert_array_equal(three.predict(X), three.predict(X, [0.5])[:, 0])
    two = QuantileNetwork((0.1, 0.9), max_epochs=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(two.predict(X), two.predict(X, [0.1, 0.9]).mean(axis=1))


def test_a_level_that_was_not_trained_is_refused():
    X, y = draw(50)
    network = QuantileNetwork(max_epochs=1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(network.predict(X, [1 - 0.95]), network.predict(X, [0.05]))
    with pytest.raises(ValueError, match=r"level 0\.3 was not fitted"):
        network.predict(X, [0.3])


def test_networks_go_into_conformal_regressors():
    X, y = draw(900)
    fresh, truth = draw(1000, seed=1)
    law = KernelLaw(embedding="hidden", n_jobs=1)
    short = clone(MEAN).set_params(max_epochs=10)
    for model in (
        ConformalizedQuantileRegressor(QUANTILES, random_state=0),
        SLCPRegressor(short, law=law, random_state=0),
    ):
        lower, upper = model.fit(X, y).predict_interval(fresh).T
        assert 0.8 <= np.mean((lower <= truth) & (truth <= upper)) <= 0.97


def test_a_hidden_layer_can_be_read():
    X, y = draw(100)
    network = MeanNetwork((8, 3), max_epochs=2, random_state=0).fit(X, y)
    assert HiddenLayer(network).transform(X).shape == (100, 3)
