"""Layers of networks as embeddings, and images through the regressors."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import localconformal.torch
from localconformal import KernelLaw, MADSplitRegressor, SLCPRegressor, SplitConformalRegressor
from localconformal.metrics import coverage
from registry import optional

pytestmark = pytest.mark.ci

torch, skorch = optional("torch"), optional("skorch")
nn, TorchEmbedding = torch.nn, localconformal.torch.TorchEmbedding


class Sequences(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.reader = nn.LSTM(6, 7, batch_first=True)
        self.head = nn.Linear(7, 1)

    def forward(self, x):
        return self.head(self.reader(self.words(x))[0][:, -1])


def numbers(*shape):
    return np.random.default_rng(0).normal(size=(90, *shape))


IMAGES = (2, 9, 9)
#: name -> (network, shape of a row, layer, units).
NETWORKS = {
    "dense": (lambda: nn.Sequential(nn.Linear(33, 7), nn.Tanh(), nn.Linear(7, 5)), [33], "1", 7),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ELU(), nn.Dropout()),
        IMAGES,
        "2",
        5 * 7 * 7,
    ),
    "sequences": (Sequences, None, "reader", 8 * 7),
}


def rows_of(name):
    shape = NETWORKS[name][1]
    return np.random.default_rng(0).integers(0, 11, (90, 8)) if shape is None else numbers(*shape)


def make(name, dtype=torch.float32):
    torch.manual_seed(0)
    return NETWORKS[name][0]().to(dtype)


def assert_close(one, other):
    """Up to rounding, of which matrix products do more or less with the place in a batch."""
    tolerance = 1e-5 if np.float32 in (one.dtype, other.dtype) else 1e-12
    np.testing.assert_allclose(one, other, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_point_is_what_the_layer_computes_and_depends_on_its_row_alone(name):
    X, (_, _, layer, units) = rows_of(name), NETWORKS[name]
    module, found = make(name).eval(), []
    handle = module.get_submodule(layer).register_forward_hook(lambda *a: found.append(a[-1]))
    with torch.no_grad():
        module(torch.as_tensor(X) if name == "sequences" else torch.as_tensor(X).float())
    handle.remove()
    expected = found[0][0] if isinstance(found[0], tuple) else found[0]
    order = np.random.default_rng(1).permutation(90)
    for dtype, batch_size in ((torch.float32, 1), (torch.float32, 64), (torch.float64, 13)):
        embedding = TorchEmbedding(make(name, dtype), layer, batch_size)
        points = embedding.fit_transform(X)
        assert points.shape == (90, units)
        assert_close(points, expected.reshape(90, -1).numpy())
        for some in (order, [40]):
            assert_close(embedding.transform(X[some]), points[some])


def test_the_network_is_left_as_it_was_even_when_it_fails():
    module = make("images").train()
    module[1].eval()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    embedding = TorchEmbedding(module, "3", device="cpu").fit(numbers(*IMAGES))
    first, second = (embedding.transform(numbers(*IMAGES)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with pytest.raises(RuntimeError):
        embedding.transform(numbers(3, 9, 9))
    assert [part.training for part in module] == [True, False, True, True]
    assert not module[3]._forward_hooks
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_skorch_net_and_what_wraps_it():
    X = numbers(*IMAGES).astype(np.float32)
    network = nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(245, 1))
    net = skorch.NeuralNetRegressor(network, max_epochs=1, verbose=0)
    with pytest.raises(ValueError, match=r"NeuralNetRegressor as module; .* fitted skorch net"):
        TorchEmbedding(net, "1").fit(X)
    net.fit(X, np.zeros((90, 1), dtype=np.float32))
    expected = TorchEmbedding(net.module_, "1").fit_transform(X)
    halved = make_pipeline(FunctionTransformer(lambda X: X / 2), FrozenEstimator(net))
    for model, rows in ((net, X), (FrozenEstimator(net), X), (halved, 2 * X)):
        np.testing.assert_array_equal(TorchEmbedding(model, "1").fit_transform(rows), expected)


REFUSED = [
    (nn.Identity(), "nothing", {}, r"got layer='nothing'; expected a name from module.named"),
    (object(), "", {}, r"got a object as module; expected a torch.nn.Module"),
    (nn.Identity(), "", {"batch_size": 0}, r"got batch_size=0; expected a positive number"),
    (nn.Flatten(0), "", {"batch_size": 8}, r"got \(264,\) from layer '' for 8 rows"),
    (nn.Linear(33, 2), "", {"device": "nowhere"}, r"got device='nowhere', on which PyTorch cannot"),
]


@pytest.mark.parametrize(("module", "layer", "params", "message"), REFUSED)
def test_what_cannot_be_meant_is_refused(module, layer, params, message):
    with pytest.raises(ValueError, match=message):
        TorchEmbedding(module, layer, **params).fit_transform(numbers(33))


def draw(n, seed=0):
    """Images of 1 x 6 x 6 with a bright patch; noise grows with its brightness."""
    rng = np.random.default_rng(seed)
    light, X = rng.uniform(size=n), 0.1 * rng.normal(size=(n, 1, 6, 6))
    X[:, 0, 1:4, 1:4] += light[:, None, None]
    return X.astype(np.float32), 3.0 * light + light * rng.normal(size=n)


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.ReLU())


def localized(module, **params):
    """SLCP around a fitted Pipeline from images to predictions, near in the last layer."""
    embedding = TorchEmbedding(module, "4", batch_size=32)
    piped = make_pipeline(embedding, Ridge()).fit(*draw(200, seed=9))
    law = KernelLaw(bandwidth="cv", embedding=embedding)
    return SLCPRegressor(FrozenEstimator(piped), law=law, random_state=0, **params)


@pytest.fixture(scope="module")
def fitted(module):
    return localized(module).fit(*draw(300))


def test_intervals_cover_follow_the_noise_and_are_those_of_rows_alone_and_of_a_pickle(fitted):
    X, y = draw(2000, seed=1)
    intervals = fitted.predict_interval(X)
    assert 0.84 < coverage(y, intervals) < 0.96
    light, width = X[:, 0, 1:4, 1:4].mean(axis=(1, 2)), np.ptp(intervals, axis=1)
    assert width[light > 0.8].mean() > 1.5 * width[light < 0.2].mean()
    alone = np.concatenate([fitted.predict_interval(X[i : i + 1]) for i in range(0, 40, 13)])
    np.testing.assert_allclose(alone, intervals[:40:13], atol=1e-4)
    again = pickle.loads(pickle.dumps(fitted)).predict_interval(X)
    np.testing.assert_array_equal(again, intervals)


class Brightness(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.line_ = np.polyfit(X.reshape(len(X), -1).mean(axis=1), y, 1)
        return self

    def predict(self, X):
        return np.polyval(self.line_, X.reshape(len(X), -1).mean(axis=1))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


@pytest.mark.parametrize("method", [SplitConformalRegressor, SLCPRegressor, MADSplitRegressor])
def test_models_that_take_images_do_so_inside(method, module):
    params = {"random_state": 0, "confidence_level": 0.5}
    if method is SLCPRegressor:
        params["law"] = KernelLaw(embedding=TorchEmbedding(module, "4"))
    if method is MADSplitRegressor:
        params["spread_estimator"] = Brightness()
    X, y = draw(90)
    fitted = method(Brightness(), **params).fit(X, y).conformalize(*draw(40, seed=1))
    assert fitted.predict(X).shape == (90,)
    assert np.isfinite(fitted.predict_interval(X)).all()


def test_images_that_cannot_be_taken_are_refused_and_those_seen_recognised(fitted):
    X, y = draw(90)
    with pytest.raises(ValueError, match="dim 4"):
        SplitConformalRegressor(LinearRegression()).fit(X, y)
    with pytest.raises(ValueError, match=r"rows of shape \(1, 5, 6\); expected \(1, 6, 6\)"):
        fitted.predict_interval(X[:, :, :5])
    model = SplitConformalRegressor(Brightness(), calibration_size=None).fit(X, y)
    new, y_new = draw(25, seed=1)
    with pytest.warns(UserWarning, match="5 of 30 calibration rows are identical"):
        model.conformalize(np.vstack([X[:5].astype(np.float64), new]), np.append(y[:5], y_new))
