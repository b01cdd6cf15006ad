"""The contract of a density, and the loss by which its smoothness is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from localconformal.densities.grid import BINS, Grid
from localconformal.laws import SidedLaw
from localconformal.laws.crossfit import Fold, make_folds
from localconformal.laws.outputs import GROWN_ON, Outputs
from localconformal.models import take_rows
from localconformal.parallel import asked_jobs
from localconformal.quantiles import Array
from localconformal.splitting import Rows

#: The density is chosen on a third of the reference rows, by fits to the others.
N_FOLDS = 3
#: Reference rows below which nothing can be chosen, and as many as that needs.
FEWEST, MOST = 20, 6_000
#: The default forest: trees, rows of a leaf, share of the columns that a split sees. Densities ask
#: more of a leaf than quantiles do, and more of a split: coarser leaves, chosen with more care.
TREES, LEAF_ROWS, COLUMNS = 100, 10, 2 / 3
#: Share of the mass that is spread over all bins, so that also those are ranked where the
#: estimate is zero, and scores there do not make every region infinite.
EVERYWHERE = 0.01


@dataclass(frozen=True)
class Sample:
    """Reference rows X, their scores v (n,), and what the point model says of them."""

    X: Any
    v: Array
    outputs: Outputs
    seed: int
    n_jobs: int | None = None

    def held_out(self) -> tuple[Fold, Array] | None:
        """A third of (at most 6,000) rows with the others to fit on, and its scores.

        None where there are too few rows.
        """
        n = len(self.v)
        if n < FEWEST:
            return None
        rows: Rows = np.arange(n)
        if n > MOST:
            rows = np.sort(np.random.default_rng(self.seed).choice(n, MOST, replace=False))
        X, v = take_rows(self.X, rows), self.v[rows]
        fold = make_folds(X, v, self.outputs.take(rows), N_FOLDS, self.seed, self.n_jobs)[0]
        return fold, v[fold.rows]


def default_forest(n: int, seed: int, n_jobs: int | None) -> RandomForestRegressor:
    """The forest of densities for n reference rows; ``n_jobs`` None is all cores."""
    return RandomForestRegressor(
        TREES,
        min_samples_leaf=LEAF_ROWS,
        max_features=COLUMNS,
        max_samples=GROWN_ON if n > GROWN_ON else None,
        random_state=seed,
        n_jobs=asked_jobs(n_jobs),
    )


@dataclass(frozen=True)
class BaseDensity:
    """f(v | x), constant on the bins of ``grid`` and zero outside; a subclass estimates masses.

    ``law`` is the law behind it, of signed scores; one without laws where there is none.
    """

    grid: Grid
    law: SidedLaw

    def estimate(self, X: Any) -> Array:
        """Mass of each bin at each row: (n, M), none negative, with sum 1."""
        raise NotImplementedError

    def mass(self, X: Any) -> Array:
        """The estimate with a hundredth of the mass spread over all bins: (n, M), positive."""
        return (1.0 - EVERYWHERE) * self.estimate(X) + EVERYWHERE / BINS


def cde_loss(mass: Array, grid: Grid, v: Array) -> float:
    """Mean of int f(z | x_i)^2 dz - 2 f(v_i | x_i): the integrated squared error, but a constant.

    Parameters
    ----------
    mass : array of shape (n, M)
    grid : Grid
    v : array of shape (n,)
        Scores that the density has not seen.
    """
    density = mass / grid.widths
    of_row, _ = grid.bins(v)
    seen = np.where(of_row < 0, 0.0, density[np.arange(len(v)), of_row])
    return float(np.mean((density * mass).sum(axis=1) - 2.0 * seen))
