"""Regions made of bins of a conditional density: HPD-Split, CD-Split and CHR."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from localconformal.adjustments import Adjustment
from localconformal.composition import Method, Placed, Sides, Task
from localconformal.corrections import Cells
from localconformal.densities import (
    DensityLevel,
    HighestDensity,
    NearestProfile,
    NestedRuns,
)
from localconformal.laws.forest import ForestLaw, default_forest
from localconformal.quantiles import Array
from localconformal.regions import Region
from localconformal.regressors.base import BaseConformalRegressor
from localconformal.rows import shown
from localconformal.scores import Band, Score, make_score

#: The default forest: trees, rows per leaf, share of the columns that a split sees. Densities need
#: more rows per leaf than quantiles do, and more candidates per split.
_FOREST = (100, 10, 2 / 3)


@dataclass(eq=False, repr=False, kw_only=True)
class _DensityRegressor(BaseConformalRegressor):
    """Intervals, and regions that may have gaps.

    Parameters
    ----------
    conformity_score : {"residual", "normalised", "response"} or object, default="residual"
        The variable whose density is used; "response" in the papers.
    law : str or object, default=None
        The law whose masses on a grid of 400 bins, smoothed, are the density; None is a forest
        with larger leaves than that of "forest". The density is zero outside the range of the
        training scores, slightly extended: if more than a share alpha of calibration rows lies
        outside, the region is that range, extended on both sides as far as they require.
        "auto" is not available: it gives quantiles, not masses.
    reference : {"cross-fit", "oob", "holdout", "train"}, default="cross-fit"
    """

    _parameter_constraints = {  # noqa: RUF012
        "conformity_score": [StrOptions({"residual", "normalised", "response"}), Score],
    }

    conformity_score: Any = "residual"
    law: Any = None
    reference: str = "cross-fit"

    def _by(self, adjustment: Adjustment, task: Task) -> Method:
        law = self.law
        if law is None:
            law = ForestLaw(default_forest(len(task.y), task.seed, task.n_jobs, *_FOREST))
        score = make_score(self.conformity_score)
        if score.one_sided:
            raise ValueError(
                f"got {shown(score)}, which has no sign, so it cannot tell on which side y lies; "
                "expected 'residual', 'normalised' or 'response'."
            )
        return Method(score, adjustment, Sides("signed"), law, reference=self.reference)

    def predict_region(
        self, X: Any, confidence_level: float | None = None, *, alpha: float | None = None
    ) -> Region:
        """Prediction regions: for each row a union of closed intervals.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float, default=None
            None is the constructor's level.
        alpha : float, default=None
            Miscoverage, 1 - confidence_level; pass one or the other.

        Returns
        -------
        Region
            Its hull is what `predict_interval` returns, or lies inside it if ``support`` or
            ``integer`` removes whole pieces. The whole line if there are too few calibration rows
            for the level. Regions of a higher level contain those of a lower one.
        """
        self._check_calibrated()
        levels = np.atleast_1d(self._levels(confidence_level, alpha, one_for="predict_region"))
        rows, parts = self._rows(X), self.parts_
        theta, regions = np.empty((len(rows), 1, 1)), []
        for part, some in rows.parts(parts.rows_at_a_time):
            theta[part] = found = parts.correction.theta(self.calibration_, some, levels)
            regions.append(_in_responses(parts.at(some), found))
        self._warn_of_shortage(rows, theta, levels)
        return Region.concatenate(regions).within(self._support)


def _in_responses(placed: Placed, theta: Array) -> Region:
    """The region of scores at theta (n or 1, 1, 1) as one of responses, rounded outward."""
    region = placed.parts.adjustment.regions(theta, placed.F)[0]  # type: ignore[union-attr]
    of_piece = Band(*(edge[region.rows] for edge in placed.band))
    thresholds = np.stack([-region.starts, region.ends], axis=1)[:, :, None]
    bounds = placed.parts.score.bounds(of_piece, thresholds)
    return Region(bounds[:, 0, 0], bounds[:, 1, 0], region.offsets)


class HPDSplitRegressor(_DensityRegressor):
    """HPD-Split: C(x) = {y : H(x, y) <= theta*}, H = mass of {z : f(z | x) > f(V(x, y) | x)}.

    The densest part of the conditional density f(v | x), with as much mass as the calibration
    rows require: theta* = cq(1 - alpha; H(x_i, y_i)). If f has two modes, the region can have two
    pieces and be much shorter than any interval. (Izbicki, Shimizu and Stern, JMLR 2022.)

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(600, 1)), rng.choice([-3, 3], 600) + rng.normal(size=600)
    >>> model = HPDSplitRegressor(conformity_score="response", law="kernel", random_state=0)
    >>> region = model.fit(X, y).predict_region([[0.5]])
    >>> region.n_pieces, region.contains([0.0]), region.contains([3.0])
    (array([2]), array([False]), array([ True]))
    """

    def _method(self, task: Task) -> Method:
        return self._by(HighestDensity(), task)


@dataclass(eq=False, repr=False, kw_only=True)
class CDSplitRegressor(_DensityRegressor):
    """CD-Split: C(x) = {y : f(V(x, y) | x) >= t_a}, with a the cell of x.

    t_a is the lower conformal quantile of f(V_i | x_i) over the calibration rows in the cell.
    Rows of a cell have densities of similar shape: rows are compared by their profiles g_x(t), the
    mass of {v : f(v | x) >= t}, in squared distance int (g_x - g_x')^2 dt, and belong to the
    nearest of ``n_cells`` centroids, found by k-means on training rows. If f is nowhere above t_a,
    the densest bin is kept, so no region is empty. `HPDSplitRegressor`, from the same paper, is
    the better choice unless coverage within each cell matters.

    Parameters
    ----------
    n_cells : int or None, default=None
        None is one cell per 300 training rows, from 1 to 30: by default about 100 calibration
        rows in each. A cell with too few of them for the level gets the whole line.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> CDSplitRegressor(law="kernel", n_cells=2, random_state=0).fit(X, y).predict_region(X[:3])
    Region(3 pieces of 3 rows)
    """

    _parameter_constraints = {  # noqa: RUF012
        "n_cells": [None, Interval(Integral, 1, None, closed="left")]
    }

    n_cells: int | None = None

    def _method(self, task: Task) -> Method:
        cells = Cells(NearestProfile(self.n_cells))
        return replace(self._by(DensityLevel(), task), correction=cells)


class CHRRegressor(_DensityRegressor):
    """CHR: C(x) = the largest run of bins of mass <= theta* in a nested family of short runs.

    The family at x starts from the shortest run of bins that holds ``confidence_level`` of the
    conditional density. It grows by whichever neighbour is denser, and shrinks by whichever end is
    sparser, one bin at a time: the method of Sesia and Romano (NeurIPS 2021) with the finest
    possible steps. The rank of y is the mass of the first run that contains it, and theta* =
    cq(1 - alpha; ranks). Regions are intervals that need not be centred: they follow skewness. The
    family is optimised for the level at fit; other levels are valid too, and short near it.

    Examples
    --------
    >>> from localconformal.datasets import load_simulation
    >>> X, y = load_simulation("sim2").sample(400, random_state=0)
    >>> CHRRegressor(law="kernel", random_state=0).fit(X, y).predict_region(X[:3]).n_pieces
    array([1, 1, 1])
    """

    def _method(self, task: Task) -> Method:
        return self._by(NestedRuns(self.confidence_level), task)
