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
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array, typical_size
from localconformal.splitting import Rows

#: Rows that a tree is grown on, at most: growing on more costs more than it brings.
GROWN_ON = 20_000
#: Trees, rows of a leaf and share of the columns at a split: fine trees, and coarse ones.
SPREAD_FORESTS = ((100, 5, 0.5), (50, 30, 1.0))
#: Rows below which some are in every tree, so that nothing is out of bag.
FEW = 10
#: sigma stays above this share of the typical score, so that nothing is divided by zero.
FLOOR = 0.01
#: Predictions further from their centre count as this far: trees compare in float32.
FARTHEST = 1e30

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
    """sigma(x) = unit max(s(x), FLOOR), s a model of |v| / unit on (x, (mu(x) - centre) / scale).

    In these units a forest works alike for responses of any size.
    """

    view: FeatureEmbedding
    predict: Predict
    centre: float
    scale: float
    model: Any
    unit: float

    def __call__(self, X: Any) -> Array:
        """(n,) positive numbers."""
        mu = around(self.predict(X), self.centre, self.scale)
        points = np.column_stack([self.view.transform(X), mu])
        return np.asarray(self.unit * np.maximum(self.model.predict(points), FLOOR))


def around(mu: Array, centre: float, scale: float) -> Array:
    """Predictions in units of their own, as trees see them."""
    with np.errstate(over="ignore"):
        return np.clip((mu - centre) / scale, -FARTHEST, FARTHEST)


def with_spread(
    outputs: Outputs, X: Any, v: Array, seed: int = 0, n_jobs: int | None = None
) -> Outputs:
    """The same with sigma(x), a forest's model of |v|; as it is when sigma is known already."""
    if outputs.reference_spread is not None:
        return outputs
    check_lengths(len(X), len(v))
    unit, view = typical_size(v), FeatureEmbedding().fit(X)
    centre = float(np.median(outputs.reference))
    scale = typical_size(outputs.reference - centre)
    points = np.column_stack([view.transform(X), around(outputs.reference, centre, scale)])
    order = canonical_order(points, v) if len(v) <= CANONICAL_UP_TO else np.arange(len(v))
    model, in_order = fit_spread(points[order], np.abs(v[order]) / unit, seed, n_jobs)
    known = np.empty(len(v))
    known[order] = in_order
    return replace(
        outputs,
        predict_spread=Once(Spread(view, outputs.predict, centre, scale, model, unit)),
        reference_spread=unit * known,
    )


def fit_spread(
    points: Array, sizes: Array, seed: int, n_jobs: int | None
) -> tuple[RandomForestRegressor, Array]:
    """A forest of the sizes, and what it says at its own rows, out of bag.

    Noise may change from row to row or smoothly with a few columns: of two forests the one is
    taken under whose sigma the sizes are likelier, as exponential variables out of bag.
    """
    n, best = len(sizes), np.inf
    for trees, leaf_rows, share in SPREAD_FORESTS if n >= FEW else SPREAD_FORESTS[:1]:
        model = RandomForestRegressor(
            trees,
            min_samples_leaf=leaf_rows,
            max_features=share,
            max_samples=GROWN_ON if n > GROWN_ON else None,
            oob_score=n >= FEW,
            n_jobs=asked_jobs(n_jobs),
            random_state=seed,
        ).fit(points, sizes)
        # Threads add up the trees' predictions in any order, which changes their last bits.
        model.set_params(n_jobs=1)
        sigma = model.oob_prediction_ if n >= FEW else model.predict(points)
        sigma = np.maximum(sigma, FLOOR)
        loss = float(np.mean(np.log(sigma) + sizes / sigma))
        if loss < best:
            best, chosen, known = loss, model, sigma
    return chosen, known
