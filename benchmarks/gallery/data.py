"""One feature, three kinds of noise: even, growing, and in two branches."""

import numpy as np

BRANCHES_FROM = 3.0


def centre(x):
    return np.sin(1.5 * x)


def rows(n, seed):
    """X (n, 1) uniform on [0, 5] and y (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 5.0, size=n)
    scale = 0.15 + 0.5 * np.clip(x - 1.0, 0.0, 1.0) * (x < BRANCHES_FROM)
    branch = rng.choice([-1.0, 1.0], size=n) * np.clip(x - BRANCHES_FROM, 0.0, 1.0) * 1.2
    return x[:, None], centre(x) + branch + scale * rng.normal(size=n)
