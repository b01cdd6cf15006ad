"""The user's own adjustment: any m(v, F, theta), inverted numerically."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from localconformal.adjustments.base import BaseAdjustment
from localconformal.laws.sides import LocalLaw, OneSide
from localconformal.quantiles import Array

# Bisection ends when a bracket is this narrow, relative to its ends.
TOLERANCE = 1e-10
# Rungs between which a root is looked for; beyond the last one it counts as infinite. From tiny
# to huge, so that the unit of y does not matter.
POWERS = 4.0 ** np.arange(-60, 60, 2)
LADDER = np.concatenate([-POWERS[::-1], [0.0], POWERS])


class MonotoneAdjustment(BaseAdjustment):
    """p = inf{theta : m(v, F, theta) >= 0}; T = sup{v : m(v, F, theta) >= 0}.

    Parameters
    ----------
    m : callable
        ``m(v, F, theta) -> (n,)`` of vectors v and theta (n,), non-increasing in v and
        non-decreasing in theta, each row by itself. F answers ``F.quantile(t)``,
        ``F.upper_quantile(t)``, ``F.cdf(v, side="right")``, ``F.mean(absolute=False)``, each
        (n,), for numbers or vectors, and ``F.level`` is the local level asked for.

    Notes
    -----
    Both inverses are found by bisection to a relative 1e-10, and come as the end of the last
    bracket that accepts more: p as a theta at which m >= 0 was seen, T as a v at which m < 0 was
    seen. So p(v) <= theta implies v <= T(theta) without error. Beyond 4^58 counts as infinite.
    The guarantee rests on m being monotone. What is checked is that every calibration row lies
    within the threshold of its own p, which finds most functions that are not, but not all.

    Examples
    --------
    SLCP, written by hand:

    >>> slcp = MonotoneAdjustment(lambda v, F, theta: F.quantile(F.level) + theta - v)
    """

    def __init__(self, m: Callable[[Array, Any, Array], Array]) -> None:
        self.m = m

    def fit(self, V: Array) -> MonotoneAdjustment:
        """Nothing to learn."""
        if not callable(self.m):
            raise ValueError(f"m is {self.m!r}; a function m(v, F, theta) was expected.")
        return self

    def score(self, V: Array, F: LocalLaw, levels: Array) -> Array:
        """The smallest theta that accepts v."""
        out = np.empty((F.n, *levels.shape))
        for s, l in np.ndindex(levels.shape):
            side = MemoSide(F.side(s, float(levels[s, l])))
            accepts = partial(self._accepts_theta, V[:, s], side)
            out[:, s, l] = first_true(accepts, F.n)
        if not np.all(V[:, :, None] <= self.threshold(out, F, levels)):
            raise ValueError(
                "m(v, F, theta) rises in v or falls in theta at some calibration row; the "
                "guarantee needs it non-increasing in v and non-decreasing in theta."
            )
        return out

    def threshold(self, theta: Array, F: LocalLaw, levels: Array) -> Array:
        """The largest v that theta accepts."""
        theta = np.broadcast_to(theta, (F.n, *levels.shape))
        out = np.empty(theta.shape)
        for s, l in np.ndindex(levels.shape):
            side, t = MemoSide(F.side(s, float(levels[s, l]))), theta[:, s, l]
            refuses = partial(self._refuses_v, side, np.where(np.isinf(t), 0.0, t))
            out[:, s, l] = np.where(np.isposinf(t), np.inf, first_true(refuses, F.n))
        return out

    def _accepts_theta(self, v: Array, side: MemoSide, theta: Array) -> Any:
        return self._value(v, side, theta) >= 0

    def _refuses_v(self, side: MemoSide, theta: Array, v: Array) -> Any:
        return ~(self._value(v, side, theta) >= 0)

    def _value(self, v: Array, side: MemoSide, theta: Array) -> Array:
        value = np.asarray(self.m(v, side, theta), dtype=np.float64)
        if value.shape != v.shape:
            raise ValueError(
                f"m(v, F, theta) returned an array of shape {value.shape}; {v.shape}, one number a "
                "row, was expected."
            )
        return value


def first_true(holds: Callable[[Array], Any], n: int) -> Array:
    """A z, hardly above inf{z : holds(z)}, at which the condition was seen to hold; vectorised.

    The condition stays true once it is true. The first rung of the ladder where it always
    holds, +inf where it never does.
    """
    # First bisect over the rungs, then inside the step between two of them.
    first, last = np.full(n, -1), np.full(n, len(LADDER))
    while (wide := last - first > 1).any():
        middle = (first + last) // 2
        true = np.asarray(holds(LADDER[middle]), dtype=bool)
        last = np.where(wide & true, middle, last)
        first = np.where(wide & ~true, middle, first)
    low = LADDER[np.maximum(first, 0)]
    high = np.append(LADDER, np.inf)[last]
    inside = (first >= 0) & np.isfinite(high)
    while (wide := inside & (high - low > TOLERANCE * np.maximum(np.abs(high), POWERS[0]))).any():
        middle = np.where(inside, low + (np.where(inside, high, low) - low) / 2.0, low)
        true = np.asarray(holds(middle), dtype=bool)
        high = np.where(wide & true, middle, high)
        low = np.where(wide & ~true, middle, low)
    return high


class MemoSide:
    """One side's law that computes F.mean() and F.quantile(number) once, not at every bisection."""

    def __init__(self, side: OneSide) -> None:
        self.side = side
        self.level = side.level
        self.known: dict[Any, Array] = {}

    def _once(self, key: Any, compute: Callable[[], Array]) -> Array:
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    def quantile(self, t: Array | float) -> Array:
        """Q(t | x)."""
        if np.ndim(t):
            return self.side.quantile(t)
        return self._once(("Q", t), lambda: self.side.quantile(t))

    def upper_quantile(self, t: Array | float) -> Array:
        """Q+(t | x)."""
        if np.ndim(t):
            return self.side.upper_quantile(t)
        return self._once(("Q+", t), lambda: self.side.upper_quantile(t))

    def cdf(self, v: Array | float, side: str = "right") -> Array:
        """F(v | x) or F(v- | x)."""
        return self.side.cdf(v, side)

    def mean(self, absolute: bool = False) -> Array:
        """E[V | x] or E[|V| | x]."""
        return self._once(("E", absolute), lambda: self.side.mean(absolute))
