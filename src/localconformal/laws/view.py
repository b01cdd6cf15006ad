"""What a supervised law sees of a row: the features, and what the point model says there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localconformal.laws.base import canonical_order
from localconformal.laws.embedding import Scaled, fit_embedding
from localconformal.laws.outputs import Outputs
from localconformal.models import take_rows
from localconformal.quantiles import Array

#: Rows up to which their order never matters; beyond, sorting by all columns is too dear.
CANONICAL_UP_TO = 50_000


@dataclass(frozen=True)
class View:
    """Points of the embedding, with mu(x), and sigma(x) where it is known, as further columns."""

    embedding: Scaled
    outputs: Outputs | None

    def __call__(self, X: Any) -> Array:
        """(n, columns) numbers."""
        points = self.embedding.transform(X)
        if self.outputs is None:
            return points
        known = [self.outputs.predict(X)]
        if self.outputs.predict_spread is not None:
            known.append(self.outputs.predict_spread(X))
        return np.column_stack([points, *known])


def fit_view(embedding: Any, X: Any, v: Array, outputs: Outputs | None) -> tuple[View, Array]:
    """The view fitted on reference rows, and the rows as it sees them."""
    fitted, points = fit_embedding(embedding, X, v, outputs)
    if outputs is not None:
        known = [outputs.reference]
        if outputs.reference_spread is not None:
            known.append(outputs.reference_spread)
        points = np.column_stack([points, *known])
    return View(fitted, outputs), points


def in_canonical_order(X: Any, v: Array, outputs: Outputs) -> tuple[Any, Array, Outputs]:
    """The same rows in the order of scores and features: folds must not depend on theirs."""
    if len(v) > CANONICAL_UP_TO:
        return X, v, outputs
    _, points = fit_view(None, X, v, outputs)
    order = canonical_order(points, v)
    return take_rows(X, order), v[order], outputs.take(order)
