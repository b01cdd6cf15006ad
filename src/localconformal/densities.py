"""f(v | x): the conditional density of the score, and adjustments that rank its bins.

    law F -> masses of bins -> f(v | x) -> rank r(x, bin) -> theta* -> kept bins -> region

At each x, every bin of a common grid gets a rank, a function of x and of training rows. A row
(x, y) has the rank of the bin that contains V(x, y): the lower of the two on a common edge. Bins
have ranks of at most 1, and a score outside the grid 1 + its distance from it, in a unit set by
training scores. The scores accepted at theta are those in the closed bins with r(x, bin) <= theta;
from theta = 1 on, the whole grid and theta - 1 units more on both sides. So y lies in the region
exactly when the rank of (x, y) is at most theta. A method is defined by its ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import KMeans

from localconformal.adjustments import Adjustment
from localconformal.composition import Parts
from localconformal.corrections import Cell
from localconformal.engine import jit
from localconformal.laws.base import LocalLaw, LocalLaws
from localconformal.laws.transformed import make_folds
from localconformal.quantiles import MASS_GUARD, Array, round_up
from localconformal.regions import Region
from localconformal.rows import Reference, Rows

_BINS = 400
#: The grid reaches beyond the reference scores by this share of their range, on each side.
_MARGIN = 0.1
#: Scores that differ by less than this share of their size differ only by rounding.
_ROUNDING = 1e-9
#: The smoothing is chosen on a third of the reference rows, by fits to the others.
_N_FOLDS = 3
#: Fewest reference rows for which the smoothing is chosen, and the most that are used.
_FEWEST, _MOST = 20, 6_000
#: Share of the mass that is spread over all bins, so that bins where the estimate is zero are
#: ranked too, and scores there do not make every region infinite.
_EVERYWHERE = 0.01
#: Candidate standard deviations of the smoothing, in bins; and the one for too few rows.
_BANDWIDTHS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
_FOR_FEW_ROWS = 16.0
#: The rank at the ends of the grid, beyond which distance counts.
_AT_THE_ENDS = 1.0
#: Levels at which profiles are compared, and the most training rows whose profiles are clustered.
_LEVELS, _CLUSTERED = 500, 2_000
#: Training rows per cell of the default partition (100 calibration rows, with a quarter of all rows
#: held out), and its most cells.
_ROWS_PER_CELL, _MOST_CELLS = 300, 30


@dataclass(frozen=True)
class _Grid:
    """Bins of equal width in u = arcsinh((v - centre) / unit).

    The unit is the range of the middle 90 % of the scores. Within it, u is nearly linear in v and
    the bins have nearly equal width; far out their widths grow in proportion to the distance, so
    that a few outliers do not leave the other scores in one bin. The ends, low and high, are in u.
    """

    centre: float
    unit: float
    low: float
    high: float

    @classmethod
    def around(cls, v: Array, y: Array) -> _Grid:
        """A grid for reference scores v (n,) of responses y (n,).

        Equal scores get bins as narrow as rounding allows; if all are 0, relative to the
        responses.
        """
        first, centre, last = map(float, np.quantile(v, [0.05, 0.5, 0.95]))
        size = float(np.max(np.abs(v)) or np.max(np.abs(y)) or 1.0)
        spread, noise = float(np.ptp(v)), _ROUNDING * size
        if spread <= noise:
            return cls(centre, noise, -1.0, 1.0)
        unit = last - first if last - first > noise else spread
        u = np.arcsinh((v - centre) / unit)
        margin = _MARGIN * float(np.ptp(u))
        return cls(centre, unit, float(u.min()) - margin, float(u.max()) + margin)

    @property
    def edges(self) -> Array:
        return self.centre + self.unit * np.sinh(np.linspace(self.low, self.high, _BINS + 1))

    @property
    def widths(self) -> Array:
        return np.diff(self.edges)

    def bins(self, v: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The closed bins that contain v (n,): two on a common edge, else the same one twice.

        -1 outside the grid.
        """
        edges = self.edges
        inside = (edges[0] <= v) & (v <= edges[-1])
        left, right = (np.searchsorted(edges, v, side=side) - 1 for side in ("left", "right"))
        left, right = np.maximum(left, 0), np.minimum(right, _BINS - 1)
        return np.where(inside, left, -1), np.where(inside, right, -1)

    def beyond(self, v: Array) -> Array:
        """How many units v (n,) lies outside the grid; 0 inside."""
        edges = self.edges
        with np.errstate(over="ignore"):
            return np.maximum(np.maximum(edges[0] - v, v - edges[-1]), 0.0) / self.unit

    def extended(self, units: Array) -> tuple[Array, Array]:
        """Ends of the grid, extended by this many units (n,) on both sides, rounded outward."""
        with np.errstate(over="ignore"):
            reach = self.unit * units
            return -round_up(reach, -self.edges[0]), round_up(reach, self.edges[-1])


