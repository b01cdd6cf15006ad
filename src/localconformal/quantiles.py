"""Order statistics of scores, and all operations on bounds: the only place for either.

    cq(tau; s)             the ceil((n + 1) tau)-th smallest, +inf beyond n
    wcq(tau; s, w, w_inf)  the same with weights and mass at +inf
    Q(tau; F), Q+(t; F)    inf{v : F(v) >= tau}, and inf{v : F(v) > t} = sup{v : F(v-) <= t}

Levels such as 0.95 are not exact in binary, and neither are running sums, so each comparison
has a guard. Q and cq treat a sum within the guard of the level as having reached it. The guard
of Q+ only enlarges, so F(v-) <= t always implies v <= Q+(t).
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
_Upper = bool | NDArray[np.bool_]

RANK_GUARD = 1e-9
MASS_GUARD = 1e-12
#: A distance equal to the bandwidth up to rounding is inside: the guard may only enlarge.
EDGE_GUARD = 1e-9
#: Errors below this share of the spread of y count as zero: R2 rounds to one.
_SPREAD_GUARD = 2.0**-26
#: So do errors within a few units in the last place of y.
_SIZE_GUARD = 2.0**-46
#: A whole number this near a bound is inside: 4.9999999 is 5.
_WHOLE_GUARD = 1e-6


def conformal_rank(n: int, level: float) -> int:
    """Rank k = ceil((n + 1) level) of the conformal quantile among n scores.

    >>> conformal_rank(19, 0.95), conformal_rank(18, 0.95)
    (19, 19)
    """
    return math.ceil((n + 1) * level - RANK_GUARD)


def required_calibration_size(level: float) -> int:
    """Smallest n whose conformal quantile at ``level`` is finite.

    >>> required_calibration_size(0.9), required_calibration_size(0.95)
    (9, 19)
    """
    # False for every n that is too small, then True: by bisection, since n may be huge.
    return 1 + bisect_left(range(1, sys.maxsize), True, key=lambda n: conformal_rank(n, level) <= n)


def conformal_quantile(scores: ArrayLike, level: float) -> Array:
    """Conformal quantile cq(level; s_1..s_n) along the first axis: (n, ...) -> (...).

    The k-th smallest score with k = ceil((n + 1) level), or +inf if k > n: the plain
    level-quantile of the scores with one more at +inf.

    >>> float(conformal_quantile(range(1, 10), 0.9)), float(conformal_quantile(range(1, 9), 0.9))
    (9.0, inf)
    """
    s = np.asarray(scores, dtype=np.float64)
    k = max(conformal_rank(len(s), level), 1)
    if k > len(s):
        return np.full(s.shape[1:], np.inf)
    return np.partition(s, k - 1, axis=0)[k - 1]


def weighted_conformal_quantile(
    scores: ArrayLike, weights: ArrayLike, weight_inf: ArrayLike, level: float
) -> Array:
    """Weighted conformal quantile wcq(level; s, w, w_inf), with mass ``weight_inf`` at +inf.

    Scores (n,); non-negative weights (n,), or (m, n) for m laws of the same scores; ``weight_inf``
    a number or (m,), also with one set of weights. The answer is () or (m,), and +inf if there is
    no mass at all.

    >>> weighted_conformal_quantile([3.0, 1.0, 2.0], [[1, 1, 1], [0, 4, 0]], [2, 1], 0.75)
    array([inf,  1.])
    """
    s, w = np.asarray(scores, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    mass = np.asarray(weight_inf, dtype=np.float64)
    if w.shape[-1] != len(s) or not (np.all(w >= 0) and np.all(mass >= 0)):
        raise ValueError(
            f"got {len(s)} scores and weights of shape {w.shape}; expected as many weights as "
            "scores, none negative."
        )
    order = np.argsort(s, kind="stable")
    cumulated = np.cumsum(w[..., order], axis=-1)
    held = cumulated[..., -1]
    some = held > 0
    unit = np.where(some, held, np.inf)
    # With mass at +inf, a level of the whole is a higher level of the scores alone. A level within
    # the guard would be reached at -inf: it is raised to that of the smallest score, as in cq.
    whole = np.maximum(level, 2.0 * MASS_GUARD) * (held + mass)
    asked = np.where(some, whole / unit, np.inf)
    cdf = cumulated / unit[..., None]
    if w.ndim == 1:
        return quantile_of_cdf(s[order], cdf, asked, upper=False)
    return quantile_of_cdf(s[order], cdf, asked[:, None], upper=False).squeeze(axis=1)


def weighted_quantile(
    values: ArrayLike, weights: ArrayLike, levels: ArrayLike, upper: _Upper = False
) -> Array:
    """Q(tau; F) = inf{v : F(v) >= tau} of the law with these values and weights.

    Or, where ``upper``, Q+(t; F) = inf{v : F(v) > t}, which is +inf if t >= 1.

    >>> weighted_quantile([1.0, 2.0, 3.0], [1, 0, 1], [0.5, 0.51])
    array([1., 3.])
    >>> weighted_quantile([1.0, 2.0, 3.0], [1, 0, 1], [0.49, 0.5, 1.0], upper=True)
    array([ 1.,  3., inf])
    """
    v, w = np.asarray(values, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    if v.shape != w.shape or not np.all(w >= 0) or not w.sum() > 0:
        raise ValueError(
            f"got {v.size} values and {w.size} weights of sum {w.sum():g}; expected as many "
            "weights as values, none negative and not all zero."
        )
    order = np.argsort(v, kind="stable")
    cumulated = np.cumsum(w[order])
    return quantile_of_cdf(v[order], cumulated / cumulated[-1], np.asarray(levels), upper)


def cdf_targets(levels: Array, upper: _Upper) -> Array:
    """Targets t such that Q, or Q+ where ``upper``, is the first v with F(v) >= t.

    F >= tau within the guard, or F > t beyond it. A target of 0 or less is reached at -inf.
    """
    strict = np.broadcast_to(upper, levels.shape)
    return np.where(strict, np.nextafter(levels + MASS_GUARD, np.inf), levels - MASS_GUARD)


def quantile_of_cdf(values: Array, cdf: Array, levels: Array, upper: _Upper) -> Array:
    """Q (or Q+ where ``upper``) of laws given by their running sums over sorted values.

    Values (n,); sums that end at 1, (n,) or (m, n); levels of any shape for one law, (L,) or
    (m, L) for m laws. The answer has the shape of the levels, or (m, L).
    """
    target = cdf_targets(levels, upper)
    if cdf.ndim == 1:
        index = np.searchsorted(cdf, target, side="left")
    else:
        target = np.broadcast_to(target, (len(cdf), target.shape[-1]))
        index = np.stack(
            [np.count_nonzero(cdf < column[:, None], axis=1) for column in target.T], axis=1
        )
    padded = np.append(values, np.inf)
    return np.where(target <= 0.0, -np.inf, padded[index])


def typical_size(v: ArrayLike) -> float:
    """A unit that scales with v: the median of |v|, else the smallest positive |v|, else 1.

    >>> typical_size([-2.0, 4.0, 1.0]), typical_size([0.0, 0.0, 3.0]), typical_size([0.0])
    (2.0, 3.0, 1.0)
    """
    size = np.abs(np.asarray(v, dtype=np.float64))
    if (median := float(np.median(size))) > 0:
        return median
    positive = size[size > 0]
    return float(positive.min()) if len(positive) else 1.0


def clear_of_rounding(v: ArrayLike, y: ArrayLike, unit: float = 1.0) -> Array:
    """v (n, ...), in units of y (n,), without rounding errors: for `typical_size`.

    A model that fits every row exactly leaves rounding errors, which depend on the order of
    summation. They are set to 0; if there are no others, the spread of y is used instead.

    >>> y = [1.0, 2.0, 3.0]
    >>> clear_of_rounding([2e-16, 0.5, 0.0], y), clear_of_rounding([2e-16, 0.0, 0.0], y)
    (array([0. , 0.5, 0. ]), array([1., 1., 1.]))
    """
    response, sizes = np.asarray(y, dtype=np.float64), np.asarray(v, dtype=np.float64)
    rounding = _SIZE_GUARD * float(np.median(np.abs(response)))
    away = np.abs(response - np.median(response))
    away = np.where(away > rounding, away, 0.0)
    spread = typical_size(away if away.any() else response)
    clear = np.where(np.abs(sizes) > max(rounding, _SPREAD_GUARD * spread) / unit, sizes, 0.0)
    return np.where(clear.any(axis=0), clear, spread / unit)


def as_levels(levels: ArrayLike, name: str) -> Array:
    """Numbers inside (0, 1) as a float, or as an array of shape (L,)."""
    t = np.asarray(levels)
    numeric = t.dtype.kind in "fiu" and t.ndim <= 1 and t.size > 0
    if not numeric or not np.all((t > 0) & (t < 1)):
        raise ValueError(
            f"got {name}={levels!r}; expected a number inside (0, 1), or a list of them."
        )
    return t.astype(np.float64)


# ---- bounds: no step removes a y that may be in the set, so coverage is kept --------------------


@dataclass(frozen=True)
class Support:
    """The values that y can have: from low to high, only whole numbers if ``whole``."""

    low: float = -math.inf
    high: float = math.inf
    whole: bool = False

    @classmethod
    def of(cls, ends: Any, whole: bool) -> Support:
        """From (low, high), with None for an open end; None for no limits at all.

        >>> Support.of((0.5, None), whole=True)
        Support(low=1.0, high=inf, whole=True)
        """
        try:
            low, high = (None, None) if ends is None else ends
            low = -math.inf if low is None else float(low)
            high = math.inf if high is None else float(high)
        except (TypeError, ValueError):
            low = high = math.nan
        if whole:
            low, high = float(np.ceil(low)), float(np.floor(high))
        if not low <= high:
            inside = "a whole number between them" if whole else "low <= high"
            raise ValueError(
                f"got support={ends!r}; expected (low, high) with {inside}, and None for an open "
                "end, such as (0, None)."
            )
        return cls(low, high, whole)

    def check(self, y: Array) -> Array:
        """y (n,); an error if it has values outside the support."""
        if (outside := (y < self.low) | (y > self.high)).any():
            raise ValueError(
                f"y has {np.count_nonzero(outside)} of {len(y)} values outside the support from "
                f"{self.low:g} to {self.high:g}, such as {y[outside][0]}; correct these rows, "
                "or give a wider support."
            )
        if self.whole and (broken := y % 1.0 != 0.0).any():
            raise ValueError(
                f"y has {np.count_nonzero(broken)} of {len(y)} values that are not whole numbers, "
                f"such as {y[broken][0]}; correct these rows, or leave integer out."
            )
        return y

    def inside(self, bounds: Array) -> Array:
        """Intervals (n, 2, ...) cut to the support; crossed if nothing is left."""
        lower = np.maximum(bounds[:, 0], self.low)
        upper = np.minimum(bounds[:, 1], self.high)
        if self.whole:
            # Minus zero, the ceiling of -0.3, becomes zero.
            lower, upper = np.ceil(lower - _WHOLE_GUARD) + 0.0, np.floor(upper + _WHOLE_GUARD) + 0.0
        return np.stack([lower, upper], axis=1)

    def nearest(self, values: Array) -> Array:
        """The nearest value that y can have; of two at the same distance, the lower.

        Rounding quantiles to whole numbers is safe: neither P(Y < q) nor P(Y > q) grows.
        """
        whole = np.ceil(values - 0.5) + 0.0 if self.whole else values
        return np.clip(whole, self.low, self.high)


#: No limit at all.
ANYTHING = Support()


def finish(raw: Array, levels: Array, support: Support = ANYTHING) -> Array:
    """Raw bounds (n, 2, L) as users get them.

    Crossed bounds become their midpoint, levels are nested, and values that y cannot have are cut
    off; an interval left empty becomes the nearest value that y can have.

    >>> finish(np.array([[[3.0, 1.0], [1.0, 2.2]]]), np.array([0.5, 0.9]))[0]
    array([[2. , 1. ],
           [2. , 2.2]])
    >>> finish(np.array([[[0.3, -1.4], [0.4, 2.2]]]), np.array([0.5, 0.9]), Support(0.0, 9.0, True))
    array([[[0., 0.],
            [0., 2.]]])
    """
    bounds = raw.copy()
    _set_middles(bounds, raw, crossed(raw))
    order = np.argsort(levels, kind="stable")
    bounds[:, 0, order] = np.minimum.accumulate(bounds[:, 0, order], axis=1)
    bounds[:, 1, order] = np.maximum.accumulate(bounds[:, 1, order], axis=1)
    if support == ANYTHING:
        return bounds
    cut = support.inside(bounds)
    if (empty := crossed(cut)).any():
        _set_middles(cut, bounds, empty)
        cut = np.where(empty[:, None], support.nearest(cut), cut)
        # The nearest value may lie outside the interval of a higher level.
        for outer, inner in pairwise(order[::-1]):
            cut[:, :, inner] = np.clip(cut[:, :, inner], cut[:, :1, outer], cut[:, 1:, outer])
    return cut


def _set_middles(bounds: Array, of: Array, empty: NDArray[np.bool_]) -> None:
    """Where sets are ``empty`` (n, L), set both bounds to the midpoint of the bounds ``of``."""
    row, level = np.nonzero(empty)
    # Halves first: a sum of huge bounds would overflow.
    bounds[row, :, level] = (0.5 * of[row, :, level]).sum(axis=1, keepdims=True)


def round_up(a: Array, b: Array | float = 0.0) -> Array:
    """a + b, moved up by a few units in the last place of its terms.

    theta* is the score of a calibration row. With discrete data, new rows have exactly that score,
    and fl(v - q) <= theta does not imply v <= fl(q + theta): rounding must not exclude such rows.

    >>> v, q = 0.1, 0.4
    >>> theta = v - q
    >>> bool(v <= q + theta), bool(v <= round_up(q, theta))
    (False, True)
    """
    total = np.asarray(a + b)
    slack = 4.0 * np.finfo(np.float64).eps * (np.abs(a) + np.abs(b))
    # Slack added to an infinite sum could give NaN.
    return total + np.where(np.isfinite(total), slack, 0.0)


def crossed(intervals: Array) -> NDArray[np.bool_]:
    """Where lower > upper, that is, where the set is empty; (n, 2, L) -> (n, L)."""
    return intervals[:, 0] > intervals[:, 1]
