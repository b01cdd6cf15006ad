"""Networks learn what they should, the same way every time, and leave PyTorch's state alone."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from benchmarks.harness import PRESETS
from localconformal import ConformalizedQuantileRegressor, HiddenLayer, KernelLaw, SLCPRegressor
from paper.models import choose_network
from registry import optional

pytestmark = pytest.mark.ci
torch = optional("torch")

from paper.networks import Network, Perceptron, PinballLoss, SquaredLoss, adam  # noqa: E402

LEVELS = [0.05, 0.5, 0.95]
MEAN = Network(max_epochs=30, random_state=0)
QUANTILES = Network(LEVELS, max_epochs=30, random_state=0)
both = pytest.mark.parametrize("network", [MEAN, QUANTILES], ids=["mean", "quantile"])


def draw(n=400, seed=0):
    """Noise that grows with the first of two features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    return X, 3.0 + np.sin(4 * X[:, 0]) + X[:, 0] * rng.normal(size=n)


def answers(network, X):
    return network.predict(X, None if network.levels is None else LEVELS)


def test_several_means_are_learned_at_once():
    X, y = draw()
    both_means = clone(MEAN).fit(X, np.column_stack([y, -5.0 * y])).predict(X)
    assert both_means.shape == (400, 2)
    assert np.corrcoef(both_means[:, 0], y)[0, 1] > 0.6
    assert np.corrcoef(both_means[:, 1], y)[0, 1] < -0.6
    assert clone(MEAN).fit(X, y).predict(X).shape == (400,)


def test_the_mean_and_quantiles_are_learned():
    X, y = draw(3000)
    fresh, _ = draw(500, seed=1)
    error = clone(MEAN).fit(X, y).predict(fresh) - (3.0 + np.sin(4 * fresh[:, 0]))
    assert np.sqrt(np.mean(error**2)) < 0.15
    quantiles = clone(QUANTILES).fit(X, y).predict(X, LEVELS)
    below = (y[:, None] <= quantiles).mean(axis=0)
    np.testing.assert_allclose(below, LEVELS, atol=0.05)
    width = quantiles[:, 2] - quantiles[:, 0]
    assert width[X[:, 0] > 0.8].mean() > 2 * width[X[:, 0] < 0.2].mean()


@both
def test_a_seed_decides_everything_and_global_state_nothing(network):
    X, y = draw()
    torch.manual_seed(7)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = answers(clone(network).fit(X, y), X)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.manual_seed(8)
    np.testing.assert_array_equal(answers(clone(network).fit(X, y), X), first)
    other = clone(network).set_params(random_state=1).fit(X, y)
    assert np.any(answers(other, X) != first)


@both
def test_rows_alone_pickled_networks_other_units_and_constant_columns(network):
    X, y = draw()
    X = np.column_stack([X, np.full(len(X), 0.1)])
    fitted = clone(network).fit(X, y)
    plain, other = answers(fitted, X), X.copy()
    alone = [answers(fitted, X[[i]])[0] for i in range(40)]
    np.testing.assert_array_equal(alone, plain[:40])
    assert len(pickle.dumps(fitted)) < 1_000_000
    np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(fitted)), X), plain)
    # What a column that never varied does elsewhere has not been learned.
    other[:, 2] = 50.0
    np.testing.assert_allclose(answers(fitted, other), plain, rtol=1e-9)
    shift, scale = np.array([2000.0, -3.0, 0.0]), np.array([0.25, 1024.0, 1.0])
    moved = clone(network).fit(X * scale + shift, 16.0 * y + 5.0)
    np.testing.assert_allclose(answers(moved, X * scale + shift), 16.0 * plain + 5.0, rtol=0.05)
    constant = clone(network).fit(X[:100], np.full(100, 7.0))
    np.testing.assert_allclose(answers(constant, X), 7.0, atol=1.0)


