"""Methods that rank the bins of a conditional density, and calibrate the ranks.

    point model -> score V -> density f(v | x) -> rank r(x, bin) -> theta* -> kept bins -> region

At each x every bin of the grid gets a rank, a function of x and of training rows. A row (x, y) has
the rank of the bin that holds V(x, y): the lower of two on a common edge. Bins rank 1 at most, and
a score outside the grid 1 + its distance from it, in units that training scores fix. With theta*
the conformal quantile of the calibration rows' ranks, the region at x is the union of the closed
bins with r(x, bin) <= theta*; from theta* = 1 on it is the whole grid and theta* - 1 units more on
both sides, which is the whole line where theta* is +inf. So y lies in it exactly when the rank of
(x, y) is at most theta*. A method is its ranks.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import HasMethods, StrOptions

from localconformal.adjustments import Plain
from localconformal.calibration import Calibration, SideRule
from localconformal.densities import DENSITIES, BaseDensity, Grid, Sample
from localconformal.intervals import round_up
from localconformal.laws import LAW_METHODS, LAWS, SidedLaw
from localconformal.models import shown, take_rows
from localconformal.parallel import kept_filters
from localconformal.quantiles import MASS_GUARD, Array
from localconformal.regions import Region
from localconformal.regressors.base import COMMON_CONSTRAINTS
from localconformal.regressors.calibrated import CalibratedRegressor
from localconformal.regressors.composed import calibration_scores, check_scores
from localconformal.regressors.distribution import check_band
from localconformal.regressors.reference import REFERENCES, ScoreTask, make_reference
from localconformal.scores import Band, BaseScore, make_score
from localconformal.splitting import Rows

#: Rows whose densities are held at a time: a few arrays of 13 MB each.
ROWS_AT_A_TIME = 4_096
#: Scores that tell where y lies, and not only how far out.
SIGNED_SCORES = ("residual", "normalised", "response")
#: Each row has one rank, whose large values are covered last.
ONE_SIDE = SideRule("absolute")
#: The rank at the ends of the grid, from where on distance counts.
AT_THE_ENDS = 1.0


class DensitySplitRegressor(CalibratedRegressor):
    """Regions of kept bins; a subclass ranks the bins in `_ranks`."""

    density_: BaseDensity

    _parameter_constraints = {  # noqa: RUF012
        **COMMON_CONSTRAINTS,
        "conformity_score": [StrOptions(set(SIGNED_SCORES)), BaseScore],
        "density": [StrOptions(set(DENSITIES))],
        "law": [None, StrOptions(set(LAWS)), HasMethods(LAW_METHODS)],
        "reference": [StrOptions(set(REFERENCES))],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        conformity_score: Any = "residual",
        density: str = "law",
        law: Any = None,
        reference: str = "cross-fit",
        confidence_level: float = 0.9,
        calibration_size: float | int | None = 0.25,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.conformity_score = conformity_score
        self.density = density
        self.law = law
        self.reference = reference
        self.confidence_level = confidence_level
        self.calibration_size = calibration_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ---- hooks -----------------------------------------------------------------------------

    def _ranks(self, mass: Array) -> Array:
        """Masses (n, M) -> ranks of the bins (n, M), 1 at most.

        One bin of each row has the least rank there is: no region is empty.
        """
        raise NotImplementedError

    def _cells(self, mass: Array) -> NDArray[Any]:
        """Cell of each row in the partition that is calibrated separately; one cell here."""
        return np.zeros(len(mass), dtype=np.intp)

    # ---- regions ---------------------------------------------------------------------------

    def predict_region(
        self,
        X: Any,
        confidence_level: float | None = None,
        *,
        alpha: float | None = None,
    ) -> Region:
        """Prediction regions: for each row a union of closed intervals.

        Parameters
        ----------
        X : array or frame of shape (n, d)
        confidence_level : float, default=None
            None is the constructor's level.
        alpha : float, default=None
            Miscoverage 1 - confidence_level, as an alternative to it.

        Returns
        -------
        Region
            With the total ``length``, ``n_pieces``, ``contains(y)`` and ``hull`` of each row; the
            hull is what `predict_interval` returns. The whole line where calibration rows are too
            few for the level. Regions of a higher level contain those of a lower one.
        """
        self._check_calibrated()
        level = self._levels(confidence_level, alpha)
        if level.ndim:
            raise ValueError(
                f"{len(level)} levels came; one number was expected: call predict_region once for "
                "each level."
            )
        regions, reason = self._regions(self._check_rows(X), np.atleast_1d(level))
        if reason:
            warnings.warn(reason, UserWarning, stacklevel=2)
        return regions[0]

    def _regions(self, X: Any, levels: Array) -> tuple[list[Region], str | None]:
        """The region at each level, and why some are the whole line, if so."""
        parts: list[list[Region]] = [[] for _ in levels]
        theta, cells = np.empty((len(X), len(levels))), np.empty(len(X), dtype=np.intp)
        for rows, some, mass in self._masses(X):
            cells[rows] = self._cells(mass)
            theta[rows] = self.calibration_.correction(levels, cells[rows])[:, 0]
            ranks, band = self._ranks(mass), check_band(self.score_.band(some))
            for part, limit in zip(parts, theta[rows].T, strict=True):
                part.append(self._in_responses(kept(ranks, limit, self.density_.grid), band))
        infinite = np.isposinf(theta)[:, None]
        reason = self._why_infinite(infinite, levels, cells) if infinite.any() else None
        return [Region.concatenate(part) for part in parts], reason

    def _in_responses(self, region: Region, band: Band) -> Region:
        """A region of scores as one of responses, rounded outward."""
        of_piece = Band(*(edge[region.rows] for edge in band))
        thresholds = np.stack([-region.starts, region.ends], axis=1)[:, :, None]
        bounds = self.score_.bounds(of_piece, thresholds)
        return Region(bounds[:, 0, 0], bounds[:, 1, 0], region.offsets)

    def _masses(self, X: Any) -> Iterator[tuple[Rows, Any, Array]]:
        """Chunks of rows: which, themselves, and their densities' masses."""
        for start in range(0, len(X), ROWS_AT_A_TIME):
            rows = np.arange(start, min(start + ROWS_AT_A_TIME, len(X)))
            some = take_rows(X, rows)
            yield rows, some, self.density_.mass(some)

    # ---- hooks of the base class -----------------------------------------------------------

    @kept_filters
    def _fit_parts(self, X: Any, y: Array, fit_params: Mapping[str, Any], seed: int) -> None:
        score, estimator = make_score(self.conformity_score), self._base_estimator(seed)
        self._frozen = score.comes_fitted(estimator)
        task = ScoreTask(
            score, estimator, X, y, self.confidence_level, seed, fit_params, self.n_jobs
        )
        with self._stage("train"):
            reference = make_reference(self.reference, task)
        self.score_ = reference.score
        v = signed(check_scores(reference.V), score)
        with self._stage("density"):
            sample = Sample(reference.X, v, reference.outputs, seed, self.n_jobs)
            self.density_ = DENSITIES[self.density](sample, self.law)
        self._level_at_fit = self.confidence_level
        self.fit_report_["rows"]["reference"] = len(v)

    def _calibrate(self, X: Any, y: Array, extra: Any) -> Calibration:
        V = calibration_scores(self.score_, X, y)
        ranks, cells = np.empty(len(y)), np.empty(len(y), dtype=np.intp)
        for rows, _, mass in self._masses(X):
            cells[rows] = self._cells(mass)
            ranks[rows] = rank_of(V[rows, 1], self._ranks(mass), self.density_.grid)
        without_law = SidedLaw((), mirrored=False).at(X)
        return Calibration(ranks[:, None], without_law, Plain(), ONE_SIDE, cells)

    def _bounds(self, X: Any, levels: Array, extra: Any) -> tuple[Array, str | None]:
        regions, reason = self._regions(X, levels)
        return np.stack([region.hull for region in regions], axis=2), reason

    def _local(self, X: Any, level: float, extra: Any) -> dict[str, NDArray[Any]]:
        lower, upper, theta = np.empty((3, len(X)))
        size, fallback = np.full(len(X), float(self.calibration_.n)), np.zeros(len(X), dtype=bool)
        for rows, some, mass in self._masses(X):
            lower[rows], upper[rows] = central(mass, self.density_.grid, level)
            levels = np.array([level])
            theta[rows] = self.calibration_.correction(levels, self._cells(mass))[:, 0, 0]
            if self.density_.law.laws:
                F = self.density_.law.at(some)
                told = F.moments()
                size[rows], fallback[rows] = (
                    told[:, :, 2].min(axis=1),
                    told[:, :, 3].max(axis=1) > 0,
                )
        return {
            "effective_sample_size": size,
            "local_lower": lower,
            "local_upper": upper,
            "correction": theta,
            "fallback": fallback,
        }

    @property
    def law_(self) -> SidedLaw:
        """The law behind the density; one without laws where there is none."""
        return self.density_.law


