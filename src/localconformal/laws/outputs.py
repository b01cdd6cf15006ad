"""What the point model says: for laws that look at more than the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from localconformal.laws.features import FeatureEmbedding
from localconformal.laws.once import Once
from localconformal.laws.order import CANONICAL_UP_TO, canonical_order, check_lengths
from localconformal.quantiles import Array, typical_size
from localconformal.splitting import Rows

#: Rows that a tree is grown on, at most: growing on more costs more than it brings.
GROWN_ON = 20_000
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

    def take(self, rows: Rows) -> Outputs:
        """For some of the reference rows."""
        known = self.reference_spread
        return replace(
            self,
            reference=self.reference[rows],
            response=self.response[rows],
            reference_spread=None if known is None else known[rows],
        )

    def held_out(self, rest: Rows, fold: Rows) -> Outputs:
        """For a law fitted on the ``rest`` of the rows, and then asked about ``fold`` only.

        The spread is left out: it has seen the scores of the fold.
        """
        return replace(
            self.take(rest),
            predict=Remembered(self.reference[fold]),
            predict_spread=None,
            reference_spread=None,
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


@dataclass(frozen=True)
class Spread:
    """sigma(x) = unit max(s(x), FLOOR), with s a model of |v| / unit on (x, mu(x) / scale).

    In these units a forest works alike for responses of any size.
    """

    view: FeatureEmbedding
    predict: Predict
    scale: float
    model: Any
    unit: float

    def __call__(self, X: Any) -> Array:
        """(n,) positive numbers."""
        points = np.column_stack([self.view.transform(X), self.predict(X) / self.scale])
        return np.asarray(self.unit * np.maximum(self.model.predict(points), FLOOR))


def with_spread(
    outputs: Outputs, X: Any, v: Array, seed: int = 0, n_jobs: int | None = None
) -> Outputs:
    """The same with sigma(x), a forest's model of |v|; as it is when sigma is known already."""
    if outputs.reference_spread is not None:
        return outputs
    check_lengths(len(X), len(v))
    unit, view = typical_size(v), FeatureEmbedding().fit(X)
    scale = typical_size(outputs.reference)
    points = np.column_stack([view.transform(X), outputs.reference / scale])
    order = canonical_order(points, v) if len(v) <= CANONICAL_UP_TO else np.arange(len(v))
    model = spread_model(len(v), seed, n_jobs).fit(points[order], np.abs(v[order]) / unit)
    # Threads add up the trees' predictions in any order, which changes their last bits.
    model.set_params(n_jobs=1)
    known = np.empty(len(v))
    known[order] = model.oob_prediction_ if model.oob_score else model.predict(points[order])
    return replace(
        outputs,
        predict_spread=Once(Spread(view, outputs.predict, scale, model, unit)),
        reference_spread=unit * np.maximum(known, FLOOR),
    )


def spread_model(n: int, seed: int, n_jobs: int | None = None) -> RandomForestRegressor:
    """A forest, whose trees are grown on a share of the rows where there are very many."""
    return RandomForestRegressor(
        100,
        min_samples_leaf=5,
        max_features=0.5,
        max_samples=GROWN_ON if n > GROWN_ON else None,
        # With a handful of rows, some are in every tree.
        oob_score=n >= 10,
        n_jobs=-1 if n_jobs is None else n_jobs,
        random_state=seed,
    )
