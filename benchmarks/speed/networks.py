"""Intervals for images against the network's own forward pass: embedding, point and law together.

Both in batches of one size and on the same threads, taking turns part by part; seconds are in wall
time and in processor time (which a busy machine distorts less).
"""

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.speed.base import both_clocks
from localconformal import KernelLaw, SLCPRegressor

QUERIES, REFERENCES, SIDE, CHANNELS, BATCH = 10_000, 2_000, 64, 32, 64
#: Images are asked about in so many parts.
PARTS = 20


def images(n, seed):
    """Noise of changing contrast, and responses whose noise grows with it."""
    rng = np.random.default_rng(seed)
    contrast = rng.uniform(0.5, 1.5, size=n)
    X = rng.standard_normal((n, 3, SIDE, SIDE), dtype=np.float32)
    X *= contrast[:, None, None, None].astype(np.float32)
    return X, contrast * (1.0 + rng.normal(size=n))


def resnet():
    """ResNet-34 with the head of the age model, and the layer before its last; untrained."""
    import torch

    from paper.age_network import ImageNetwork

    return ImageNetwork(torch.Generator().manual_seed(0)).eval(), "embedding"


def four_convolutions():
    """Some hundred times lighter than a ResNet, so that all else weighs more beside it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers, width = [], 3
    for channels in (CHANNELS, CHANNELS, 2 * CHANNELS, 4 * CHANNELS):
        layers += [nn.Conv2d(width, channels, 3, stride=2, padding=1), nn.ReLU()]
        width = channels
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1)]
    return nn.Sequential(*layers).eval(), "9"


#: Name -> (what makes the network and names the layer, rounds).
NETWORKS = {"ResNet-34": (resnet, 1), "four convolutions": (four_convolutions, 3)}


def forward(module, X):
    """The network's own answers, in batches."""
    import torch

    with torch.no_grad():
        parts = [module(torch.from_numpy(X[i : i + BATCH])) for i in range(0, len(X), BATCH)]
    return torch.cat(parts).numpy()


def localized(module, layer):
    """SLCP in the layer before the last, where the point model looks too."""
    from localconformal.torch import TorchEmbedding

    embedding = TorchEmbedding(module, layer, batch_size=BATCH)
    point = make_pipeline(embedding, Ridge()).fit(*images(REFERENCES, seed=1))
    return SLCPRegressor(FrozenEstimator(point), law=KernelLaw(embedding=embedding), random_state=0)


def time_network(make, rounds, n):
    """Intervals over the forward pass of one network, for n images."""
    module, layer = make()
    model = localized(module, layer).fit(*images(REFERENCES, seed=2))
    X, _ = images(n, seed=3)
    # Loads, compiles and fills caches before the clock runs.
    forward(module, X[:BATCH])
    model.predict_interval(X[:BATCH])
    passed, answered = np.zeros(2), np.zeros(2)
    # In turns of a second or so: a machine that slows down slows both down.
    for part in np.array_split(X, PARTS):
        passed += least(lambda: forward(module, part), rounds)  # noqa: B023
        answered += least(lambda: model.predict_interval(part), rounds)  # noqa: B023
    return {
        "images": n,
        "forward_seconds": float(passed[0]),
        "interval_seconds": float(answered[0]),
        "interval_over_forward": float(answered[0] / passed[0]),
        "interval_over_forward_processor_time": float(answered[1] / passed[1]),
    }


def least(call, rounds):
    """The least wall and processor seconds of some calls."""
    return np.min([both_clocks(call) for _ in range(rounds)], axis=0)


def time_networks(n=QUERIES):
    """Every network."""
    return {name: time_network(make, rounds, n) for name, (make, rounds) in NETWORKS.items()}