def test_the_folded_layers_are_the_network_as_trained():
    X, y = draw()
    network = clone(MEAN).fit(X, y)
    scaled = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    with torch.no_grad():
        own = network.module_(torch.from_numpy(scaled)).numpy()[:, 0]
    unit = np.abs(y - y.mean()).mean()
    np.testing.assert_allclose(network.predict(X), own * unit + y.mean(), rtol=1e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    "criterion", [SquaredLoss(), PinballLoss(LEVELS)], ids=["mean", "quantile"]
)
def test_steps_by_hand_are_those_of_autograd_to_rounding(criterion, dropout):
    X, y = (torch.from_numpy(part).float() for part in draw(90))
    y = y[:, None].round(decimals=1)
    outputs = 3 if isinstance(criterion, PinballLoss) else 1
    ours, plain = (
        Perceptron((2, 8, 8, outputs), dropout, torch.Generator().manual_seed(0)) for _ in range(2)
    )
    settings = {"lr": 0.01, "weight_decay": 1e-3}
    step = adam(list(ours.parameters()), **settings)
    optimizer = torch.optim.Adam(plain.parameters(), fused=True, **settings)
    for batch in torch.arange(90).split(32) * 5 + torch.arange(90).split(17) * 2:
        with torch.no_grad():
            step(ours.gradients(X[batch], y[batch], criterion))
        optimizer.zero_grad()
        criterion(plain(X[batch]), y[batch]).backward()
        optimizer.step()
    for a, b in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_residual_of_zero_has_the_slope_of_autograd():
    outputs = torch.zeros(4, 3, requires_grad=True)
    loss = PinballLoss(LEVELS)
    loss(outputs, torch.zeros(4, 1)).backward()
    assert torch.equal(loss.gradient(outputs.detach(), torch.zeros(4, 1)), outputs.grad)


def test_the_best_epoch_is_kept():
    X, y = draw(200)
    settings = {"max_epochs": 60, "learning_rate": 0.05, "validation_share": 0.3}
    network = Network(**settings, random_state=0).fit(X, y)
    losses = network.held_losses_
    # The generator as a fit starts with it draws the rows held out.
    seed = int(np.random.RandomState(0).randint(2**31 - 1))
    held = torch.randperm(200, generator=torch.Generator().manual_seed(seed))[:60].numpy()
    unit = np.abs(y - y.mean()).mean()
    kept = np.mean(((network.predict(X[held]) - y[held]) / unit) ** 2)
    assert kept == pytest.approx(min(losses), rel=1e-4)
    assert losses[-1] > min(losses)


def test_training_ends_when_nothing_is_gained_or_at_an_interrupt(monkeypatch):
    X, _ = draw()
    noise = np.random.default_rng(1).normal(size=len(X))
    settings = {"max_epochs": 1000, "patience": 3, "validation_share": 0.3}
    network = Network(**settings, random_state=0).fit(X, noise)
    losses = network.held_losses_
    assert np.argmin(losses) == network.n_epochs_ - 1 - 3 < 996

    def interrupted(self, x):
        raise KeyboardInterrupt

    monkeypatch.setattr(Perceptron, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clone(MEAN).fit(X, noise)


def test_quantiles_never_cross_and_are_those_of_the_levels_asked_for():
    X, y = draw(200)
    levels = np.linspace(0.02, 0.98, 49)
    many = Network(levels, max_epochs=1, random_state=0).fit(X, y)
    assert np.all(np.diff(many.predict(X, levels), axis=1) >= 0)
    three = clone(QUANTILES).fit(X, y)
    np.testing.assert_array_equal(three.predict(X), three.predict(X, [0.5])[:, 0])
    np.testing.assert_array_equal(three.predict(X, [1 - 0.95]), three.predict(X, [0.05]))
    two = Network((0.1, 0.9), max_epochs=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(two.predict(X), two.predict(X, [0.1, 0.9]).mean(axis=1))
    with pytest.raises(ValueError, match=r"level 0\.3 was not fitted"):
        three.predict(X, [0.3])


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
    chosen = choose_network(X, y, 1, PRESETS["smoke"], hidden=(8, 3), batch_size=64)
    network = chosen.mean.fit(X, y)
    assert network.n_epochs_ <= PRESETS["smoke"].epochs
    assert HiddenLayer(network).transform(X).shape == (900, 3)
