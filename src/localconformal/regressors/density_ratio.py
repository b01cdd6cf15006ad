"""How much likelier a row is among new rows than among training rows, learned by a classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from localconformal.frames import stack_rows
from localconformal.laws.features import FeatureEmbedding
from localconformal.parallel import few_threads
from localconformal.quantiles import Array

#: Rows of each kind from which some can be held out.
ENOUGH_TO_STOP = 30


@dataclass(frozen=True)
class DensityRatio:
    """w(x) = p(x) / (1 - p(x)), p(x) the probability of a new row where both kinds are as many.

    ``balance`` is the number of training rows over that of new rows, by which a classifier's odds
    are multiplied before p is clipped: else clipping would tell the kinds apart by their numbers.
    """

    classifier: Any
    view: FeatureEmbedding | None
    balance: float
    clip: float

    def __call__(self, X: Any) -> Array:
        """(n,) positive numbers."""
        rows = X if self.view is None else self.view.transform(X)
        new = list(self.classifier.classes_).index(1)
        p = np.asarray(self.classifier.predict_proba(rows), dtype=np.float64)[:, new]
        p = p * self.balance / (p * self.balance + 1.0 - p)
        p = np.clip(p, self.clip, 1.0 - self.clip)
        return p / (1.0 - p)


def fit_ratio(classifier: Any, X: Any, target: Any, clip: float, seed: int) -> DensityRatio:
    """Learned from training rows X and new rows; None is boosting on the features as numbers.

    A classifier of the user's gets the rows as they came.
    """
    is_new = np.repeat([0, 1], [len(X), len(target)])
    balance = len(X) / len(target)
    if classifier is not None:
        with few_threads(X):
            fitted = clone(classifier).fit(stack_rows(X, target), is_new)
        return DensityRatio(fitted, None, balance, clip)
    view = FeatureEmbedding().fit(X)
    rows = np.vstack([view.transform(X), view.transform(target)])
    # Few and small trees, stopped where held-out rows gain nothing: without a shift, w is even.
    boosting = HistGradientBoostingClassifier(
        learning_rate=0.05,
        max_iter=200,
        max_leaf_nodes=8,
        early_stopping=min(len(X), len(target)) >= ENOUGH_TO_STOP,
        random_state=seed,
    )
    with few_threads(rows):
        boosting.fit(rows, is_new)
    return DensityRatio(boosting, view, balance, clip)
