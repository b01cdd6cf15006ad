"""CD-Split: a density threshold of its own for each kind of density."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.utils._param_validation import Interval

from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.regressors.density_split import DensitySplitRegressor
from localconformal.regressors.guarantee import Guarantee

#: Levels at which profiles are compared.
LEVELS = 500
#: Training rows whose profiles are clustered, at most.
CLUSTERED = 2_000
#: Training rows for each cell of the default partition: with a quarter of all rows held out, 100
#: calibration rows. And its cells, at most.
ROWS_PER_CELL, MOST_CELLS = 300, 30


class CDSplitRegressor(DensitySplitRegressor):
    """CD-Split: C(x) = {y : f(V(x, y) | x) >= t_a}, with a the cell of x.

    t_a is the lower conformal quantile of f(V_i | x_i) over the calibration rows in the cell.
    Cells hold densities of like shape: rows are compared by their profiles g_x(t), the mass of
    {v : f(v | x) >= t}, in squared distance int (g_x - g_x')^2 dt, and go with the nearest of
    ``n_cells`` centroids, found by k-means among training rows. Where f is nowhere above t_a the
    densest bin is kept, so that no region is empty.

    `HPDSplitRegressor` needs no partition, and is the better choice unless coverage within each
    cell matters.

    Parameters
    ----------
    estimator : estimator, default=None
        Point model; None is HistGradientBoostingRegressor. Fitted models as in `SLCPRegressor`.
    conformity_score : {"residual", "normalised", "response"} or object, default="residual"
        What the density is of, as in `HPDSplitRegressor`.
    density : {"law", "basis"}, default="law"
        As in `HPDSplitRegressor`.
    law : str or object, default=None
        The law of ``density="law"``; None is a forest, as in `HPDSplitRegressor`.
    n_cells : int or None, default=None
        Cells of the partition; None is one for every 300 training rows, from 1 to 30, which leaves
        about 100 calibration rows in each at the default ``calibration_size``. A cell with too
        few calibration rows for the level gets the whole line.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    confidence_level : float, default=0.9
    calibration_size : float or int or None, default=0.25
    random_state : int or None, default=None
    n_jobs : int or None, default=None
        Processes for cross-fitting (None is one) and threads of the law (None is one per core).

    References
    ----------
    Izbicki, Shimizu and Stern, "CD-split and HPD-split: efficient conformal regions in high
    dimensions", JMLR 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(600, 1))
    >>> y = np.where(X[:, 0] < 0.5, 1.0, 4.0) * rng.normal(size=600)
    >>> model = CDSplitRegressor(LinearRegression(), law="kernel", n_cells=2, random_state=0)
    >>> narrow, wide = model.fit(X, y).predict_region([[0.1], [0.9]]).length
    >>> bool(2 * narrow < wide)
    True
    """

    _parameter_constraints = {  # noqa: RUF012
        **DensitySplitRegressor._parameter_constraints,
        "n_cells": [None, Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        conformity_score: Any = "residual",
        density: str = "law",
        law: Any = None,
        n_cells: int | None = None,
        reference: str = "cross-fit",
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            estimator,
            conformity_score=conformity_score,
            density=density,
            law=law,
            reference=reference,
            confidence_level=confidence_level,
            calibration_size=calibration_size,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.n_cells = n_cells

    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        super()._fit_parts(X, y, fit_params, seed)
        wanted = self.n_cells
        if wanted is None:
            wanted = int(np.clip(len(y) // ROWS_PER_CELL, 1, MOST_CELLS))
        with self._stage("partition"):
            rows = np.arange(len(y))
            if len(y) > CLUSTERED:
                drawn = np.random.default_rng(seed).choice(len(y), CLUSTERED, replace=False)
                rows = np.sort(drawn)
            mass = self.density_.mass(take_rows(X, rows))
            highest = float((mass / self.density_.grid.widths).max())
            self.levels_ = highest * np.arange(1, LEVELS + 1) / LEVELS
            self.centroids_ = centroids(self._profiles(mass), wanted, seed)

    def _profiles(self, mass: Array) -> Array:
        return profiles(mass, self.density_.grid.widths, self.levels_)

    def _ranks(self, mass: Array) -> Array:
        density = mass / self.density_.grid.widths
        return np.where(density == density.max(axis=1, keepdims=True), -np.inf, -density)

    def _cells(self, mass: Array) -> NDArray[Any]:
        if len(self.centroids_) == 1:
            return super()._cells(mass)
        # cdist looks at one pair at a time: a row has the same cell in any batch.
        return np.argmin(cdist(self._profiles(mass), self.centroids_, "sqeuclidean"), axis=1)

    def _name_cells(self, cells: NDArray[Any]) -> str:
        if len(self.centroids_) == 1:
            return ""
        return f" (the fewest in {len(cells)} of {len(self.centroids_)} cells)"

    def _guarantee(self) -> Guarantee:
        return replace(super()._guarantee(), conditional_on="cell")

    def _caveats(self) -> tuple[str, ...]:
        average, *others = super()._caveats()
        return (f"within a cell, {average}", *others)


def profiles(mass: Array, widths: Array, levels: Array) -> Array:
    """g_x(t) = mass of the bins with density >= t: (n, M) and t (T,) -> (n, T).

    Examples
    --------
    >>> profiles(np.array([[0.25, 0.75]]), np.array([1.0, 1.0]), np.array([0.1, 0.5, 0.9]))
    array([[1.  , 0.75, 0.  ]])
    """
    density = mass / widths
    order = np.argsort(density, axis=1, kind="stable")
    rising, held = (np.take_along_axis(values, order, axis=1) for values in (density, mass))
    # Mass from each bin upwards, and 0 beyond the densest.
    above = np.pad(np.cumsum(held[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    first = np.stack([np.searchsorted(row, levels) for row in rising])
    return np.take_along_axis(above, first, axis=1)


def centroids(points: Array, wanted: int, seed: int) -> Array:
    """Centres of so many clusters, or fewer where points repeat: (K, T)."""
    distinct = np.unique(points, axis=0)
    if wanted == 1 or len(distinct) == 1:
        return points.mean(axis=0, keepdims=True)
    found = KMeans(min(wanted, len(distinct)), n_init=3, random_state=seed).fit(points)
    return np.asarray(found.cluster_centers_)
