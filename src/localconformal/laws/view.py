"""What a supervised law sees of a row: the features, and what the point model says there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localconformal.laws.embedding import Scaled, fit_embedding
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order
from localconformal.laws.outputs import Outputs, around
from localconformal.models import take_rows
from localconformal.quantiles import Array, typical_size


@dataclass(frozen=True)
class View:
    """Points of the embedding, with mu(x), and sigma(x) where it is known, as further columns.

    These are in units of ``scale``, mu(x) around ``centre``, so that models work alike for
    responses of any size, wherever they lie.
    """

    embedding: Scaled
    outputs: Outputs | None
    centre: float
    scale: float

    def __call__(self, X: Any) -> Array:
        """(n, columns) numbers."""
        points = self.embedding.transform(X)
        if self.outputs is None:
            return points
        known = [around(self.outputs.predict(X), self.centre, self.scale)]
        if self.outputs.predict_spread is not None:
            known.append(around(self.outputs.predict_spread(X), 0.0, self.scale))
        return np.column_stack([points, *known])


def fit_view(
    embedding: Any,
    X: Any,
    v: Array,
    outputs: Outputs | None,
    seed: int = 0,
    n_jobs: int | None = None,
) -> tuple[View, Array]:
    """The view fitted on reference rows, and the rows as it sees them.

    An embedding that the user chose is all that counts.
    """
    fitted, points = fit_embedding(embedding, X, v, outputs, seed, n_jobs)
    seen, centre, scale = outputs if embedding is None else None, 0.0, 1.0
    if seen is not None:
        centre = float(np.median(seen.reference))
        scale = typical_size(seen.reference - centre)
        known = [around(seen.reference, centre, scale)]
        if seen.reference_spread is not None:
            known.append(around(seen.reference_spread, 0.0, scale))
        points = np.column_stack([points, *known])
    return View(fitted, seen, centre, scale), points


def in_canonical_order(X: Any, v: Array, outputs: Outputs) -> tuple[Any, Array, Outputs]:
    """The same rows in the order of scores and features: folds must not depend on theirs."""
    if len(v) > CANONICAL_UP_TO:
        return X, v, outputs
    _, points = fit_view(None, X, v, outputs)
    order = canonical_order(points, v)
    return take_rows(X, order), v[order], outputs.take(order)
