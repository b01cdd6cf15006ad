"""Dependence of length and coverage of any shape, with a permutation p-value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics.intervals import each_level, is_covered, tied_lengths
from localconformal.quantiles import Array
from localconformal.rows import make_frame

_MAX_ROWS = 5_000
#: Beyond this many distinct lengths the kernel takes seconds, and they are rounded.
_MAX_PLACES = 1_000


@dataclass(frozen=True)
class HSIC:
    """Dependence of length and coverage; ``float(result)`` is its value.

    ``value`` is 0 under independence, but for noise of order 1 / n, and NaN for one row;
    ``p_value`` the share of permutations with a value at least as large, the data being one of
    them; ``n`` the rows used, at most 5,000.
    """

    value: float
    p_value: float
    n_permutations: int
    n: int

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

    u being the lengths divided by their standard deviation, c whether y is covered. Of more than
    5,000 rows, 5,000 drawn at random are used, the same ones for the same seed; where more than
    1,000 lengths differ, u is rounded to hundredths. All infinite lengths are one place,
    infinitely far from the finite ones. Constant lengths, and rows that are all covered or all
    missed, have value 0 and p-value 1. MAPIE's ``hsic`` is the square root of this, of lengths as
    they come.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    n_permutations : int, default=499
        Draws behind the p-value; 0 leaves it at 1.
    random_state : int, default=0
        Seed of the permutations, and of the rows used where there are more than 5,000.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, half = rng.normal(size=500), rng.uniform(1.0, 3.0, size=500)
    >>> result = hsic(y, np.stack([-half, half], axis=1))
    >>> result.p_value < 0.05
    True
    """
    if n_permutations < 0:
        raise ValueError(f"n_permutations: got {n_permutations}; expected 0 or more.")

    def of_level(y: Array, bounds: Array) -> HSIC:
        rng = np.random.default_rng(random_state)
        if len(y) > _MAX_ROWS:
            rows = rng.choice(len(y), _MAX_ROWS, replace=False)
            y, bounds = y[rows], bounds[rows]
        return _dependence(tied_lengths(bounds), ~is_covered(y, bounds), n_permutations, rng)

    return each_level(of_level, y_true, intervals)


def _dependence(
    length: Array, missed: NDArray[np.bool_], n_permutations: int, rng: np.random.Generator
) -> HSIC:
    """HSIC of lengths and misses, (n,) each.

    Coverage is 0 or 1. So L is a constant, which H removes, plus (1 - exp(-1)) 1{c_i = c_j}, and
    H L H = 2 (1 - exp(-1)) a a' with a_i = mean(m) - m_i, m_i marking the missed rows. HSIC is a
    quadratic form a'Ka, in which rows of one length add up; permutations redraw which are missed.
    """
    n, n_missed = len(length), int(missed.sum())
    if n == 1:
        return HSIC(float("nan"), 1.0, n_permutations, n)
    u = _in_deviations(length)
    if len(np.unique(u)) > _MAX_PLACES:
        u = np.round(u, 2)
    places, rows, counts = np.unique(u, return_inverse=True, return_counts=True)
    if len(places) == 1 or n_missed in (0, n):
        return HSIC(0.0, 1.0, n_permutations, n)
    kernel = np.exp(-((places[:, None] - places) ** 2))
    observed = np.bincount(rows[missed], minlength=len(places))[None]
    draws = rng.multivariate_hypergeometric(counts, n_missed, size=n_permutations, method="count")
    a = np.concatenate([observed, draws]) - counts * (n_missed / n)
    factor = 2.0 * (1.0 - np.exp(-1.0)) / (n - 1) ** 2
    values = factor * np.einsum("bi,bi->b", a @ kernel, a)
    # A draw of the same misses in another order of summation is as large.
    as_large = int(np.sum(values[1:] >= values[0] * (1.0 - 1e-9)))
    return HSIC(float(values[0]), (1 + as_large) / (1 + n_permutations), n_permutations, n)


def _in_deviations(length: Array) -> Array:
    """Lengths (n,) over the standard deviation of the finite ones; infinite ones far away."""
    finite = length[np.isfinite(length)]
    unit = float(finite.max(initial=0.0)) or 1.0
    spread = (unit * float(np.std(finite / unit)) if len(finite) else 0.0) or 1.0
    # The kernel is 0 at this distance, as at infinity.
    return np.where(np.isinf(length), finite.max(initial=0.0) / spread + 1e3, length / spread)
