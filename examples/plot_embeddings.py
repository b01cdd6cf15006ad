"""
Distances in a network's hidden layer
=====================================

A kernel law weights reference rows by their distance to x. With many raw features, distance says
little. In the last hidden layer of a network, two rows are near if the network treats them alike;
``embedding="hidden"`` measures distances there.
"""

# %%
# Twenty features, of which two matter: one for the mean, one for mean and noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from localconformal import HiddenLayer, KernelLaw, SLCPRegressor
from localconformal.plots import plot_methods


def signals(n, seed):
    """Many columns, two of which matter."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 20))
    level = np.abs(X[:, 1])
    return X, 3 * X[:, 0] + 6 * level + (0.1 + 2 * level**2) * rng.standard_normal(n)


X, y = signals(3_000, seed=0)
X_new, y_new = signals(3_000, seed=1)
network = make_pipeline(
    StandardScaler(),
    MLPRegressor(
        hidden_layer_sizes=(32, 8),
        alpha=1.0,
        learning_rate_init=0.01,
        early_stopping=True,
        random_state=0,
    ),
)

# %%
# The network is an ordinary base model, here inside a pipeline. "hidden" is its own last hidden
# layer; ``HiddenLayer(model, layer)`` is a layer of any fitted MLPRegressor. For other networks
# pass a callable that returns the activations of a batch of rows.


def fitted(embedding):
    """SLCP around the network, with distances measured where the embedding says."""
    law = KernelLaw(bandwidth="cv", embedding=embedding)
    return SLCPRegressor(network, law=law, random_state=0).fit(X, y)


features, hidden = fitted(None), fitted("hidden")
points = HiddenLayer(hidden.score_.model_).transform(X_new)
print("points of the hidden layer:", points.shape)

# %%
# Both are as close to the level as 750 calibration rows allow. Here, distances in the hidden
# layer say more about the noise.

intervals = {
    "features": features.predict_interval(X_new),
    "hidden layer": hidden.predict_interval(X_new),
}
_, axes = plt.subplots(1, 3, figsize=(10, 2.4), layout="constrained", sharey=True)
_ = plot_methods(y_new, intervals, 0.9, baseline="features", ax=axes)
