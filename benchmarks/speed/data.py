"""Rows on which speed is measured: Gaussian features, spread of the score by the first."""

import zlib

import numpy as np

D = 10
LEVELS = np.array([0.05, 0.95])


def rows(n, name, d=D):
    """n rows X (n, d) and scores v (n,); the seed comes from the name."""
    rng = np.random.default_rng(zlib.crc32(f"{name}-{n}-{d}".encode()))
    X = rng.normal(size=(n, d))
    return X, rng.normal(size=n) * (0.3 + np.abs(X[:, 0]))


def regression(n, name):
    """The same with a response that takes a model some trees to learn."""
    X, v = rows(n, name)
    return X, np.sin(2 * X[:, 1]) * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * X[:, 5] + v


def bandwidth(d=D):
    """Half the median distance of Gaussian rows: local enough to be no constant."""
    return 0.5 * float(np.sqrt(2 * d))
