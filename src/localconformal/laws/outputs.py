"""What the point model says: for laws that look at more than the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from localconformal.laws.features import FeatureEmbedding
from localconformal.models import default_estimator
from localconformal.quantiles import Array, typical_size
from localconformal.splitting import Rows, fold_rows

N_FOLDS = 5
#: sigma stays above this share of the typical score, so that nothing is divided by zero.
FLOOR = 0.01

Predict = Callable[[Any], Array]


@dataclass(frozen=True)
class Outputs:
    """Predictions of the point model at reference rows and, by a function, at any others.

    Parameters
    ----------
    predict : callable
        Rows -> mu(x), (n,).
    reference : array of shape (n,)
        mu at the reference rows, by models that have not seen them.
    response : array of shape (n,)
        y at the reference rows.
    model : default=None
        The fitted point model itself.
    predict_spread, reference_spread : default=None
        The same for sigma(x) > 0, once it is known.
    """

    predict: Predict
    reference: Array
    response: Array
    model: Any = None
    predict_spread: Predict | None = None
    reference_spread: Array | None = None

    def held_out(self, rest: Rows, fold: Rows) -> Outputs:
        """For a law fitted on the ``rest`` of the rows, and then asked about ``fold`` only."""
        known = self.reference_spread
        return replace(
            self,
            predict=Remembered(self.reference[fold]),
            reference=self.reference[rest],
            response=self.response[rest],
            predict_spread=None if known is None else Remembered(known[fold]),
            reference_spread=None if known is None else known[rest],
        )


@dataclass(frozen=True)
class Remembered:
    """Predictions known in advance, for the only rows that will be asked about."""

    values: Array

    def __call__(self, X: Any) -> Array:
        """The values, whatever the rows."""
        return self.values


def blank_outputs(v: Array) -> Outputs:
    """For a law that is fitted outside a regressor: mu = 0, so that the response is the score."""
    return Outputs(Zero(), np.zeros(len(v)), v)


class Zero:
    """mu(x) = 0."""

    def __call__(self, X: Any) -> Array:
        """(n,) zeros."""
        return np.zeros(len(X))


class Spread:
    """sigma(x) = max(s(x), floor), with s a model of the size of the scores on (x, mu(x))."""

    def __init__(self, view: FeatureEmbedding, predict: Predict, model: Any, floor: float) -> None:
        self.view = view
        self.predict = predict
        self.model = model
        self.floor = floor

    def __call__(self, X: Any) -> Array:
        """(n,) positive numbers."""
        points = np.column_stack([self.view.transform(X), self.predict(X)])
        return np.maximum(self.model.predict(points), self.floor)


def with_spread(outputs: Outputs, X: Any, v: Array, seed: int = 0) -> Outputs:
    """The same with sigma(x), a boosted model of |v|; as it is when sigma is known already."""
    if outputs.reference_spread is not None:
        return outputs
    size, floor = np.abs(v), FLOOR * typical_size(v)
    view = FeatureEmbedding().fit(X)
    points = np.column_stack([view.transform(X), outputs.reference])
    known = np.full(len(v), size.mean())
    if len(v) > 1:
        for rest, fold in fold_rows(len(v), N_FOLDS, seed):
            model = default_estimator(seed).fit(points[rest], size[rest])
            known[fold] = model.predict(points[fold])
    model = default_estimator(seed).fit(points, size)
    return replace(
        outputs,
        predict_spread=Spread(view, outputs.predict, model, floor),
        reference_spread=np.maximum(known, floor),
    )