# ---- the density of a law -----------------------------------------------------------------------


class _DensityRank(Adjustment):
    """p = rank of the bin that contains v; a subclass ranks the bins in `ranks`.

    The density is the law's masses on the bins, smoothed over neighbours with the bandwidth, in
    bins, that has the smallest loss on held-out reference rows. A hundredth of the mass is spread
    over all bins. Mass beyond the grid is added to the outermost bins.
    """

    #: A few arrays of 13 MB each.
    rows_at_a_time = 4_096

    def ranks(self, mass: Array) -> Array:
        """Masses (n, M) -> ranks of the bins (n, M), at most 1, with a smallest one in each row."""
        raise NotImplementedError

    def fit(self, reference: Reference) -> _DensityRank:
        self.grid_ = _Grid.around(reference.V[:, 0], reference.y)
        self.bandwidth_ = _choose_bandwidth(self.grid_, reference)
        return self

    def masses(self, F: LocalLaws) -> Array:
        """Mass of each bin at each row: (n, M), positive."""
        smooth = _smooth(_law_mass(F.sides[0], self.grid_, F.n), self.bandwidth_)
        return (1.0 - _EVERYWHERE) * smooth + _EVERYWHERE / _BINS

    def score(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """The rank of v, computed for a bounded number of rows at a time."""
        p = np.empty(len(V))
        for start in range(0, len(V), self.rows_at_a_time):
            index = np.arange(start, min(start + self.rows_at_a_time, len(V)))
            ranks, v = self.ranks(self.masses(F.take(index))), V[index, 0]
            left, right = self.grid_.bins(v)
            every = np.arange(len(v))
            inside = np.minimum(ranks[every, left], ranks[every, right])
            p[index] = np.where(left < 0, _AT_THE_ENDS + self.grid_.beyond(v), inside)
        return np.broadcast_to(p[:, None, None], (len(V), *levels.shape))

    def threshold(self, theta: Array, F: LocalLaws, levels: Array) -> Array:
        """Both ends of the hull of the accepted scores, the lower one negated: (n, 2, M)."""
        hulls = np.stack([region.hull for region in self.regions(theta, F)], axis=2)
        return hulls * np.array([-1.0, 1.0])[:, None]

    def regions(self, theta: Array, F: LocalLaws) -> list[Region]:
        """Scores that theta (n or 1, 1, M) accepts at each row, for each of M."""
        ranks = self.ranks(self.masses(F))
        limits = np.broadcast_to(theta, (F.n, *theta.shape[1:]))[:, 0].T
        return [_kept(ranks, limit, self.grid_) for limit in limits]

    def local(self, F: LocalLaws, levels: Array) -> tuple[Array, Array]:
        """Edges of the central bins whose mass is the level: (n,), (n,)."""
        below, edges = np.cumsum(self.masses(F), axis=1), self.grid_.edges
        tail = (1.0 - float(levels[0, 0])) / 2.0
        first, last = (
            np.count_nonzero(below < share - MASS_GUARD, axis=1) for share in (tail, 1.0 - tail)
        )
        return edges[first], edges[np.minimum(last, _BINS - 1) + 1]


def _law_mass(F: LocalLaw, grid: _Grid, n: int) -> Array:
    """F(edge_k+1 | x) - F(edge_k | x): (n, M)."""
    found = F.cdf(np.tile(grid.edges[1:-1], (n, 1)), "right")
    # Rounding, and users' own laws, may make F decrease.
    found = np.maximum.accumulate(np.clip(found, 0.0, 1.0), axis=1)
    return np.diff(found, axis=1, prepend=0.0, append=1.0)


def _smooth(mass: Array, bandwidth: float) -> Array:
    """Masses spread over neighbouring bins, reflected at the ends of the grid: (n, M)."""
    if bandwidth == 0.0:
        return mass
    spread = gaussian_filter1d(mass, bandwidth, axis=1, mode="reflect")
    return spread / spread.sum(axis=1, keepdims=True)


def _choose_bandwidth(grid: _Grid, reference: Reference) -> float:
    """The bandwidth with the smallest loss on held-out reference rows."""
    rows, v, seed = reference.rows, reference.V[:, 0], reference.seed
    if len(v) < _FEWEST:
        return _FOR_FEW_ROWS
    if len(v) > _MOST:
        index = np.sort(np.random.default_rng(seed).choice(len(v), _MOST, replace=False))
        rows, v = rows.take(index), v[index]
    fold = make_folds(rows, v, _N_FOLDS, seed, reference.n_jobs)[0]
    fitted = clone(reference.law).fit(fold.rest, fold.v_rest)
    mass = _law_mass(fitted.at(fold.rows), grid, len(fold.index))
    losses = [_cde_loss(_smooth(mass, b), grid, v[fold.index]) for b in _BANDWIDTHS]
    return _BANDWIDTHS[int(np.argmin(losses))]


def _cde_loss(mass: Array, grid: _Grid, v: Array) -> float:
    """Mean of int f(z | x_i)^2 dz - 2 f(v_i | x_i): integrated squared error, up to a constant."""
    density = mass / grid.widths
    of_row, _ = grid.bins(v)
    seen = np.where(of_row < 0, 0.0, density[np.arange(len(v)), of_row])
    return float(np.mean((density * mass).sum(axis=1) - 2.0 * seen))


def _kept(ranks: Array, theta: Array, grid: _Grid) -> Region:
    """Scores of rank at most theta (n,), given the ranks of the bins (n, M)."""
    # A threshold may be below all ranks: instead of the empty set, the best bin is kept.
    limit = np.maximum(theta, ranks.min(axis=1))
    region = Region.of_bins(ranks <= limit[:, None], grid.edges)
    starts, ends = region.starts.copy(), region.ends.copy()
    # All bins are kept for these rows: the region is one piece.
    whole = theta >= _AT_THE_ENDS
    pieces = region.offsets[:-1][whole]
    starts[pieces], ends[pieces] = grid.extended(round_up(theta[whole], -_AT_THE_ENDS))
    return Region(starts, ends, region.offsets)


# ---- three ways to rank bins --------------------------------------------------------------------


class HighestDensity(_DensityRank):
    """HPD-Split: the mass of denser bins."""

    def ranks(self, mass: Array) -> Array:
        """0 at the densest bin."""
        return _denser_mass(mass, self.grid_.widths)


def _denser_mass(mass: Array, widths: Array) -> Array:
    """Mass of the bins that are strictly denser than each bin: (n, M), 0 at the densest."""
    density = mass / widths
    order = np.argsort(-density, axis=1, kind="stable")
    falling, held = (np.take_along_axis(values, order, axis=1) for values in (density, mass))
    before = np.cumsum(held, axis=1)[:, :-1]
    # Equally dense bins share the rank of the first of them.
    new = falling[:, 1:] < falling[:, :-1]
    ranks = np.zeros_like(mass)
    shared = np.maximum.accumulate(np.where(new, before, 0.0), axis=1)
    np.put_along_axis(ranks, order[:, 1:], shared, axis=1)
    return ranks


class DensityLevel(_DensityRank):
    """CD-Split: the density itself, the densest bin first."""

    def ranks(self, mass: Array) -> Array:
        """Minus the density; no region is empty."""
        density = mass / self.grid_.widths
        return np.where(density == density.max(axis=1, keepdims=True), -np.inf, -density)


class NearestProfile(Cell):
    """CD-Split's partition: rows whose densities have similar profiles.

    The profile of a row is g_x(t), the mass of {v : f(v | x) >= t}; a cell is the nearest of
    ``n_cells`` centroids, found by k-means among training rows.
    """

    def __init__(self, n_cells: int | None = None) -> None:
        self.n_cells = n_cells

    def fit(self, reference: Reference, parts: Parts) -> NearestProfile:
        """Cluster the profiles of training rows."""
        n, rows = len(reference.rows), reference.rows
        wanted = self.n_cells or int(np.clip(n // _ROWS_PER_CELL, 1, _MOST_CELLS))
        if n > _CLUSTERED:
            drawn = np.random.default_rng(reference.seed).choice(n, _CLUSTERED, replace=False)
            rows = rows.take(np.sort(drawn))
        self.law_, self.density_ = parts.law, parts.adjustment
        mass = self.density_.masses(self.law_.at(rows))  # type: ignore[union-attr]
        self.widths_ = self.density_.grid_.widths  # type: ignore[union-attr]
        highest = float((mass / self.widths_).max())
        self.levels_ = highest * np.arange(1, _LEVELS + 1) / _LEVELS
        self.centroids_ = _centroids(_profiles(mass, self.widths_, self.levels_), wanted, reference)
        return self

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Number of the nearest centroid, (n,)."""
        if len(self.centroids_) == 1:
            return np.zeros(len(rows), dtype=np.intp)
        cells = np.empty(len(rows), dtype=np.intp)
        for part, some in rows.parts(_DensityRank.rows_at_a_time):
            mass = self.density_.masses(self.law_.at(some))  # type: ignore[union-attr]
            found = _profiles(mass, self.widths_, self.levels_)
            # cdist computes one pair at a time: a row has the same cell in any batch.
            cells[part] = np.argmin(cdist(found, self.centroids_, "sqeuclidean"), axis=1)
        return cells

    def name_cells(self, cells: NDArray[Any]) -> str:
        """How many there are."""
        if len(self.centroids_) == 1:
            return ""
        return f" (the fewest in {len(cells)} of {len(self.centroids_)} cells)"


def _profiles(mass: Array, widths: Array, levels: Array) -> Array:
    """g_x(t) = mass of the bins with density >= t: (n, M) and t (T,) -> (n, T)."""
    density = mass / widths
    order = np.argsort(density, axis=1, kind="stable")
    rising, held = (np.take_along_axis(values, order, axis=1) for values in (density, mass))
    # Mass from each bin upwards, and 0 beyond the densest.
    above = np.pad(np.cumsum(held[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
    first = np.stack([np.searchsorted(row, levels) for row in rising])
    return np.take_along_axis(above, first, axis=1)


def _centroids(points: Array, wanted: int, reference: Reference) -> Array:
    """Centres of this many clusters, or fewer if points repeat: (K, T)."""
    distinct = np.unique(points, axis=0)
    if wanted == 1 or len(distinct) == 1:
        return points.mean(axis=0, keepdims=True)
    found = KMeans(min(wanted, len(distinct)), n_init=3, random_state=reference.seed).fit(points)
    return np.asarray(found.cluster_centers_)


class NestedRuns(_DensityRank):
    """CHR: the mass of the first run of bins, in a nested family of short ones, that contains v.

    The family grows and shrinks from the shortest run whose mass is ``level``.
    """

    def __init__(self, level: float = 0.9) -> None:
        self.level = level

    def ranks(self, mass: Array) -> Array:
        """Masses of runs; the last contains all mass, up to rounding."""
        return np.minimum(_run_mass(mass, self.grid_.widths, self.level), 1.0)


def _run_mass(mass: Array, widths: Array, level: float) -> Array:
    """Mass of the first run of the family that contains each bin: (n, M), 0 at the innermost."""
    ranks = np.empty_like(mass)
    _nested_runs(mass, widths, level - MASS_GUARD, ranks)
    return ranks


# Compiled loops over the bins of each row: two pointers, O(M) steps per row.


@jit()
def _shortest_run(mass: Any, widths: Any, level: float) -> tuple[int, int]:
    """First and last bin of the shortest run with mass >= level; all bins if there is none."""
    M = len(mass)
    best_first, best_last, best = 0, M - 1, np.inf
    end, held, length = 0, 0.0, 0.0
    for first in range(M):
        while end < M and held < level:
            held += mass[end]
            length += widths[end]
            end += 1
        if held < level:
            break
        if length < best:
            best_first, best_last, best = first, end - 1, length
        held -= mass[first]
        length -= widths[first]
    return best_first, best_last


@jit()
def _nested_runs(mass: Any, widths: Any, level: float, ranks: Any) -> None:
    """Write to ranks (n, M) the mass of the first run with each bin, 0 for the innermost."""
    M = mass.shape[1]
    for i in range(len(mass)):
        first, last = _shortest_run(mass[i], widths, level)
        start = 0.0
        for k in range(first, last + 1):
            start += mass[i, k]
        low, high, held = first, last, start
        while low < high:
            sparser_low = mass[i, low] / widths[low] <= mass[i, high] / widths[high]
            dropped = low if sparser_low else high
            ranks[i, dropped] = held
            held -= mass[i, dropped]
            low, high = (low + 1, high) if sparser_low else (low, high - 1)
        ranks[i, low] = 0.0
        low, high, held = first, last, start
        while high - low < M - 1:
            below = mass[i, low - 1] / widths[low - 1] if low > 0 else -1.0
            above = mass[i, high + 1] / widths[high + 1] if high < M - 1 else -1.0
            added = low - 1 if below > above else high + 1
            held += mass[i, added]
            ranks[i, added] = held
            low, high = min(low, added), max(high, added)
