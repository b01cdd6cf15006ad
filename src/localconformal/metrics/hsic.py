"""Dependence of length and coverage of any shape, with a permutation p-value, in linear time.

HSIC is trace(K H L H) / (n - 1)^2, with Gaussian kernels K of the lengths and L of coverage, and
H = I - 11'/n. Written out it takes four products of n x n matrices. Two facts make it linear.

Coverage is 0 or 1. So L is a constant, which H removes, plus (1 - exp(-1)) 1{c_i = c_j}, and
H L H = 2 (1 - exp(-1)) a a' with a_i = mean(m) - m_i, m_i marking the missed rows. HSIC is a
quadratic form a'Ka.

A Gaussian is the product of two narrower ones, integrated over a place t between them:

    exp(-(u - v)^2) = 2 / sqrt(pi)  int  exp(-2 (t - u)^2) exp(-2 (t - v)^2) dt,

so that a'Ka = 2 / sqrt(pi) int (sum_i a_i exp(-2 (t - u_i)^2))^2 dt. The integrand is smooth and
decays fast: the trapezoid rule with steps of a quarter is exact to 1e-15, and each u_i reaches
the 35 places around it only. The permutations redraw which rows are missed: a hypergeometric
draw over the distinct lengths.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from localconformal.frames import make_frame
from localconformal.metrics._check import each_level
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.quantiles import Array

STEP, REACH = 0.25, 17
#: Beyond this many distinct lengths they are rounded to as many places in their range.
MAX_PLACES = 10_000
#: Drawing rows one by one is faster up to here; drawing counts place by place beyond.
COUNT_UP_TO = 200_000
COVERAGE_FACTOR = 2.0 * (1.0 - np.exp(-1.0))
#: Draws counted at once, to bound the memory.
DRAWS_AT_ONCE = 50


@dataclass(frozen=True)
class HSIC:
    """Dependence of length and coverage; ``float(result)`` is its value.

    Attributes
    ----------
    value : float
        0 under independence, but for noise of order 1 / n. NaN for one row.
    p_value : float
        Share of permutations with a value at least as large, the data being one of them.
    n_permutations : int
    n : int
        Rows; all of them are used.
    rounded : bool
        Whether lengths were rounded to one of 10,000 places in their range.
    """

    value: float
    p_value: float
    n_permutations: int
    n: int
    rounded: bool

    def __float__(self) -> float:
        return self.value

    def frame(self) -> Any:
        """One row (pandas)."""
        return make_frame({name: [value] for name, value in asdict(self).items()}, None)


def hsic(
    y_true: ArrayLike, intervals: ArrayLike, *, n_permutations: int = 499, random_state: int = 0
) -> HSIC | list[HSIC]:
    """Hilbert-Schmidt independence criterion of length and coverage; 0 is ideal.

        HSIC = trace(K H L H) / (n - 1)^2,  K_ij = exp(-(u_i - u_j)^2),  L_ij = exp(-(c_i - c_j)^2),

    u being the lengths divided by their standard deviation, c whether y is covered. All infinite
    lengths are one place, infinitely far from the finite ones. Constant lengths, and rows that
    are all covered or all missed, have value 0 and p-value 1. MAPIE's ``hsic`` is the square root
    of this, of lengths as they come.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    n_permutations : int, default=499
        Draws behind the p-value; 0 leaves it at 1.
    random_state : int, default=0
        Seed of the draws; the value needs none.

    Returns
    -------
    HSIC
        A list, one per level, for intervals of shape (n, 2, L).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, half = rng.normal(size=500), rng.uniform(1.0, 3.0, size=500)
    >>> result = hsic(y, np.stack([-half, half], axis=1))
    >>> result.p_value < 0.05
    True
    """
    if n_permutations < 0:
        raise ValueError(f"n_permutations is {n_permutations}; 0 or more was expected.")

    def of_level(y: Array, bounds: Array) -> HSIC:
        missed = ~is_covered(y, bounds)
        return _dependence(tied_lengths(bounds), missed, n_permutations, random_state)

    return each_level(of_level, y_true, intervals)


def _dependence(
    length: Array, missed: NDArray[np.bool_], n_permutations: int, random_state: int
) -> HSIC:
    """HSIC of lengths and misses, (n,) each."""
    n, n_missed = len(length), int(missed.sum())
    if n == 1:
        return HSIC(float("nan"), 1.0, n_permutations, n, False)
    places, rows, rounded = _places_of(length)
    counts = np.bincount(rows)
    factor = COVERAGE_FACTOR / (n - 1) ** 2
    if len(counts) == 1 or n_missed in (0, n):
        return HSIC(0.0, 1.0, n_permutations, n, rounded)
    form = _QuadraticForm(places)
    # a = mean(m) - m, summed over the rows of each place; its sign does not matter.
    even = counts * (n_missed / n)
    value = factor * form(np.bincount(rows[missed], minlength=len(counts))[None] - even)[0]
    rng = np.random.default_rng(random_state)
    method: Literal["count", "marginals"] = "count" if n <= COUNT_UP_TO else "marginals"
    as_large, left = 0, n_permutations
    while left > 0:
        draws = rng.multivariate_hypergeometric(
            counts, n_missed, size=min(left, DRAWS_AT_ONCE), method=method
        )
        # A draw of the same misses in another order of summation is as large.
        as_large += int(np.sum(factor * form(draws - even) >= value * (1.0 - 1e-9)))
        left -= len(draws)
    p_value = (1 + as_large) / (1 + n_permutations)
    return HSIC(float(value), p_value, n_permutations, n, rounded)


def _places_of(length: Array) -> tuple[Array, NDArray[np.intp], bool]:
    """Distinct lengths (G,) in deviations, infinity last; each row's place; whether rounded."""
    finite = length[np.isfinite(length)]
    unit = float(finite.max(initial=0.0)) or 1.0
    spread = unit * float(np.std(finite / unit)) if len(finite) else 0.0
    places, rows = np.unique(length, return_inverse=True)
    rounded = len(places) > MAX_PLACES
    if rounded:
        step = float(np.ptp(finite)) / MAX_PLACES
        places, rows = np.unique(
            places[0] + step * np.rint((length - places[0]) / step), return_inverse=True
        )
    return places / (spread or 1.0), rows, rounded


class _QuadraticForm:
    """a'Ka for K_ij = exp(-(u_i - u_j)^2) of sorted places u, in O(G) for each a."""

    def __init__(self, places: Array) -> None:
        u = places[np.isfinite(places)]
        nearest = np.rint(u / STEP)
        around = nearest[:, None] + np.arange(-REACH, REACH + 1)
        weights = np.exp(-2.0 * (STEP * around - u[:, None]) ** 2)
        # The grid runs from the first place's reach to the last one's: at most sqrt(n) deviations.
        column = (around - nearest[0] + REACH).astype(np.intp)
        self.n_finite = len(u)
        rows = np.arange(0, weights.size + 1, 2 * REACH + 1)
        self.spread = csr_array((weights.ravel(), column.ravel(), rows)).T.tocsr()

    def __call__(self, a: Array) -> Array:
        """(B,) values for a of shape (B, G)."""
        density = self.spread @ a[:, : self.n_finite].T
        finite = 2.0 / np.sqrt(np.pi) * STEP * np.sum(density**2, axis=0)
        return finite + np.sum(a[:, self.n_finite :] ** 2, axis=1)
