"""Which calibration rows count for x: cells, weights, and kernels with their bandwidths.

    Cells                      cq(1 - alpha; scores of the calibration rows in the cell of x)
    Ratio                      wcq(1 - alpha; scores, w(X_i), w(x)): covariate shift
    Kernel, Drawn, LocalRanks  the kernel of a law around x: LVD, RLCP, LCP

A new correction is a class with `keep` and `theta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.special import betaincinv, ndtri
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import gen_batches

from localconformal.columns import Features, View, check_cells, column_of
from localconformal.composition import Calibration, Correction, Parts
from localconformal.engine import FLAT
from localconformal.laws.base import effective_size, make_law, reference_rows
from localconformal.laws.forest import as_points
from localconformal.laws.kernel import KERNELS, Problem, absolute_weights
from localconformal.quantiles import Array, conformal_rank, weighted_conformal_quantile
from localconformal.rows import (
    Curve,
    Index,
    Reference,
    Rows,
    canonical_order,
    few_threads,
    row_hashes,
    split_rows,
    stack_rows,
    take_rows,
)

#: Pairs of rows weighted at a time: bounds the memory of any query.
_PAIRS_AT_A_TIME = 4_000_000


# ---- cells --------------------------------------------------------------------------------------


class Cells(Correction):
    """A separate calibration in each cell: Mondrian, LOCART, CD-Split.

    ``cell`` is the curve x -> cell, with ``fit(reference, parts)`` if it is learned. With
    ``pool``, cells with too few rows get the correction of all rows together.
    """

    def __init__(self, cell: Any, pool: bool = False) -> None:
        self.cell = cell
        self.pool = pool

    @property
    def needs_reference(self) -> bool:  # type: ignore[override]
        """Whether cells are learned."""
        return hasattr(self.cell, "fit")

    def fit(self, reference: Reference, parts: Parts) -> Cells:
        """Learn what a cell is."""
        self.cell.fit(reference, parts)
        return self

    def keep(self, rows: Rows, V: Array) -> NDArray[Any]:
        """The cell of each row."""
        return np.asarray(self.cell(rows))

    def cells(self, calibration: Calibration) -> NDArray[Any]:
        """Cell of each calibration row."""
        return np.asarray(calibration.kept)

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* (n, S, L); +inf if a cell is too small."""
        kinds, place = np.unique(self.cell(rows), return_inverse=True)
        nothing = np.full(calibration.parts.sides.n_sides, np.inf)
        ask = partial(self._by_cell, calibration)
        tables = [calibration.once(("cells", float(t)), ask, t) for t in levels]
        found = np.array([[table.get(cell, nothing) for table in tables] for cell in kinds])
        found = np.moveaxis(found, 1, 2)
        if self.pool and np.isinf(found).any():
            found = np.where(np.isinf(found), super().theta(calibration, rows, levels), found)
        return found[place.reshape(-1)]

    def _by_cell(self, calibration: Calibration, level: float) -> dict[Any, Array]:
        """theta* (S,) of each cell at one level."""
        levels, sides = np.array([level]), calibration.parts.sides
        kinds, place = np.unique(calibration.kept, return_inverse=True)
        p = calibration.scores(levels)
        return {cell: sides.theta(p[place == k], levels)[:, 0] for k, cell in enumerate(kinds)}

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """Calibration rows in the cell of each row."""
        kinds, place = np.unique(self.cell(rows), return_inverse=True)
        counts = [float(np.count_nonzero(calibration.kept == cell)) for cell in kinds]
        return np.array(counts)[place.reshape(-1)]

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """Which cells have too few rows."""
        short = np.broadcast_to(np.isposinf(theta).any(axis=(1, 2)), len(rows))
        fewest = int(self.sizes(calibration, rows)[short].min())
        where = self.cell.name_cells(np.unique(self.cell(rows)[short]))
        return calibration.parts.sides.shortage(fewest, where, theta, levels)


class Cell(Curve, BaseEstimator):
    """The cell of a row."""

    def name_cells(self, cells: NDArray[Any]) -> str:
        """Which cells have too few rows, for a message."""
        names = [*map(str, cells[:3]), *["..."] * (len(cells) > 3)]
        return f" (the fewest of the cells {', '.join(names)})"


