"""Intervals for images against the network's own forward pass: embedding, point and law together.

Both in batches of one size and on the same threads, taking turns; seconds are the least of some
rounds, in wall time and in processor time (which a busy machine distorts less).
"""

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from benchmarks.speed.forest import both_clocks
from localconformal import KernelLaw, SLCPRegressor

QUERIES, REFERENCES, SIDE, CHANNELS, BATCH = 10_000, 2_000, 64, 32, 64


def images(n, seed):
    """Noise of changing contrast, and responses whose noise grows with it."""
    rng = np.random.default_rng(seed)
    contrast = rng.uniform(0.5, 1.5, size=n)
    X = rng.standard_normal((n, 3, SIDE, SIDE), dtype=np.float32)
    X *= contrast[:, None, None, None].astype(np.float32)
    return X, contrast * (1.0 + rng.normal(size=n))


def network():
    """Four convolutions, small beside a ResNet: a light network is the harder bar."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers, width = [], 3
    for channels in (CHANNELS, CHANNELS, 2 * CHANNELS, 4 * CHANNELS):
        layers += [nn.Conv2d(width, channels, 3, stride=2, padding=1), nn.ReLU()]
        width = channels
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1))


def forward(module, X):
    """The network's own answers, in batches."""
    import torch

    module.eval()
    with torch.no_grad():
        parts = [module(torch.from_numpy(X[i : i + BATCH])) for i in range(0, len(X), BATCH)]
    return torch.cat(parts).numpy()


def localized(module):
    """SLCP in the layer before the last, where the point model looks too."""
    from localconformal.torch import TorchEmbedding

    embedding = TorchEmbedding(module, "9", batch_size=BATCH)
    point = make_pipeline(embedding, Ridge()).fit(*images(REFERENCES, seed=1))
    return SLCPRegressor(FrozenEstimator(point), law=KernelLaw(embedding=embedding), random_state=0)


def time_networks(n=QUERIES, rounds=3):
    """Intervals over the forward pass, for n images."""
    module = network()
    model = localized(module).fit(*images(REFERENCES, seed=2))
    X, _ = images(n, seed=3)
    passed, answered = np.full(2, np.inf), np.full(2, np.inf)
    for _ in range(rounds):
        passed = np.minimum(passed, both_clocks(lambda: forward(module, X)))
        answered = np.minimum(answered, both_clocks(lambda: model.predict_interval(X)))
    return {
        "images": n,
        "forward_seconds": float(passed[0]),
        "interval_seconds": float(answered[0]),
        "interval_over_forward": float(answered[0] / passed[0]),
        "interval_over_forward_processor_time": float(answered[1] / passed[1]),
    }
