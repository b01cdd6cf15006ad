"""The models that methods share: point models, and what peers need to know of their errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

#: Family -> unfitted model with default settings; one thread, as jobs share the cores.
BASES = {
    "boosting": lambda seed: HistGradientBoostingRegressor(random_state=seed),
    "forest": lambda seed: RandomForestRegressor(random_state=seed, n_jobs=1),
}


@dataclass(frozen=True)
class Fitted:
    """A calibrated method: X (n, d) -> intervals (n, 2)."""

    predict_interval: Any


def point_model(base, seed):
    return BASES[base](seed)


def cross_fit_errors(base, seed, X, y):
    """|y - prediction| (n,) of models that have not seen the row.

    Errors on rows that a boosted model was trained on are far too small to learn difficulty
    from, and holding rows back for it would weaken the peer.
    """
    folds = KFold(5, shuffle=True, random_state=seed)
    return np.abs(y - cross_val_predict(point_model(base, seed), X, y, cv=folds))


class SizeModel:
    """Predicted size of the error, by a model of the base's family on cross-fit errors.

    ``logarithm`` learns log errors, as MAPIE does, else errors as they are. Predictions have a
    floor of a hundredth of the median error, which keeps the scores of a peer bounded.
    """

    def __init__(self, base, seed, logarithm):
        self.model, self.logarithm = point_model(base, seed), logarithm

    def fit(self, X, errors):
        positive = errors[errors > 0]
        self.floor_ = 0.01 * float(np.median(positive)) if len(positive) else 1.0
        target = np.log(np.maximum(errors, self.floor_)) if self.logarithm else errors
        self.model.fit(X, target)
        return self

    def __sklearn_is_fitted__(self):
        return hasattr(self, "floor_")

    def predict(self, X):
        size = self.model.predict(X)
        return np.maximum(np.exp(size) if self.logarithm else size, self.floor_)
