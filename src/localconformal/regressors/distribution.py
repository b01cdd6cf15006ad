"""The predictive distribution behind calibrated scores: a CDF, its inverse, draws from it.

Every (x, y) has a *place*: the rank F(v | x) of its score v = V_upper(x, y) in the local law,
and, among equal ranks, how far v lies beyond what the law has seen. Places are ordered by rank,
then by this excess, so that they rise strictly with y. With n calibration rows and
N(x, y) = how many of their places are at or below that of (x, y), a new row's CDF is known up
to one step,

    N / (n + 1)  <=  H(y | x)  <=  (N + 1) / (n + 1),

and we take the value nearest 1/2: neither tail is ever understated. Its inverse is the k-th
smallest calibration place, read as a score at x and then as a response:

    k = floor((n + 1) t) for t < 1/2, ceil((n + 1) t) for t >= 1/2;  k = 0 is -inf, n + 1 is +inf.

For every k, whatever the law, the model and the ties,
P(Y < q_k(X)) <= k / (n + 1) <= P(Y <= q_k(X)), on average over rows, up to rounding, which is
outward: it keeps the first half for t < 1/2 and the second from there.

A rank alone would not do. A law is a step function: it ranks every v beyond its last step as 1,
and a law of few steps gives many rows the same rank. The excess tells these apart, so that
quantiles stay finite, and are calibrated to 1 / (n + 1) and not to the height of a step. Without
a law all ranks are equal and the excess is v itself: the conformal predictive system.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from localconformal.intervals import round_up
from localconformal.laws.sides import LocalLaw
from localconformal.models import check_finite
from localconformal.quantiles import RANK_GUARD, Array
from localconformal.scores import Band, BaseScore

Places = NDArray[np.complex128]
Ranks = NDArray[np.intp]
Flags = NDArray[np.bool_]

# Ranks count steps of 2^-30: sums of weights that differ by rounding alone are the same rank.
# Half a step is far above the guards of the laws' quantiles, which therefore do not matter.
STEPS = 2.0**30
WITHOUT_LAW = STEPS / 2.0


@dataclass(frozen=True)
class PredictiveDistribution:
    """H(y | x) from the calibration rows' places.

    Shapes: m rows x, given by the model's band there and by the local laws F there.

    Parameters
    ----------
    score : BaseScore
        Fitted: turns y into v and back.
    places : array of shape (n,)
        Of the calibration rows, sorted.
    """

    score: BaseScore
    places: Places

    @classmethod
    def of(cls, score: BaseScore, v: Array, F: LocalLaw) -> PredictiveDistribution:
        """From the upper scores v (n,) of calibration rows and the laws there."""
        return cls(score, np.sort(place(v[:, None], F)[:, 0]))

    def cdf(self, band: Band, F: LocalLaw, y: Array) -> Array:
        """H(y | x): y (m, k) -> (m, k)."""
        edge = upper_edge(band)
        v = np.stack([self.score.values(edge, column)[:, 1] for column in y.T], axis=1)
        below = np.searchsorted(self.places, place(v, F), side="right")
        whole = len(self.places) + 1
        return np.clip(0.5, below / whole, (below + 1) / whole)

    def quantile(self, band: Band, F: LocalLaw, levels: Array) -> Array:
        """Inverse of `cdf`: levels (L,) -> (m, L).

        Rounded down below level 1/2, up from there: a response that has the very score of a
        calibration row must not fall outside.
        """
        n, up = len(self.places), levels >= 0.5
        ranks = outward_ranks(n, levels)
        values = self._responses(band, F, np.clip(ranks, 1, n), up)
        return np.where(ranks < 1, -np.inf, np.where(ranks > n, np.inf, values))

    def atoms(self, band: Band, F: LocalLaw, count: int) -> Array:
        """Responses at so many calibration places, evenly spread over them: (m, count)."""
        n = len(self.places)
        ranks = np.ceil(n * (np.arange(count) + 0.5) / count).astype(np.intp)
        return self._responses(band, F, ranks, np.ones(count, dtype=bool))

    def sample(self, band: Band, F: LocalLaw, n_samples: int, random: RandomState) -> Array:
        """Independent draws, each calibration place as likely as any other: (m, n_samples)."""
        ranks = random.randint(1, len(self.places) + 1, size=(F.n, n_samples))
        return self._responses(band, F, ranks, np.ones(n_samples, dtype=bool))

    def _responses(self, band: Band, F: LocalLaw, ranks: Ranks, up: Flags) -> Array:
        """Responses at the calibration places of these ranks, (L,) or (m, L) -> (m, L)."""
        v = scores_at(self.places[ranks - 1], F, up)
        both = self.score.bounds(upper_edge(band), np.stack([-v, v], axis=1))
        return np.where(up, both[:, 1], both[:, 0])


def outward_ranks(n: int, levels: Array) -> Ranks:
    """floor((n + 1) t) below 1/2, ceil((n + 1) t) from there: 0 and n + 1 mean infinite.

    Examples
    --------
    >>> outward_ranks(18, np.array([0.05, 0.5, 0.95]))
    array([ 0, 10, 19])
    >>> outward_ranks(19, np.array([0.05, 0.5, 0.95]))
    array([ 1, 10, 19])
    """
    exact = (n + 1) * levels
    down, up = np.floor(exact + RANK_GUARD), np.ceil(exact - RANK_GUARD)
    return np.where(levels < 0.5, down, up).astype(np.intp)


def place(v: Array, F: LocalLaw) -> Places:
    """Rank and excess of scores v (m, k) as real and imaginary part.

    NumPy sorts and searches complex numbers by real part, ties by imaginary part: the order
    that is wanted.
    """
    places = np.empty(v.shape, dtype=np.complex128)
    if not F.sided.laws:
        places.real, places.imag = WITHOUT_LAW, v
        return places
    engine, rows = F.sided.laws[-1].engine_, F.rows[-1]
    rank = np.floor(engine.cdf(rows, v, "right") * STEPS + 0.5)
    ends = engine.quantiles(rows, np.array([0.5, STEPS - 0.5]) / STEPS, np.zeros(2, dtype=bool))
    places.real, places.imag = rank, v - origin(rank, ends[:, 1:], ends[:, :1])
    return places


def origin(rank: Array, last: Array, first: Array) -> Array:
    """Where the excess of this rank is measured from: the end of the support beyond it, else 0."""
    return np.where(rank >= STEPS, last, np.where(rank <= 0.0, first, 0.0))


def scores_at(places: Places, F: LocalLaw, up: Flags) -> Array:
    """The scores that have these places at each row: (L,) or (m, L) -> (m, L).

    v has rank r from Q((r - 1/2) / STEPS) to Q((r + 1/2) / STEPS), which hold the score in
    between. ``up`` (L,) says which are rounded up, by Q+ instead of Q; the others go down.
    """
    rank, excess = places.real, places.imag
    low, high = np.full(rank.shape, -np.inf), np.full(rank.shape, np.inf)
    if F.sided.laws:
        levels = np.concatenate([rank - 0.5, rank + 0.5], axis=-1) / STEPS
        found = F.sided.laws[-1].engine_.quantiles(
            F.rows[-1], np.clip(levels, 0.0, 1.0), np.tile(up, 2)
        )
        # Every v has rank 0 at least, and STEPS at most.
        found = np.where(levels < 0.0, -np.inf, np.where(levels > 1.0, np.inf, found))
        low, high = np.split(found, 2, axis=1)
    start, sign = origin(rank, low, high), np.where(up, 1.0, -1.0)
    v = np.clip(sign * round_up(sign * start, sign * excess), low, high)
    return np.broadcast_to(v, (F.n, v.shape[-1]))


def upper_edge(band: Band) -> Band:
    """The band shrunk to its upper edge: V_upper is the same, and V_lower is its mirror."""
    edge = check_band(band)
    return Band.around(edge.upper, edge.upper_unit)


def check_band(band: Band) -> Band:
    """Predictions, finite or refused."""
    check_finite(*band)
    return band