def signed(V: Array, score: BaseScore) -> Array:
    """The upper scores (n,), of which the lower ones must be the negative."""
    if score.one_sided or not np.array_equal(V[:, 0], -V[:, 1]):
        raise ValueError(
            f"score is {shown(score)}, which does not tell by one number with a sign where y lies; "
            f"one of {', '.join(map(repr, SIGNED_SCORES))} was expected."
        )
    return V[:, 1]


def rank_of(v: Array, ranks: Array, grid: Grid) -> Array:
    """Ranks of scores v (n,) given those of the bins (n, M)."""
    rows, (left, right) = np.arange(len(v)), grid.bins(v)
    inside = np.minimum(ranks[rows, left], ranks[rows, right])
    return np.where(left < 0, AT_THE_ENDS + grid.beyond(v), inside)


def kept(ranks: Array, theta: Array, grid: Grid) -> Region:
    """Scores that rank theta (n,) at most, given the ranks of the bins (n, M)."""
    region = Region.of_bins(ranks <= theta[:, None], grid.edges)
    starts, ends = region.starts.copy(), region.ends.copy()
    # All bins are kept there: the region is one piece.
    whole = theta >= AT_THE_ENDS
    pieces = region.offsets[:-1][whole]
    starts[pieces], ends[pieces] = grid.extended(round_up(theta[whole], -AT_THE_ENDS))
    return Region(starts, ends, region.offsets)


def central(mass: Array, grid: Grid, level: float) -> tuple[Array, Array]:
    """Edges between which the middle bins hold this share of the mass: (n,), (n,)."""
    below = np.cumsum(mass, axis=1)
    tail = (1.0 - level) / 2.0
    first = np.count_nonzero(below < tail - MASS_GUARD, axis=1)
    last = np.count_nonzero(below < 1.0 - tail - MASS_GUARD, axis=1)
    return grid.edges[first], grid.edges[np.minimum(last, mass.shape[1] - 1) + 1]
