"""Simulations, whose conditional coverage at each x is known."""

import numpy as np
from scipy.special import ndtr

from benchmarks.quality.datasets.files import quintiles
from benchmarks.quality.protocol import Rows
from localconformal.datasets import gaussian, load_simulation, uniform_features

LARGEST = 8_000

#: The scale depends on the first two features, the mean on the next two; 46 are noise. The mean
#: is simple and the scale never small, so that the scale is what intervals get wrong: boosting's
#: mean with the true scale has a fifth of split's gap here, but 0.7 of it with a scale down to 0.1
#: and a wavy mean, where the error of the mean hides that of the scale.
two_of_fifty = gaussian(
    "two_of_fifty",
    uniform_features(0.0, 1.0, d=50),
    mean=lambda X: X[:, 2] + X[:, 3],
    deviation=lambda X: 0.5 + 2.0 * X[:, 0] * X[:, 1],
)

SIMULATIONS = {
    "sim1": load_simulation("sim1"),
    "sim2": load_simulation("sim2"),
    "two_of_fifty": two_of_fifty,
}


def draw(name, max_rows, seed):
    """Fresh rows; groups are quintiles of the first feature, on which the scale depends."""
    simulation = SIMULATIONS[name]
    X, y = simulation.sample(min(LARGEST, max_rows), random_state=seed)
    return Rows(X, y, quintiles(X[:, 0]), simulation)


def conditional_coverage(simulation, X, intervals):
    """P(lower <= Y <= upper | x) of each row: (n,). The noise is Gaussian in all of them."""
    mean, one_deviation_up = simulation.quantile(X, [0.5, ndtr(1.0)]).T
    z = (intervals - mean[:, None]) / (one_deviation_up - mean)[:, None]
    return np.maximum(ndtr(z[:, 1]) - ndtr(z[:, 0]), 0.0)
