"""The user's own adjustment: any m(v, F, theta), inverted numerically."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from localconformal.adjustments import Adjustment
from localconformal.laws.base import LocalLaws
from localconformal.quantiles import Array
from localconformal.rows import Reference

# Bisection ends when a bracket is this narrow, relative to its ends.
_TOLERANCE = 1e-10
# Rungs between which a root is looked for; beyond the last one it counts as infinite. From tiny
# to huge, so that the unit of y does not matter.
_POWERS = 4.0 ** np.arange(-60, 60, 2)
_LADDER = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])


class MonotoneAdjustment(Adjustment):
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
    Both inverses are found by bisection to a relative 1e-10: p as a theta at which m >= 0 was seen,
    T as a v at which m < 0 was seen. So p(v) <= theta implies v <= T(theta) without error. Beyond
    4^58 counts as infinite. The guarantee rests on m being monotone. What is checked is that every
    calibration row lies within the threshold of its own p, which finds most that are not.

    Examples
    --------
    SLCP, written by hand:

    >>> slcp = MonotoneAdjustment(lambda v, F, theta: F.quantile(F.level) + theta - v)
    """

    def __init__(self, m: Callable[[Array, Any, Array], Array]) -> None:
        self.m = m

    def fit(self, reference: Reference) -> MonotoneAdjustment:
        """Nothing to learn."""
        if not callable(self.m):
            raise ValueError(f"got m={self.m!r}; expected a function m(v, F, theta).")
        return self

    def score(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """The smallest theta that accepts v."""
        out = np.empty((F.n, *levels.shape))
        for s, l in np.ndindex(levels.shape):
            out[:, s, l] = self._smallest_theta(V[:, s], _Side(F, s, float(levels[s, l])))
        if not np.all(V[:, :, None] <= self.threshold(out, F, levels)):
            raise ValueError(
                "m(v, F, theta) rises in v or falls in theta at some calibration row; the "
                "guarantee needs it non-increasing in v and non-decreasing in theta."
            )
        return out

    def threshold(self, theta: Array, F: LocalLaws, levels: Array) -> Array:
        """The largest v that theta accepts."""
        theta = np.broadcast_to(theta, (F.n, *theta.shape[-2:]))
        out = np.empty(theta.shape)
        for s, m in np.ndindex(theta.shape[1:]):
            level = float(levels[s, min(m, levels.shape[1] - 1)])
            out[:, s, m] = self._largest_v(theta[:, s, m], _Side(F, s, level))
        return out

    def _smallest_theta(self, v: Array, side: _Side) -> Array:
        return _first_true(lambda theta: self._value(v, side, theta) >= 0, len(v))

    def _largest_v(self, theta: Array, side: _Side) -> Array:
        finite = np.where(np.isinf(theta), 0.0, theta)
        found = _first_true(lambda v: ~(self._value(v, side, finite) >= 0), len(theta))
        return np.where(np.isposinf(theta), np.inf, found)

    def _value(self, v: Array, side: _Side, theta: Array) -> Array:
        value = np.asarray(self.m(v, side, theta), dtype=np.float64)
        if value.shape != v.shape:
            raise ValueError(
                f"m(v, F, theta) returned an array of shape {value.shape}; expected {v.shape}, one "
                "number per row."
            )
        return value


def _first_true(holds: Callable[[Array], Any], n: int) -> Array:
    """A z, hardly above inf{z : holds(z)}, at which the condition was seen to hold; vectorised.

    The condition stays true once it is true. The first rung of the ladder where it always
    holds, +inf where it never does.
    """
    # First bisect over the rungs, then inside the step between two of them.
    first, last = np.full(n, -1), np.full(n, len(_LADDER))
    while (wide := last - first > 1).any():
        middle = (first + last) // 2
        true = np.asarray(holds(_LADDER[middle]), dtype=bool)
        last = np.where(wide & true, middle, last)
        first = np.where(wide & ~true, middle, first)
    low = _LADDER[np.maximum(first, 0)]
    high = np.append(_LADDER, np.inf)[last]
    inside = (first >= 0) & np.isfinite(high)
    while (wide := inside & (high - low > _TOLERANCE * np.maximum(np.abs(high), _POWERS[0]))).any():
        middle = np.where(inside, low + (np.where(inside, high, low) - low) / 2.0, low)
        true = np.asarray(holds(middle), dtype=bool)
        high = np.where(wide & true, middle, high)
        low = np.where(wide & ~true, middle, low)
    return high


class _Side:
    """F(. | x) of one side at n rows x, as plain vectors: what m works with.

    ``level`` is the local level asked for, such as 0.95 for each side of a joint 90 % interval.
    What does not depend on v or theta is computed once, not at every bisection.
    """

    def __init__(self, laws: LocalLaws, index: int, level: float) -> None:
        self.laws, self.index, self.level = laws, index, level
        self.known: dict[Any, Array] = {}

    def quantile(self, t: Array | float, upper: bool = False) -> Array:
        """Q(t | x) for one t, or one per row: (n,)."""

        def ask() -> Array:
            shape = (self.laws.n, self.laws.n_sides, 1)
            levels = np.broadcast_to(np.reshape(t, (-1, 1, 1)), shape)
            return self.laws.quantile(levels, upper)[:, self.index, 0]

        return ask() if np.ndim(t) else self._once((float(t), upper), ask)

    def upper_quantile(self, t: Array | float) -> Array:
        """Q+(t | x) for one t, or one per row: (n,)."""
        return self.quantile(t, upper=True)

    def cdf(self, v: Array | float, side: str = "right") -> Array:
        """F(v | x), or F(v- | x) for side "left": (n,)."""
        columns = np.broadcast_to(np.reshape(v, (-1, 1)), (self.laws.n, self.laws.n_sides))
        return self.laws.cdf(columns, side)[:, self.index]

    def mean(self, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x]: (n,)."""
        return self._once(absolute, lambda: self.laws.mean(absolute)[:, self.index])

    def _once(self, key: Any, compute: Callable[[], Array]) -> Array:
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]
