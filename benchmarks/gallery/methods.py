"""The estimators of the gallery, in the order of the table, around the same base model."""

from sklearn.ensemble import HistGradientBoostingRegressor

import localconformal
from localconformal.regressors.table import METHODS

#: What a default cannot know of one feature.
SETTINGS = {
    "LocalizedConformalRegressor": {"law": "forest", "adjustment": "multiplicative"},
    "WeightedConformalRegressor": {"weights": lambda X: 0.02 + (X[:, 0] > 4.0)},
}
CAPTIONS = {
    "LocalizedConformalRegressor": "forest law, multiplicative",
    "WeightedConformalRegressor": "weights: new rows have x > 4",
}


def base(name):
    """Small trees of few leaves: one feature needs no more."""
    loss = {"loss": "quantile"} if name == "ConformalizedQuantileRegressor" else {}
    return HistGradientBoostingRegressor(
        max_leaf_nodes=8, learning_rate=0.05, random_state=0, **loss
    )


def fitted(X, y):
    """Name -> fitted estimator, for every method of the library."""
    found = {}
    for method in METHODS:
        name = method.estimator
        kind = getattr(localconformal, name)
        made = kind(base(name), random_state=0, **SETTINGS.get(name, {}))
        found[name] = made.fit(X, y)
    return found
