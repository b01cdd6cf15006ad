"""p(v, F): the score adjusted by its local law, and the inverse in v.

A new adjustment is a class with `score` and `threshold`, and with `fit` if it learns constants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from localconformal.laws.base import LocalLaws
from localconformal.quantiles import MASS_GUARD, Array, round_up, typical_size
from localconformal.rows import Reference

#: Q+ at 1 is infinite: the end of a law's support is read at the largest level a law resolves.
_LAST = 1.0 - 2.0 * MASS_GUARD


class Adjustment(BaseEstimator):
    """p(v, F) increasing in v, and T(theta) = sup{v : p(v, F) <= theta}.

    Shapes: n rows, S sides of the score, L levels. ``levels`` (S, L) are the local levels at which
    each side uses the law. Numerical error may only enlarge: p(v) <= theta, as computed, must
    imply v <= T(theta), as computed. An adjustment whose accepted set is not {v <= T} returns both
    ends of its hull.
    """

    #: Rows whose thresholds are held at a time, if they take more memory than usual.
    rows_at_a_time: int | None = None

    def fit(self, reference: Reference) -> Adjustment:
        """Learn constants, such as floors, from reference scores; return self."""
        return self

    def score(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """p(v, F): V (n, S) -> (n, S, L)."""
        raise NotImplementedError

    def threshold(self, theta: Array, F: LocalLaws, levels: Array) -> Array:
        """T(theta): theta (1, S, M), or (n, S, M) to differ by row -> (n, S, M), or (n, 2, M).

        M is L, or any number if L is 1.
        """
        raise NotImplementedError

    def local(self, F: LocalLaws, levels: Array) -> tuple[Array, Array]:
        """What `diagnose` shows of the law at local levels (S, 1): lower and upper, (n,) each."""
        quantile = F.quantile(levels)[:, :, 0]
        return -quantile[:, 0], quantile[:, -1]


class _Affine(Adjustment):
    """p = (v - a(x)) / b(x); T = a(x) + theta b(x)."""

    def score(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """How far v exceeds a(x), in units of b(x)."""
        centre, unit = self._line(F, levels)
        p = V[:, :, None] if centre is None else V[:, :, None] - centre
        p = p if unit is None else p / unit
        return np.broadcast_to(p, (len(V), *levels.shape))

    def threshold(self, theta: Array, F: LocalLaws, levels: Array) -> Array:
        """a(x), corrected by theta units."""
        centre, unit = self._line(F, levels)
        step = theta if unit is None else round_up(theta * unit)
        return step if centre is None else round_up(centre, step)

    def _line(self, F: LocalLaws, levels: Array) -> tuple[Array | None, Array | None]:
        """a and b, (n, S, L) or (n, S, 1) each; None for a = 0 and for b = 1."""
        raise NotImplementedError


class _WithFloor(_Affine):
    """An adjustment in local units of at least eps, a share of the typical score."""

    floor = 1e-3

    def fit(self, reference: Reference) -> _WithFloor:
        """Learn eps of each side: (S,)."""
        self.eps_ = self.floor * _unit_of_each_side(reference.sizes)
        return self


def _unit_of_each_side(V: Array) -> Array:
    return np.array([typical_size(column) for column in V.T])


class AdditiveQuantile(_Affine):
    """p = v - Q(tau; F); T = Q(tau; F) + theta. The score of SLCP."""

    def _line(self, F: LocalLaws, levels: Array) -> tuple[Array, None]:
        return F.quantile(levels), None


class MultiplicativeQuantile(_WithFloor):
    """p = v / (eps + |Q(tau; F)|); T = theta (eps + |Q(tau; F)|).

    Meant for absolute scores; eps is 0.001 of the median size of the reference scores.
    """

    def _line(self, F: LocalLaws, levels: Array) -> tuple[None, Array]:
        return None, self.eps_[:, None] + np.abs(F.quantile(levels))


class ScaledQuantile(_WithFloor):
    """p = (v - Q(tau; F)) / u(x); T = Q(tau; F) + theta u(x).

    u(x) = eps + Q(tau; F) - Q(1 - tau; F) is the width of the local law, so wide intervals are
    corrected by more than narrow ones, as CQR-r does for quantile models, but for any law; eps is
    0.01 of the median size of the reference scores.
    """

    floor = 1e-2

    def _line(self, F: LocalLaws, levels: Array) -> tuple[Array, Array]:
        # Q(0) is -inf: the lower end is read at the smallest level a law resolves.
        lower = np.maximum(1.0 - levels, 2.0 * MASS_GUARD)
        quantile, below = np.dsplit(F.quantile(np.hstack([levels, lower])), 2)
        return quantile, self.eps_[:, None] + np.maximum(quantile - below, 0.0)


class AdditiveExpectation(_Affine):
    """p = v - E_F[V]; T = E_F[V] + theta.

    With signed scores it corrects a local bias, and the width is constant. With absolute scores
    the width adapts, but less than with a quantile.
    """

    def _line(self, F: LocalLaws, levels: Array) -> tuple[Array, None]:
        return F.mean()[:, :, None], None


class MultiplicativeExpectation(_WithFloor):
    """p = v / (eps + E_F|V|); T = theta (eps + E_F|V|): normalised residuals by a local law.

    eps is 0.001 of the median size of the reference scores.
    """

    def _line(self, F: LocalLaws, levels: Array) -> tuple[None, Array]:
        # A sketch may return a negative mean, and p must increase in v.
        return None, (self.eps_ + np.maximum(F.mean(absolute=True), 0.0))[:, :, None]


class ThetaQuantile(Adjustment):
    """p = F(v-) up to M(x), then 1 + (v - M(x)) / scale; T = Q+(theta; F), then their inverse.

    M(x) is the largest reference score or the end of the law's support at x, whichever is larger;
    scale is the median size of the reference scores. Beyond the support, the excess distinguishes
    values of rank one, so T stays finite.
    """

    def fit(self, reference: Reference) -> ThetaQuantile:
        """Learn the largest score and the unit beyond it, for each side."""
        V = reference.sizes
        self.largest_ = V.max(axis=0)
        self.scale_ = _unit_of_each_side(V)
        return self

    def score(self, V: Array, F: LocalLaws, levels: Array) -> Array:
        """Mass strictly below v, or the distance beyond the support."""
        end = self._end(F.upper_quantile(np.full((V.shape[1], 1), _LAST)))[:, :, 0]
        excess = np.maximum(V - end, 0.0) / self.scale_
        p = np.where(end < V, 1.0 + excess, F.cdf(V, side="left"))
        return np.broadcast_to(p[:, :, None], (len(V), *levels.shape))

    def threshold(self, theta: Array, F: LocalLaws, levels: Array) -> Array:
        """The upper quantile at the calibrated level."""
        theta = np.broadcast_to(theta, (F.n, *theta.shape[-2:]))
        last = np.full((*theta.shape[:2], 1), _LAST)
        asked = np.concatenate([np.minimum(theta, 1.0), last], axis=2)
        within, end = np.split(F.upper_quantile(asked), [-1], axis=2)
        # Nothing beyond the end has a rank below one.
        within = np.minimum(within, self._end(end))
        excess = round_up(np.maximum(theta, 1.0), -1.0)
        beyond = round_up(self._end(end), self.scale_[:, None] * excess)
        return np.where(theta < 1.0, within, beyond)

    def _end(self, last: Array) -> Array:
        """M(x) from the end of the law there: (n, S, 1)."""
        return np.maximum(self.largest_[:, None], last)


# ---- user-defined: any m(v, F, theta), inverted numerically ------------------------------------

# Bisection ends when a bracket is this narrow, relative to its ends.
_TOLERANCE = 1e-10
# A root is searched between these rungs; beyond the last one it counts as infinite. They go from
# tiny to huge, so that the unit of y does not matter.
_POWERS = 4.0 ** np.arange(-60, 60, 2)
_LADDER = np.concatenate([-_POWERS[::-1], [0.0], _POWERS])


class MonotoneAdjustment(Adjustment):
    """p = inf{theta : m(v, F, theta) >= 0}; T = sup{v : m(v, F, theta) >= 0}.

    Parameters
    ----------
    m : callable
        ``m(v, F, theta) -> (n,)`` of vectors v and theta (n,), non-increasing in v and
        non-decreasing in theta, independently for each row. F has ``F.quantile(t)``,
        ``F.upper_quantile(t)``, ``F.cdf(v, side="right")`` and ``F.mean(absolute=False)``, each
        (n,), for numbers or vectors; ``F.level`` is the local level.

    Notes
    -----
    Both inverses are found by bisection to a relative 1e-10: p as a theta with m >= 0, T as a v
    with m < 0, so p(v) <= theta implies v <= T(theta) without error. Values beyond 4^58 count as
    infinite. The guarantee requires that m is monotone. A check that every calibration row lies
    within the threshold of its own p detects most functions that are not.

    Examples
    --------
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
                "m(v, F, theta) increases in v or decreases in theta at some calibration row; the "
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
    """A z just above inf{z : holds(z)} at which the condition holds; vectorised.

    The first rung of the ladder if it always holds, +inf if it never does.
    """
    # First bisect over the rungs, then between two of them.
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
    """F(. | x) of one side at n rows x, as plain vectors: the F that m gets.

    What does not depend on v or theta is computed once, not in every bisection step.
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


#: By name; None leaves the score unchanged, and no law is fitted.
ADJUSTMENTS: dict[str, type[Adjustment] | None] = {
    "plain": None,
    "additive": AdditiveQuantile,
    "scaled": ScaledQuantile,
    "multiplicative": MultiplicativeQuantile,
    "additive-expectation": AdditiveExpectation,
    "multiplicative-expectation": MultiplicativeExpectation,
    "theta": ThetaQuantile,
}


def make_adjustment(adjustment: Any) -> Adjustment | None:
    """A new adjustment from its name or from an object; None for "plain"."""
    if not isinstance(adjustment, str):
        return clone(adjustment)
    found = ADJUSTMENTS[adjustment]
    return None if found is None else found()