class LabelCell(Cell):
    """A column by name or position, a function of X, or None: the label given with the row."""

    def __init__(self, groups: Any = None) -> None:
        self.groups = groups

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Names of labels, (n,)."""
        if self.groups is None:
            return check_cells(rows.beside, len(rows))
        labels = self.groups(rows.X) if callable(self.groups) else column_of(rows.X, self.groups)
        return check_cells(labels, len(rows))


class PointBin(Cell):
    """Bins of the prediction, with edges at quantiles of the reference rows' predictions."""

    def __init__(self, n_bins: int = 5) -> None:
        self.n_bins = n_bins

    def fit(self, reference: Reference, parts: Parts) -> PointBin:
        """Learn the edges."""
        inner = np.arange(1, self.n_bins) / self.n_bins
        self.score_, self.edges_ = reference.score, np.quantile(reference.rows.point, inner)
        return self

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Number of the bin, (n,)."""
        return np.searchsorted(self.edges_, self.score_(rows).point, side="right")


class TreeLeaf(Cell):
    """The leaf of a regression tree for the scores (LOCART), pruned on held-out rows."""

    def __init__(self, min_samples_leaf: int = 100) -> None:
        self.min_samples_leaf = min_samples_leaf

    def fit(self, reference: Reference, parts: Parts) -> TreeLeaf:
        """Grow the tree on reference scores."""
        rows, v = reference_rows(reference.rows, reference.V[:, 0])
        self.view_ = View().fit(rows)
        points = as_points(self.view_(rows))
        self.tree_ = _pruned_tree(points, v, self.min_samples_leaf, reference.seed)
        return self

    def compute(self, rows: Rows) -> NDArray[Any]:
        """Number of the leaf, (n,)."""
        return np.asarray(self.tree_.apply(as_points(self.view_(rows))))

    def name_cells(self, cells: NDArray[Any]) -> str:
        """How many there are."""
        return f" (the fewest of {len(cells)} leaves with too few)"


#: Share of the reference rows on which a tree is pruned.
_PRUNING_SHARE = 0.3
#: Complexity costs that are tried: each takes a tree.
_MOST_COSTS = 25


def _pruned_tree(
    points: NDArray[np.float32], scores: Array, min_samples_leaf: int, seed: int
) -> DecisionTreeRegressor:
    """A tree for the scores, pruned by squared error on held-out rows."""
    tree = DecisionTreeRegressor(min_samples_leaf=min_samples_leaf, random_state=seed)
    grown, held = split_rows(len(scores), _PRUNING_SHARE, seed)
    if len(grown) < 2 * min_samples_leaf or len(held) == 0:
        return tree.fit(points, scores)
    path = tree.cost_complexity_pruning_path(points[grown], scores[grown])
    costs = np.unique(np.maximum(path.ccp_alphas, 0.0))
    costs = costs[np.unique(np.linspace(0, len(costs) - 1, _MOST_COSTS).astype(int))]
    errors = []
    for cost in costs:
        tried = tree.set_params(ccp_alpha=cost).fit(points[grown], scores[grown])
        errors.append(np.mean((scores[held] - tried.predict(points[held])) ** 2))
    # Among equals, the smallest tree.
    best = costs[len(costs) - 1 - int(np.argmin(errors[::-1]))]
    return tree.set_params(ccp_alpha=best).fit(points, scores)


# ---- weights ------------------------------------------------------------------------------------


class _Weighing(Correction):
    """theta*(x) = wcq(1 - alpha; p_1..p_n, w(X_1, x)..w(X_n, x), w_inf(x)), in chunks of rows.

    A subclass sets ``view_``, what it keeps of a row, and defines how rows are weighted.
    """

    remedy = "choose a larger bandwidth, calibrate on more rows, or lower the level."
    view_: Curve

    def weigh(self, mine: Any, held: Any) -> tuple[Array, Array]:
        """Views of m new and n calibration rows -> weights (m, n), and mass at +inf (m,)."""
        raise NotImplementedError

    def keep(self, rows: Rows, V: Array) -> Any:
        """The view of each row."""
        return self.view_(rows)

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """theta* at each row: (n, S, L)."""
        mine, scores, sides = self.view_(rows), calibration.scores(levels), calibration.parts.sides
        theta = np.empty((len(rows), sides.n_sides, len(levels)))
        for part in self._chunks(len(rows), calibration):
            weights, own = self.weigh(take_rows(mine, part), calibration.kept)
            ask = partial(weighted_conformal_quantile, weights=weights, weight_inf=own)
            theta[part] = np.moveaxis(sides.theta(scores, levels, ask), 2, 0)
        return theta

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """(sum w)^2 / sum w^2 of the calibration rows at each row."""
        mine, sizes = self.view_(rows), np.empty(len(rows))
        for part in self._chunks(len(rows), calibration):
            sizes[part] = effective_size(self.weigh(take_rows(mine, part), calibration.kept)[0])
        return sizes

    def _chunks(self, m: int, calibration: Calibration) -> Iterator[slice]:
        return gen_batches(m, max(1, _PAIRS_AT_A_TIME // max(1, calibration.n)))

    def shortage(self, calibration: Calibration, rows: Rows, theta: Array, levels: Array) -> str:
        """How many rows have too little weight around them."""
        if calibration.n < calibration.parts.sides.required_size(float(levels.max())):
            return super().shortage(calibration, rows, theta, levels)
        infinite = np.isposinf(theta)
        level = float(levels[infinite.any(axis=(0, 1))].max())
        return (
            f"{np.count_nonzero(infinite.any(axis=(1, 2)))} of {len(rows)} intervals are infinite: "
            "calibration rows have too little weight there for confidence level "
            f"{level!r}; {self.remedy}"
        )


class Ratio(_Weighing):
    """Covariate shift: w(X_i), and w(x) at +inf; ``weigh_row`` is the w of a row."""

    remedy = "calibrate on more rows like these, clip the weights, or lower the level."

    def __init__(self, weigh_row: Curve) -> None:
        self.weigh_row = weigh_row

    @property
    def view_(self) -> Curve:  # type: ignore[override]
        """w of a row."""
        return self.weigh_row

    def weigh(self, mine: Array, held: Array) -> tuple[Array, Array]:
        """The same weights for all rows."""
        return held, mine

    def sizes(self, calibration: Calibration, rows: Rows) -> Array:
        """(sum w)^2 / sum w^2, the same for all rows."""
        return np.full(len(rows), effective_size(calibration.kept[None])[0])


class RowWeight(Curve):
    """w of a row: a function of X, the weights given with X, or 1."""

    def __init__(self, function: Callable[[Any], Any] | None = None) -> None:
        self.function = function

    def compute(self, rows: Rows) -> Array:
        """(n,) finite, non-negative numbers."""
        weights, n = rows.beside, len(rows)
        if weights is None:
            weights = np.ones(n) if self.function is None else self.function(rows.X)
        given = np.asarray(weights)
        if given.dtype.kind not in "biuf" or given.shape != (n,):
            raise ValueError(
                f"got weights of dtype {given.dtype} and shape {given.shape}; expected one number "
                f"for each of {n} rows."
            )
        bad = ~np.isfinite(given) | (given < 0)
        if bad.any():
            raise ValueError(
                f"{np.count_nonzero(bad)} of {n} weights are negative or not finite, such as "
                f"{given[bad][0]}; expected finite, non-negative numbers."
            )
        return given.astype(np.float64)


@dataclass(frozen=True, eq=False)
class DensityRatio(Curve):
    """w(x) = p(x) / (1 - p(x)), p(x) the probability of a new row if both kinds are equally many.

    ``balance`` is the number of training rows divided by that of new rows. A classifier's odds are
    multiplied by it before p is clipped, so that clipping does not depend on the two numbers.
    """

    classifier: Any
    view: Features | None
    balance: float
    clip: float

    @classmethod
    def fit(cls, classifier: Any, X: Any, target: Any, clip: float, seed: int) -> DensityRatio:
        """From training and new rows, passed unchanged to a classifier; None is boosting."""
        is_new, balance = np.repeat([0, 1], [len(X), len(target)]), len(X) / len(target)
        if classifier is not None:
            view, rows, fresh = None, stack_rows(X, target), clone(classifier)
        else:
            view = Features().fit(X)
            rows = np.vstack([view.transform(X), view.transform(target)])
            # Few, small trees, stopped when held-out rows gain nothing: without a shift, w is
            # constant. Early stopping needs enough rows of each kind to hold some out.
            fresh = HistGradientBoostingClassifier(
                learning_rate=0.05,
                max_iter=200,
                max_leaf_nodes=8,
                early_stopping=min(len(X), len(target)) >= 30,
                random_state=seed,
            )
        with few_threads(rows):
            return cls(fresh.fit(rows, is_new), view, balance, clip)

    def compute(self, rows: Rows) -> Array:
        """(n,) positive numbers."""
        seen = rows.X if self.view is None else self.view.transform(rows.X)
        new = list(self.classifier.classes_).index(1)
        p = np.asarray(self.classifier.predict_proba(seen), dtype=np.float64)[:, new]
        p = p * self.balance / (p * self.balance + 1.0 - p)
        p = np.clip(p, self.clip, 1.0 - self.clip)
        return p / (1.0 - p)


# ---- the kernel of a law around x: LVD and RLCP --------------------------------------------------


class Kernel(_Weighing):
    """LVD: the kernel of a law around the new row itself, mass 1 at +inf."""

    needs_reference = True

    def __init__(self, law: Any) -> None:
        self.law = law

    def fit(self, reference: Reference, parts: Parts) -> Kernel:
        """Learn the kernel from reference rows and the larger side of their scores."""
        law = make_law(self.law, reference.seed, reference.n_jobs)
        self.localizer_ = law.fit_localizer(reference.rows, reference.V.max(axis=1))
        self.view_, self.seed_ = self.localizer_.view, reference.seed
        return self

    def weigh(self, mine: Any, held: Any) -> tuple[Array, Array]:
        """H(x, X_i), and H(x, x) = 1 at +inf."""
        return self.localizer_.weigh(mine, held), np.ones(len(mine))


class Drawn(Kernel):
    """RLCP: the kernel around a centre drawn from its own density at the row."""

    def weigh(self, mine: Array, held: Array) -> tuple[Array, Array]:
        """K(|X_i - x~| / h), and K(|x - x~| / h) at +inf."""
        kernel, h = self.localizer_.kernel, self.localizer_.bandwidth  # type: ignore[attr-defined]
        if np.isinf(h):
            return np.ones((len(mine), len(held))), np.ones(len(mine))
        noise = DRAWS[kernel](self.seed_, mine)
        u2 = np.empty((len(mine), len(held) + 1))
        u2[:, :-1] = cdist(mine + h * noise, held, "sqeuclidean") / h**2
        u2[:, -1] = np.einsum("ij,ij->i", noise, noise)
        # Gaussian weights are relative to the row's largest: else all underflow in many dimensions.
        weights = KERNELS[kernel](u2)
        return weights[:, :-1], weights[:, -1]


#: Bits of each coordinate that a draw depends on.
_KEPT_BITS = 30
_HALF = np.uint64(32)


#: Kernels that can be sampled: seed and points (n, k) -> a draw with density proportional to
#: K(|u|) for each, (n, k). Gaussian: N(0, I). Boxcar: uniform in the unit ball, so radius^k is
#: uniform. Epanechnikov: a uniform direction, and a squared radius with the law Beta(k / 2, 2).
#: A draw is a hash of (seed, row): the same row gets the same one, alone or in a batch.
DRAWS: dict[str, Callable[[int, Array], Array]] = {
    "gaussian": lambda seed, points: ndtri(_uniforms(seed, points, points.shape[1])),
    "boxcar": lambda seed, points: _in_ball(seed, points, lambda share, k: share ** (1.0 / k)),
    "epanechnikov": lambda seed, points: _in_ball(
        seed, points, lambda share, k: np.sqrt(betaincinv(k / 2.0, 2.0, share))
    ),
}


def _in_ball(seed: int, points: Array, radius: Callable[[Array, int], Array]) -> Array:
    """Uniform directions with radii given by their inverse distribution function."""
    k = points.shape[1]
    table = _uniforms(seed, points, k + 1)
    normal = ndtri(table[:, :k])
    length = np.sqrt(np.einsum("ij,ij->i", normal, normal))
    return normal * (radius(table[:, k], k) / length)[:, None]


def _uniforms(seed: int, points: Array, count: int) -> Array:
    """``count`` numbers inside (0, 1) for each point, a hash of the seed and the point."""
    # A model's last bits depend on how many rows it predicts at once; the draw must not.
    mantissa, exponent = np.frexp(points)
    coarse = np.ldexp(np.rint(np.ldexp(mantissa, _KEPT_BITS)), exponent - _KEPT_BITS)
    keys = row_hashes(coarse, np.full(len(points), float(seed)))
    # Halves of 32 bits: a hash reads numbers as floats, which would round 64 bits.
    halves = np.column_stack([keys >> _HALF, keys & np.uint64(2**32 - 1)])
    places = (np.full(len(points), float(place)) for place in range(count))
    bits = np.column_stack([row_hashes(halves, place) for place in places])
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


# ---- local ranks (LCP) --------------------------------------------------------------------------


class LocalRanks(Kernel):
    """LCP (Guan): a score v at x is accepted if few calibration rows have a smaller local rank.

    Every row i, calibration or new, has its own law: the scores of all n + 1 rows, weighted by
    H(X_i, .). The local rank of i is the mass of its law strictly below its own score. A score v of
    the new row x is accepted if fewer than (1 - alpha)(n + 1) calibration rows have a smaller
    local rank than v has at x. The n + 1 ranks are exchangeable for any H, hence the coverage.

    No search over v is needed. Let V_1 <= .. <= V_n < V_{n+1} = inf, with l(k) of them below V_k::

        once           a_i = sum of the first l(i) of H(X_i, X_j), b_i = their sum        O(n^2)
        at x           u_i = H(X_i, x), h_j = H(x, X_j), N_i = b_i + u_i
                       t1_i = (a_i + u_i) / N_i     rank of row i while v is below V_i
                       t2_i = a_i / N_i             and from there on
                       T_k = (h_1 + .. + h_l(k)) / (h_1 + .. + h_n + 1)
                                                    rank of v between the score before V_k and V_k
        v up to V_k    #{i <= l(k) : t2_i < T_k} + #{i > l(k) : t1_i < T_k} rows are below

    As v grows, T_k grows and t1 drops to t2, row by row: the count never falls, and the largest
    accepted k is found by bisection. The threshold is V_k; the interval is closed, the hull of what
    is accepted.

    Equal ranks must not count as smaller, but rounding can make either of two equal sums larger. A
    sum of n non-negative numbers, divided by another, is off by a factor within 1 +- (n + 2) eps.
    So a row is counted only if t < (1 - g) T - tiny with g = (2 n + 16) eps (and tiny the smallest
    normal number, for masses that underflow): then its rank is smaller in exact arithmetic too.
    Sets can only be too large; H = 1 gives exactly the conformal quantile.
    """

    def keep(self, rows: Rows, V: Array) -> _Ranks:
        """The rows in the order of their scores, with their sums."""
        # Sums are rounded: rows with equal scores need an order that depends on the rows alone.
        order = canonical_order(rows, V[:, 0])
        return _rank_locally(self.localizer_.weigh, self.view_(rows)[order], V[order, 0])

    def theta(self, calibration: Calibration, rows: Rows, levels: Array) -> Array:
        """The largest accepted score at each row: (n, 1, L)."""
        ranks: _Ranks = calibration.kept
        H = self.localizer_
        found = ranks.thresholds(H.weigh, self.view_(rows), levels, symmetric=H.symmetric)
        return found[:, None, :]

    def weigh(self, mine: Any, held: _Ranks) -> tuple[Array, Array]:
        """H(x, X_i)."""
        return super().weigh(mine, held.rows)


#: (m rows, n others) -> H(row_i, other_j), (m, n), in [0, 1] and 1 for a row with itself.
_Kernel = Callable[[Any, Any], Array]
#: Pairs of rows held at once: 8 MB an array.
_CHUNK = 2**20
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class _Ranks:
    """Calibration rows, prepared for thresholds at any level; made by `_rank_locally`."""

    #: What the kernel needs of each row, in the order of scores.
    rows: Any
    #: Sorted, then +inf; and how many are strictly below each, l(k): (n + 1,).
    scores: Array
    below: NDArray[np.int64]
    #: a and b: (n,).
    under: Array
    total: Array

    @property
    def n(self) -> int:
        return len(self.total)

    def thresholds(self, kernel: _Kernel, rows: Any, levels: Array, *, symmetric: bool) -> Array:
        """Largest accepted score at each of m rows: levels (L,) -> (m, L); +inf if all are."""
        # A level so low that its rank is 0 gets the smallest score, as in cq.
        most = np.array([max(1, conformal_rank(self.n, level)) - 1 for level in levels])
        accepted = np.empty((len(rows), len(levels)), dtype=np.int64)
        shrink = 1.0 - (2 * self.n + 16) * np.finfo(np.float64).eps
        for part in gen_batches(len(rows), max(1, _CHUNK // self.n)):
            from_row = kernel(rows[part], self.rows)
            to_row = from_row if symmetric else kernel(self.rows, rows[part]).T
            accepted[part] = self._last_accepted(to_row, from_row, most, shrink)
        return self.scores[accepted]

    def _last_accepted(
        self, to_row: Array, from_row: Array, most: NDArray[np.int64], shrink: float
    ) -> NDArray[np.int64]:
        """Largest k that each of m rows accepts, for each number of rows that may be below."""
        mass = self.total + to_row
        first, second = (self.under + to_row) / mass, self.under / mass
        sums = _running_sums(from_row)
        masses = sums / (sums[:, -1:] + 1.0) * shrink - _TINY
        place, each = np.arange(self.n), np.arange(len(mass))
        out = np.empty((len(mass), len(most)), dtype=np.int64)
        for l, allowed in enumerate(most):
            low, high = np.zeros(len(mass), dtype=np.int64), np.full(len(mass), self.n + 1)
            # All rows of the chunk need the same number of steps, up to one idle step.
            while (high - low > 1).any():
                k = (low + high) // 2
                start = self.below[k]
                rank = np.where(place < start[:, None], second, first)
                count = np.count_nonzero(rank < masses[each, start][:, None], axis=1)
                low, high = np.where(count <= allowed, k, low), np.where(count <= allowed, high, k)
            out[:, l] = low
        return out


def _rank_locally(kernel: _Kernel, rows: Any, scores: Array) -> _Ranks:
    """Set up n calibration rows, given in the order of their scores: O(n^2) pairs, in chunks."""
    n = len(scores)
    below = np.append(np.searchsorted(scores, scores, side="left"), n).astype(np.int64)
    under, total = np.empty(n), np.empty(n)
    for part in gen_batches(n, max(1, _CHUNK // n)):
        sums = _running_sums(kernel(rows[part], rows))
        under[part], total[part] = sums[np.arange(len(sums)), below[part]], sums[:, -1]
    return _Ranks(rows, np.append(scores, np.inf), below, under, total)


def _running_sums(weights: Array) -> Array:
    """0, w_1, w_1 + w_2, ...: (m, n) -> (m, n + 1); one after the other, as a loop would."""
    return np.cumsum(np.pad(weights, ((0, 0), (1, 0))), axis=1)


# ---- bandwidths for methods that weight calibration rows ----------------------------------------

# Relative precision of h.
_PRECISION = 1e-4
# exp(-u^2 / 2) is 0 in float64 at this u.
_NOTHING = 40.0
#: Most rows that stand in for calibration rows, and most query rows.
_CALIBRATION, _QUERIES = 1_000, 300
#: Reference rows per stand-in for a calibration row, as in a default split: the fewer calibration
#: rows, the more thresholds are infinite.
_REFERENCES_EACH = 3
#: Approximate number of rows used by all splits together, and the most splits.
_TRIAL_ROWS, _MOST_TRIALS = 2_000, 8
#: Bandwidths tried.
_CANDIDATES = 20


@dataclass(eq=False, repr=False)
class EffectiveSize(BaseEstimator):
    """h at which the mean number of effective neighbours is the target: n / ||W||_F^2 - 1 = target.

    W is the kernel matrix K(|X_i - X_j| / h) of the reference rows, or of a sample of 2,000 of
    them, with rows that sum to one (Hore and Barber, arXiv:2310.07850). The left side is 0 for
    h -> 0 and n - 1 for h -> inf. For a kernel with jumps, h is where the target is passed; if
    there are fewer rows than the target, h is infinite. The effective number of calibration rows
    is the target if there are as many of them as rows in W, and proportional otherwise.

    Parameters
    ----------
    target : float, default=50.0
        Mean number of effective neighbours.

    Examples
    --------
    >>> from localconformal import KernelLaw
    >>> X = np.linspace(0, 1, 300)[:, None]
    >>> law = KernelLaw("boxcar", bandwidth=EffectiveSize(50), embedding=lambda x: x)
    >>> within = np.abs(X - 0.5) / X.std() <= law.fit(X, X[:, 0]).bandwidth_
    >>> abs(int(within.sum()) - 1 - 50) <= 5
    True
    """

    target: float = 50.0

    def choose(self, problem: Problem) -> float:
        """The bandwidth, by Brent's method on a logarithmic scale."""
        if not isinstance(self.target, Real) or not self.target > 0:
            raise ValueError(f"got target={self.target!r}; expected a positive number.")
        points = problem.sample().points
        squared = cdist(points, points, "sqeuclidean")
        apart = np.sqrt(squared[squared > 0])
        # An h that reaches only coinciding rows, and one that weights all equally.
        narrow = float(apart.min()) / _NOTHING if len(apart) else 1.0
        wide = float(apart.max()) * FLAT if len(apart) else 1.0
        if _neighbours(problem.kernel, squared, wide) < self.target:
            return float("inf")
        if _neighbours(problem.kernel, squared, narrow) >= self.target:
            return narrow

        def excess(log_h: float) -> float:
            size = _neighbours(problem.kernel, squared, float(np.exp(log_h)))
            return float(np.log1p(size) - np.log1p(self.target))

        return float(np.exp(brentq(excess, np.log(narrow), np.log(wide), xtol=_PRECISION)))


