"""Layers of networks as embeddings: rows by themselves, and the network left as it was."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skorch import NeuralNetRegressor  # noqa: E402
from torch import nn  # noqa: E402

from localconformal.laws.once import one_query  # noqa: E402
from localconformal.torch import TorchEmbedding  # noqa: E402


class Sequences(nn.Module):
    """Whole numbers, looked up and read in order."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.reader = nn.LSTM(6, 7, batch_first=True)
        self.head = nn.Linear(7, 1)

    def forward(self, x):
        return self.head(self.reader(self.words(x))[0][:, -1])


def numbers(*shape):
    return np.random.default_rng(0).normal(size=(90, *shape))


#: name -> (network, rows, layer, units).
NETWORKS = {
    "dense": (lambda: nn.Sequential(nn.Linear(33, 7), nn.Tanh(), nn.Linear(7, 5)), 33, "1", 7),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 5, 3), nn.BatchNorm2d(5), nn.ELU(), nn.Dropout(), nn.Flatten()
        ),
        (2, 9, 9),
        "2",
        5 * 7 * 7,
    ),
    "attention": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(6, 2, 9, batch_first=True), nn.Flatten()),
        (5, 6),
        "",
        30,
    ),
    "sequences": (Sequences, None, "reader", 8 * 7),
}


def rows_of(name):
    shape = NETWORKS[name][1]
    if shape is None:
        return np.random.default_rng(0).integers(0, 11, size=(90, 8))
    return numbers(*np.atleast_1d(shape))


def make(name, dtype=torch.float32):
    torch.manual_seed(0)
    return NETWORKS[name][0]().to(dtype)


@pytest.fixture(params=NETWORKS)
def name(request):
    return request.param


@pytest.mark.parametrize("batch_size", [1, 8, 13, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_point_depends_on_its_row_alone(name, dtype, batch_size):
    X, (_, _, layer, units) = rows_of(name), NETWORKS[name]
    embedding = TorchEmbedding(make(name, dtype), layer, batch_size)
    points = embedding.fit_transform(X)
    assert points.shape == (90, units)
    assert points.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    close = {"rtol": 1e-4, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 1e-12}
    order = np.random.default_rng(1).permutation(90)
    np.testing.assert_allclose(embedding.transform(X[order]), points[order], **close)
    for i in range(0, 90, 11):
        np.testing.assert_allclose(embedding.transform(X[i : i + 1])[0], points[i], **close)


def test_points_are_what_the_layer_computes(name):
    X, (_, _, layer, _) = rows_of(name), NETWORKS[name]
    module = make(name).eval()
    found = []
    handle = module.get_submodule(layer).register_forward_hook(lambda *a: found.append(a[-1]))
    with torch.no_grad():
        module(torch.as_tensor(X) if name == "sequences" else torch.as_tensor(X).float())
    handle.remove()
    expected = found[0][0] if isinstance(found[0], tuple) else found[0]
    got = TorchEmbedding(module, layer).fit_transform(X)
    np.testing.assert_allclose(got, expected.reshape(90, -1).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "kind", [np.asfortranarray, torch.as_tensor, np.float32, np.ndarray.tolist]
)
def test_the_kind_of_array_does_not_matter(kind):
    X = numbers(2, 9, 9).astype(np.float32).astype(np.float64)
    embedding = TorchEmbedding(make("images"), "2", batch_size=16).fit(X)
    np.testing.assert_array_equal(embedding.transform(kind(X)), embedding.transform(X))


def test_whole_numbers_are_made_the_networks_precision_unless_it_looks_them_up():
    pixels = np.random.default_rng(0).integers(0, 256, size=(20, 2, 9, 9)).astype(np.uint8)
    embedding = TorchEmbedding(make("images"), "2").fit(pixels)
    np.testing.assert_array_equal(
        embedding.transform(pixels), embedding.transform(pixels.astype(np.float32))
    )


def test_the_network_is_left_as_it_was():
    module = make("images")
    module.train()
    module[1].eval()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    state = torch.random.get_rng_state()
    embedding = TorchEmbedding(module, "4", device="cpu").fit(numbers(2, 9, 9))
    first, second = (embedding.transform(numbers(2, 9, 9)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert [part.training for part in module] == [True, False, True, True, True]
    assert not module[4]._forward_hooks
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_failing_network_is_left_as_it_was_too():
    module = make("images").train()
    embedding = TorchEmbedding(module, "4").fit(numbers(2, 9, 9))
    with pytest.raises(RuntimeError):
        embedding.transform(numbers(3, 9, 9))
    assert module.training
    assert not module[4]._forward_hooks


def test_a_clone_keeps_the_network_and_a_pickle_its_answers():
    embedding = TorchEmbedding(make("images"), "2", batch_size=16)
    copy = clone(embedding)
    assert copy is not embedding
    assert copy.module is embedding.module
    assert copy.get_params(deep=False) == embedding.get_params(deep=False)
    X = numbers(2, 9, 9)
    points = embedding.fit_transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedding)).transform(X), points)


def test_several_threads_may_ask_at_once():
    X, embeddings = numbers(33), [TorchEmbedding(make("dense"), name) for name in ("0", "2")]
    expected = [embedding.fit_transform(X) for embedding in embeddings]
    shared = [TorchEmbedding(embeddings[0].module, name).fit(X) for name in ("0", "2")] * 8
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda embedding: embedding.transform(X), shared))
    for i, points in enumerate(found):
        np.testing.assert_array_equal(points, expected[i % 2])


