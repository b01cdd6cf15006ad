"""Calibration rows weighed by a kernel around each x: LVD, RLCP and LCP, and their bandwidths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from scipy.special import betaincinv, ndtri
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from localconformal.composition import Calibration, Parts
from localconformal.corrections import Weighing
from localconformal.engine import FLAT
from localconformal.laws.base import make_law
from localconformal.laws.kernel import KERNELS, Problem, absolute_weights
from localconformal.quantiles import Array, conformal_rank
from localconformal.rows import Index, Reference, Rows, canonical_order, row_hashes


class Kernel(Weighing):
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
        # A gaussian's weights are relative to the row's largest: in many dimensions all underflow.
        weights = KERNELS[kernel](u2)
        return weights[:, :-1], weights[:, -1]


#: Of each coordinate, for a draw.
_KEPT_BITS = 30
_HALF = np.uint64(32)


#: Kernels from which one can draw: seed and points (n, k) -> a draw with density proportional to
#: K(|u|) for each, (n, k). Gaussian: N(0, I). Boxcar: uniform in the unit ball, radius^k being
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
    """So many numbers inside (0, 1) for each point, a hash of the seed and the point."""
    # A model's last bits depend on how many rows it is asked at once; the draw must not.
    mantissa, exponent = np.frexp(points)
    coarse = np.ldexp(np.rint(np.ldexp(mantissa, _KEPT_BITS)), exponent - _KEPT_BITS)
    keys = row_hashes(coarse, np.full(len(points), float(seed)))
    # Halves of 32 bits: a hash reads numbers as floats, which would round 64.
    halves = np.column_stack([keys >> _HALF, keys & np.uint64(2**32 - 1)])
    places = (np.full(len(points), float(place)) for place in range(count))
    bits = np.column_stack([row_hashes(halves, place) for place in places])
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


# ---- local ranks (LCP) --------------------------------------------------------------------------


class LocalRanks(Kernel):
    """LCP (Guan): a score v at x is accepted while few calibration rows have a smaller local rank.

    Every row i, calibration or new, has a law of its own: the scores of all n + 1 rows, weighted by
    H(X_i, .). The local rank of i is the mass of its law strictly below its own score. A score v of
    the new row x is accepted while fewer than (1 - alpha)(n + 1) calibration rows have a smaller
    local rank than v has at x. The n + 1 ranks are exchangeable whatever H is, hence the coverage.

    No search over v is needed. Let V_1 <= .. <= V_n < V_{n+1} = inf, with l(k) of them below V_k::

        once           a_i = sum of the first l(i) of H(X_i, X_j), b_i = their sum        O(n^2)
        at x           u_i = H(X_i, x), h_j = H(x, X_j), N_i = b_i + u_i
                       t1_i = (a_i + u_i) / N_i     rank of row i while v is below V_i
                       t2_i = a_i / N_i             and from there on
                       T_k = (h_1 + .. + h_l(k)) / (h_1 + .. + h_n + 1)
                                                    rank of v between the score before V_k and V_k
        v up to V_k    #{i <= l(k) : t2_i < T_k} + #{i > l(k) : t1_i < T_k} rows are below

    As v grows T_k grows and t1 drops to t2, row by row: the count never falls, and the largest k
    that is accepted is found by bisection. The threshold is V_k; the interval is closed, as the
    hull of what is accepted.

    Equal ranks must not count as smaller, and which of two equal sums comes out larger is chance. A
    sum of n non-negative numbers, divided by another, is off by a factor within 1 +- (n + 2) eps.
    So a row is counted only if t < (1 - g) T - tiny with g = (2 n + 16) eps (and the least normal
    number for masses that underflow): then its rank is smaller in exact arithmetic too. Sets can
    only be too large; H = 1 gives exactly the conformal quantile.
    """

    def keep(self, rows: Rows, V: Array) -> _Ranks:
        """The rows in the order of their scores, with their sums."""
        # Sums are rounded: the order of rows with the same score must be one of their own.
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


_Kernel = Callable[[Any, Any], Array]
#: Pairs of rows held at once: 8 MB an array.
_CHUNK = 2**20
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class _Ranks:
    """Calibration rows, ready to answer thresholds at any level; made by `_rank_locally`."""

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
        """Largest accepted score at each of m rows: levels (L,) -> (m, L); +inf where all are."""
        # A level so low that its rank is 0 is answered by the smallest score, as by cq.
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
            # All rows of the chunk need the same number of steps, up to one, which is idle.
            while (high - low > 1).any():
                k = (low + high) // 2
                start = self.below[k]
                rank = np.where(place < start[:, None], second, first)
                count = np.count_nonzero(rank < masses[each, start][:, None], axis=1)
                low, high = np.where(count <= allowed, k, low), np.where(count <= allowed, high, k)
            out[:, l] = low
        return out


def _rank_locally(kernel: _Kernel, rows: Any, scores: Array) -> _Ranks:
    """Set up n calibration rows, given in the order of their scores: O(n^2) pairs, in chunks.

    ``kernel`` is (m rows, n others) -> H(row_i, other_j), (m, n), in [0, 1] and 1 for a row with
    itself.
    """
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


# ---- bandwidths for methods that weigh calibration rows -----------------------------------------

# h is found to within this share of itself.
_PRECISION = 1e-4
# exp(-u^2 / 2) is 0 in float64 at this u.
_NOTHING = 40.0
#: Most rows that stand for calibration rows, and most that are asked.
_CALIBRATION, _QUERIES = 1_000, 300
#: Reference rows for each that stands for a calibration row, as a default split leaves them: the
#: fewer calibration rows, the more thresholds are infinite.
_REFERENCES_EACH = 3
#: Rows that all splits together look at, about, and the most splits.
_TRIAL_ROWS, _MOST_TRIALS = 2_000, 8


@dataclass(eq=False, repr=False)
class EffectiveSize(BaseEstimator):
    """h at which a row has on average so many effective neighbours: n / ||W||_F^2 - 1 = target.

    W is the kernel matrix K(|X_i - X_j| / h) of the reference rows, or of a sample of 2,000 of
    them, with rows that sum to one. The left side is 0 for h -> 0 and n - 1 for h -> inf. Of a
    kernel with steps, h is where the target is passed; infinite where fewer rows than the target
    are there. Calibration rows have as many effective ones as the target when they are as many as
    the rows in W, else in proportion.

    Parameters
    ----------
    target : float, default=50.0
        Effective neighbours.

    References
    ----------
    Hore and Barber, "Conformal prediction with local weights: randomization enables robust
    guarantees", arXiv:2310.07850.

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
        """The bandwidth, by Brent's kind of bisection on a logarithmic scale."""
        if not isinstance(self.target, Real) or not self.target > 0:
            raise ValueError(f"got target={self.target!r}; expected a positive number.")
        points = problem.sample().points
        squared = cdist(points, points, "sqeuclidean")
        apart = np.sqrt(squared[squared > 0])
        # An h that reaches no row but those that coincide, and one that weighs all alike.
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
    """h with the smallest thresholds of localized conformal prediction, of those seldom infinite.

        minimise   mean finite threshold
        subject to share of infinite thresholds <= most_infinite

    over ``n_candidates`` bandwidths in equal ratios, from the 1 % quantile to twice the largest of
    the pairwise distances. They are tried from the widest, of equal ones it wins, until the
    condition fails; the widest has the fewest infinite thresholds, and stands where it fails at
    once. A third of the reference rows (1,000 at most) stand for calibration rows, others (300 at
    most) are asked; with few rows over several splits, since one would be chance.

    Parameters
    ----------
    level : float, default=0.9
        Confidence level of the thresholds.
    n_candidates : int, default=20
    most_infinite : float, default=None
        None is (1 - level) / 2.

    Examples
    --------
    >>> FiniteThresholds(0.8)
    FiniteThresholds(level=0.8)
    """

    level: float = 0.9
    n_candidates: int = 20
    most_infinite: float | None = None

    def choose(self, problem: Problem) -> float:
        """The candidate of the smallest objective."""
        self._check()
        ends = (2.0 * problem.distance_quantile(1.0), problem.distance_quantile(0.01))
        if len(problem.v) < 2:
            return ends[0]
        candidates = np.geomspace(*ends, self.n_candidates)
        # Several where rows are few and one would be chance.
        count = int(np.clip(_TRIAL_ROWS // len(problem.v), 1, _MOST_TRIALS))
        trials = [_make_trial(problem, self.level, number) for number in range(count)]
        most = (1.0 - self.level) / 2.0 if self.most_infinite is None else self.most_infinite
        objectives: list[float] = []
        for h in candidates:
            share, objective = np.mean([trial(float(h)) for trial in trials], axis=0)
            # Narrower ones have more of them still.
            if share > most:
                break
            objectives.append(objective)
        return float(candidates[int(np.argmin(objectives)) if objectives else 0])

    def _check(self) -> None:
        if not 0.0 < self.level < 1.0 or not self.n_candidates >= 1:
            raise ValueError(
                f"got level={self.level!r} and n_candidates={self.n_candidates!r}; expected a "
                "number inside (0, 1) and at least 1 candidate."
            )
        most = 0.0 if self.most_infinite is None else self.most_infinite
        if not 0.0 <= most <= 1.0:
            raise ValueError(
                f"got most_infinite={self.most_infinite!r}; expected a share in [0, 1] or None."
            )


def _make_trial(
    problem: Problem, level: float, number: int
) -> Callable[[float], tuple[float, float]]:
    """h -> share of infinite thresholds, and the mean of the finite ones, on rows drawn."""
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