def _neighbours(kernel: str, squared: Array, bandwidth: float) -> float:
    """n / ||W||_F^2 - 1 from squared distances (n, n)."""
    weights = KERNELS[kernel](squared / bandwidth**2)
    total = weights.sum(axis=1)
    return len(weights) / float(np.sum(np.einsum("ij,ij->i", weights, weights) / total**2)) - 1.0


@dataclass(eq=False, repr=False)
class FiniteThresholds(BaseEstimator):
    """h with the smallest thresholds of localized conformal prediction among those seldom infinite.

        minimise   mean finite threshold
        subject to share of infinite thresholds <= (1 - level) / 2

    over 20 bandwidths in a geometric sequence, from twice the largest of the pairwise
    distances to their 1 % quantile, until the condition fails; if it fails at once, the widest is
    used. A third of the reference rows (1,000 at most) stand in for calibration rows, others (300
    at most) for new rows; with few rows, over several splits, since one would be too noisy.

    Parameters
    ----------
    level : float, default=0.9
        Confidence level of the thresholds.

    Examples
    --------
    >>> FiniteThresholds(0.8)
    FiniteThresholds(level=0.8)
    """

    level: float = 0.9

    def choose(self, problem: Problem) -> float:
        """The candidate with the smallest objective."""
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"got level={self.level!r}; expected a number inside (0, 1).")
        ends = (2.0 * problem.distance_quantile(1.0), problem.distance_quantile(0.01))
        if len(problem.v) < 2:
            return ends[0]
        candidates = np.geomspace(*ends, _CANDIDATES)
        count = int(np.clip(_TRIAL_ROWS // len(problem.v), 1, _MOST_TRIALS))
        trials = [_make_trial(problem, self.level, number) for number in range(count)]
        objectives: list[float] = []
        for h in candidates:
            share, objective = np.mean([trial(float(h)) for trial in trials], axis=0)
            # Narrower ones have an even larger share.
            if share > (1.0 - self.level) / 2.0:
                break
            objectives.append(objective)
        return float(candidates[int(np.argmin(objectives)) if objectives else 0])


def _make_trial(
    problem: Problem, level: float, number: int
) -> Callable[[float], tuple[float, float]]:
    """h -> share of infinite thresholds, and the mean of the finite ones, on sampled rows."""
    rng, n = np.random.default_rng([problem.seed, number]), len(problem.v)
    n_calibration = min(_CALIBRATION, max(1, n // _REFERENCES_EACH))
    looked_at = rng.permutation(n)[: min(n_calibration + _QUERIES, n)]
    points, v = problem.points[looked_at], problem.v[looked_at]
    squared = cdist(points, points, "sqeuclidean")
    calibration = np.argsort(v[:n_calibration], kind="stable")
    queries = np.arange(n_calibration, len(v))

    def judge(bandwidth: float) -> tuple[float, float]:
        def kernel(rows: Index, others: Index) -> Array:
            return absolute_weights(problem.kernel, squared[np.ix_(rows, others)] / bandwidth**2)

        ranks = _rank_locally(kernel, calibration, v[calibration])
        found = ranks.thresholds(kernel, queries, np.array([level]), symmetric=True)
        finite = found[np.isfinite(found)]
        return 1.0 - len(finite) / len(found), float(finite.mean()) if len(finite) else np.inf

    return judge