def test_a_skorch_net_and_what_wraps_it():
    X = numbers(2, 9, 9).astype(np.float32)
    net = NeuralNetRegressor(
        nn.Sequential(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(245, 1)),
        max_epochs=1,
        verbose=0,
    )
    with pytest.raises(ValueError, match=r"NeuralNetRegressor; .* fitted skorch net"):
        TorchEmbedding(net, "1").fit(X)
    net.fit(X, np.zeros((90, 1), dtype=np.float32))
    expected = TorchEmbedding(net.module_, "1").fit_transform(X)
    for model in (net, FrozenEstimator(net)):
        np.testing.assert_array_equal(TorchEmbedding(model, "1").fit_transform(X), expected)
    piped = make_pipeline(FunctionTransformer(lambda X: X / 2), FrozenEstimator(net))
    np.testing.assert_array_equal(TorchEmbedding(piped, "1").fit_transform(2 * X), expected)


def counting(module):
    """The rows that the module is asked about, from now on."""
    seen = []
    module.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    return seen


def test_within_one_query_the_network_runs_once():
    X, module = numbers(33), make("dense")
    one, other = (TorchEmbedding(module, "1", 30).fit(X) for _ in range(2))
    seen = counting(module)
    with one_query():
        np.testing.assert_array_equal(one.transform(X), other.transform(X))
        runs = len(seen)
        one.transform(X)
        assert len(seen) == runs
        one.transform(X.copy())
        assert len(seen) == 2 * runs
    one.transform(X)
    assert len(seen) == 3 * runs


@pytest.mark.parametrize(
    ("module", "layer", "batch_size", "message"),
    [
        (nn.Identity(), "nothing", 8, r"layer is 'nothing'; a name of module.named_modules\(\)"),
        (object(), "", 8, r"module is a object; a torch.nn.Module or a fitted skorch net"),
        (nn.Identity(), "", 0, r"batch_size is 0; a positive number"),
        (nn.Flatten(0), "", 8, r"layer '' gave \(264,\) for 8 rows"),
    ],
)
def test_what_cannot_be_meant_is_refused(module, layer, batch_size, message):
    with pytest.raises(ValueError, match=message):
        TorchEmbedding(module, layer, batch_size).fit_transform(numbers(33))


def test_a_layer_that_takes_no_part_is_refused():
    module = make("dense")
    module.forward = lambda x: module[0](x)
    with pytest.raises(ValueError, match="layer '2' took no part"):
        TorchEmbedding(module, "2").fit_transform(numbers(33))


def test_a_device_that_is_not_there_is_told_in_a_sentence():
    network = torch.nn.Sequential(torch.nn.Linear(2, 3))
    with pytest.raises(
        ValueError, match="device is 'nowhere', on which PyTorch cannot put float32 numbers"
    ):
        TorchEmbedding(network, "0", device="nowhere").fit(np.zeros((4, 2), dtype=np.float32))
