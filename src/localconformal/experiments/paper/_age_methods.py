"""Conformal methods on the features of the age model, which are all frozen by now.

The mean is a frozen model of the embedding, the quantiles are columns. What a method learns beside
them, it learns from training images: SLCP, as in the paper, from residuals of images that the
weights were fitted to; all others from the training images that were held out, whose residuals
are as large as those of new ones. Either way calibration images take no part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.experiments.paper._ablation import slcp
from localconformal.experiments.paper._age_images import HELD, POOL, halves
from localconformal.experiments.paper._age_model import AgeFeatures
from localconformal.experiments.presets import Preset
from localconformal.experiments.rows import Rows, Split
from localconformal.laws import KernelLaw
from localconformal.quantiles import Array
from localconformal.regressors import (
    CDSplitRegressor,
    ConformalizedQuantileRegressor,
    LVDRegressor,
    MADSplitRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)

#: Reference images: which parts of the training images they are.
ALL_TRAINING, HELD_OUT = "all training images", "training images held out"


@dataclass(frozen=True)
class Head:
    """offset + relu(x) weights: the network's last layer, fitted already.

    Examples
    --------
    >>> Head(np.array([1.0, 2.0]), 0.5).predict(np.array([[3.0, -1.0]]))
    array([3.5])
    """

    weights: Array
    offset: float

    def predict(self, X: Any) -> Array:
        """Embeddings (n, 16) -> (n,), each row by itself."""
        return np.einsum("ij,j->i", np.maximum(X, 0.0), self.weights) + self.offset


class Columns:
    """A model whose predictions are the columns that it is given."""

    def predict(self, X: Any) -> Array:
        """(n, L) -> (n, L)."""
        return np.asarray(X)


@dataclass(frozen=True)
class Method:
    """(frozen model, seed, preset) -> a regressor; what it is fitted on; what its rows are."""

    make: Callable[[Any, int, Preset], Any]
    reference: str = HELD_OUT
    view: str = "embedding"


def with_law(law: KernelLaw, reference: str) -> Method:
    """The paper's Algorithm 1 with this law in the embedding."""
    return Method(lambda head, seed, preset: slcp(head, "residual", law, seed), reference)


def make_auto(head: Any, seed: int, preset: Preset) -> Any:
    """SLCP with the defaults of this library."""
    return SLCPRegressor(
        head,
        selection_budget=preset.selection_budget,
        calibration_size=None,
        random_state=seed,
        n_jobs=1,
    )


def plain(regressor: Any) -> Callable[[Any, int, Preset], Any]:
    """A regressor with its defaults, to be calibrated by hand."""

    def make(model: Any, seed: int, preset: Preset) -> Any:
        return regressor(model, calibration_size=None, random_state=seed, n_jobs=1)

    return make


METHODS = {
    # Gaussian kernel, median bandwidth.
    "SLCP": with_law(KernelLaw(n_jobs=1), ALL_TRAINING),
    "CDSplit": Method(plain(CDSplitRegressor)),
    "CQR": Method(plain(ConformalizedQuantileRegressor), view="quantiles"),
    "MADSplit": Method(plain(MADSplitRegressor)),
    # Its default kernel learns a metric of the features, which are the embedding here.
    "LVD": Method(plain(LVDRegressor)),
    "split": Method(plain(SplitConformalRegressor)),
    "SLCP-auto": Method(make_auto),
}


@dataclass(frozen=True)
class Task:
    """The features, halved for one repeat."""

    features: AgeFeatures
    calibration: NDArray[np.intp]
    test: NDArray[np.intp]

    @classmethod
    def of(cls, features: AgeFeatures, repeat: int) -> Task:
        """The task of a repeat."""
        return cls(features, *halves(features.parts, repeat))

    def model(self, view: str) -> Any:
        """The frozen model of rows in this view."""
        if view == "quantiles":
            return Columns()
        return Head(self.features.weights, self.features.offset)

    def split(self, view: str, reference: str) -> Split:
        """Reference, calibration and test rows, in years."""
        parts = self.features.parts
        training = parts == HELD if reference == HELD_OUT else parts != POOL
        X: Array = getattr(self.features, view)
        everyone = np.full(len(parts), "")

        def rows(here: NDArray[np.intp]) -> Rows:
            return Rows(X[here], self.features.age[here], everyone[here])

        reference_rows = rows(np.flatnonzero(training))
        return Split(reference_rows, rows(self.calibration), rows(self.test), unit=1.0)
