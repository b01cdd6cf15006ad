"""F(v | x): a law has `fit(X, v)`, which freezes everything, and `at(rows)`, the local law there.

A local law has `quantiles`, `cdf` and `moments`: it is an engine with its view of the rows
(`WeightedLaw`), quantiles on a grid (`Knots`), or a user's own object (`_Foreign`). Scores have
S = 1 or 2 sides; `SidedLaw` has a law for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, column_or_1d

from localconformal.engine import Engine
from localconformal.quantiles import MASS_GUARD, Array, quantile_of_cdf
from localconformal.rows import Curve, Index, Rows, as_rows, canonical_order, shown

_Flags = NDArray[np.bool_]
#: Weights held at once: 2^21 float64 are 16 MB, a few times that with temporaries.
_CHUNK = 2**21
_TAIL = [0.0, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06]
_TAIL += [0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
#: Dense where intervals need it: in the tails and in the middle.
GRID = np.round(np.concatenate([_TAIL, [0.5], 1.0 - np.array(_TAIL[::-1])]), 12)
_SMALLEST = 1e-9
# Relative error that an interpolated value may have.
_ROUNDING = 16 * np.finfo(np.float64).eps
#: What an object must have to be used as a law.
LAW_METHODS = ["fit", "quantile", "upper_quantile", "cdf", "mean", "effective_sample_size"]


class LocalLaw(Protocol):
    """The law at n rows. An engine has the same methods, with its view of the rows first."""

    def quantiles(self, levels: Array, upper: _Flags) -> Array:
        """Q, or Q+ where ``upper`` (L,): levels (L,) or (n, L) -> (n, L)."""

    def cdf(self, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (n, k) -> (n, k)."""

    def moments(self) -> Array:
        """E[V], E[|V|], effective sample size, whether the law had to widen: (n, 4)."""

    def take(self, index: Index) -> LocalLaw:
        """At some of the rows."""


@dataclass(frozen=True)
class WeightedLaw:
    """Weighted reference scores: an engine, and its view of n rows."""

    engine: Any
    view: Any

    def quantiles(self, levels: Array, upper: _Flags) -> Array:
        """Q, or Q+ where ``upper``."""
        return np.asarray(self.engine.quantiles(self.view, levels, upper))

    def cdf(self, v: Array, side: str) -> Array:
        """F(v) or F(v-)."""
        return np.asarray(self.engine.cdf(self.view, v, side))

    def moments(self) -> Array:
        """E[V], E[|V|], effective sample size, widened."""
        return np.asarray(self.engine.moments(self.view))

    def take(self, index: Index) -> WeightedLaw:
        """At some of the rows."""
        return WeightedLaw(self.engine, self.view[index])


@dataclass(frozen=True)
class Knots:
    """Quantiles (n, G) at increasing levels (G,) from 0 to 1, joined by straight lines.

    Equal knots are an atom. Any law with quantiles can be put in this form. Effective sample size
    and widening come from the laws ``behind``, (weight, law) each, and are computed on demand;
    without such laws, the size is ``total``, a number or (n,).

    Rounding: Q may only be lower and Q+ only higher than the exact line, by a few units in the
    last place, so that F(v) >= t implies Q(t) <= v and F(v-) <= t implies v <= Q+(t). Neither
    leaves the piece that its level falls in, so both stay monotone.
    """

    levels: Array
    kept: NDArray[Any]
    total: Array | float = 0.0
    behind: tuple[tuple[float, LocalLaw], ...] = ()
    #: Knots may be kept in another unit, in fewer bytes: kept = (value - at) / unit.
    at: Array | float = 0.0
    unit: float = 1.0

    @property
    def values(self) -> Array:
        """(n, G), in the unit of the score."""
        if self.unit == 1.0 and isinstance(self.at, float):
            return self.kept
        return np.asarray(
            np.atleast_1d(self.at)[:, None] + self.unit * self.kept.astype(np.float64)
        )

    @classmethod
    def of(cls, F: LocalLaw, levels: Array = GRID) -> Knots:
        """Any local law on a grid of levels."""
        # Q(0) is -inf by definition; a knot needs the end of the support.
        values = F.quantiles(np.maximum(levels, _SMALLEST), np.zeros(len(levels), dtype=bool))
        return cls(levels, np.maximum.accumulate(values, axis=1), behind=((1.0, F),))

    def changed(self, location: Array, scale: Array) -> Knots:
        """The law of location + scale V, (n,) each."""
        values = location[:, None] + scale[:, None] * self.values
        return Knots(self.levels, values, self.total, self.behind)

    def take(self, index: Index) -> Knots:
        """At some of the rows."""
        behind = tuple((weight, F.take(index)) for weight, F in self.behind)
        total, at = (x[index] if isinstance(x, np.ndarray) else x for x in (self.total, self.at))
        return Knots(self.levels, self.kept[index], total, behind, at, self.unit)

    def quantiles(self, levels: Array, upper: _Flags) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (n, L) -> (n, L)."""
        values = self.values
        n, L = len(values), levels.shape[-1]
        strict = np.broadcast_to(upper, levels.shape)
        t = np.broadcast_to(levels + np.where(strict, MASS_GUARD, -MASS_GUARD), (n, L))
        # The knot that ends the piece in which t falls; Q+ starts a piece where Q ends one.
        above, below = (np.searchsorted(self.levels, t, side) for side in ("right", "left"))
        end = np.clip(np.where(strict, above, below), 1, len(self.levels) - 1)
        left = np.take_along_axis(values, end - 1, axis=1)
        right = np.take_along_axis(values, end, axis=1)
        share = (t - self.levels[end - 1]) / (self.levels[end] - self.levels[end - 1])
        line = left + np.clip(share, 0.0, 1.0) * (right - left)
        slack = np.where(left == right, 0.0, _ROUNDING * np.maximum(np.abs(left), np.abs(right)))
        value = np.clip(np.where(strict, line + slack, line - slack), left, right)
        value = np.where(~strict & (t <= 0.0), -np.inf, value)
        return np.where(strict & (t >= 1.0), np.inf, value)

    def cdf(self, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (n, k) -> (n, k)."""
        return np.stack([self._cdf(column, side) for column in v.T], axis=1)

    def _cdf(self, v: Array, side: str) -> Array:
        knots = self.values
        below = knots <= v[:, None] if side == "right" else knots < v[:, None]
        count = np.count_nonzero(below, axis=1)
        end = np.clip(count, 1, len(self.levels) - 1)[:, None]
        left = np.take_along_axis(knots, end - 1, axis=1)[:, 0]
        right = np.take_along_axis(knots, end, axis=1)[:, 0]
        start, stop = self.levels[end[:, 0] - 1], self.levels[end[:, 0]]
        # Infinite v and atoms end at a knot: there is nothing to interpolate.
        inside = (count > 0) & (count < len(self.levels))
        gap = np.where(inside & (right > left), right - left, 1.0)
        along = np.where(inside, np.where(inside, v, 0.0) - left, 0.0) / gap
        line = np.minimum(start + np.clip(along, 0.0, 1.0) * (stop - start), stop)
        return np.where(count == 0, 0.0, np.where(inside, line, 1.0))

    def moments(self) -> Array:
        """E[V] and E[|V|], integrals of the quantile function; sizes and flags of laws behind."""
        values = self.values
        left, right = values[:, :-1], values[:, 1:]
        size = np.abs(left) + np.abs(right)
        across = (left**2 + right**2) / (2.0 * np.where(size > 0.0, size, 1.0))
        areas = (left + right) / 2.0, np.where(left * right < 0.0, across, size / 2.0)
        # Not a matrix product or a strided sum: their last bits depend on the other rows.
        steps = np.diff(self.levels)
        means = [np.ascontiguousarray(area * steps).sum(axis=1) for area in areas]
        sizes, widened = np.zeros(len(left)) + self.total, np.zeros(len(left))
        for weight, F in self.behind:
            found = F.moments()
            sizes, widened = sizes + weight * found[:, 2], np.maximum(widened, found[:, 3])
        return np.column_stack([*means, sizes, widened])


class Law(BaseEstimator):
    """Law of V given x. A subclass has `fit` and `at`; the public methods follow from them.

    `fit` freezes everything, from reference rows alone, and an answer at a row does not depend on
    other rows. Every law keeps the law of inverses: F(v- | x) <= t exactly when v <= Q+(t | x).
    """

    engine_: Any
    view_: Any

    #: Whether a correction in local widths is known to do better than an additive one.
    scaled_ = False

    def fit(self, X: Any, v: ArrayLike) -> Law:
        """Estimate the law from reference rows X (n, d), or `Rows`, and their scores v (n,)."""
        raise NotImplementedError

    def at(self, rows: Rows) -> LocalLaw:
        """The law at these rows; here, the engine's, with its view of them."""
        return WeightedLaw(self.engine_, self.view_(rows))

    def fit_localizer(self, X: Any, v: ArrayLike) -> Localizer:
        """Fit what the kernel between two rows needs, for methods that weight calibration rows."""
        return self.fit(X, v).localizer()

    def localizer(self) -> Localizer:
        """The kernel between two rows behind the fitted law."""
        raise ValueError(
            f"got {type(self).__name__}, which has no kernel between two rows; expected a kernel, "
            "forest or uniform law."
        )

    def row_weights(self, rows: Rows, others: Rows) -> Array:
        """Weights of the others at these rows, not normalised: (m, n)."""
        return weigh_by(self.localizer(), rows, others)

    def quantile(self, X: Any, levels: ArrayLike) -> Array:
        """Q(t | x) = inf{v : F(v | x) >= t}: levels (L,) -> (n, L)."""
        return self._quantiles(X, levels, upper=False)

    def upper_quantile(self, X: Any, levels: ArrayLike) -> Array:
        """Q+(t | x) = inf{v : F(v | x) > t}: levels (L,) -> (n, L); +inf if t >= 1."""
        return self._quantiles(X, levels, upper=True)

    def cdf(self, X: Any, v: ArrayLike, side: str = "right") -> Array:
        """F(v | x) (``side="right"``) or F(v- | x) (``"left"``): v (n,) or (n, k) -> same shape."""
        if side not in ("right", "left"):
            raise ValueError(f"got side={side!r}; expected 'right' or 'left'.")
        values = np.asarray(v, dtype=np.float64)
        if np.isnan(values).any():
            raise ValueError("got NaN in v; expected numbers.")
        table = values.reshape(len(values), -1) if values.ndim < 2 else values
        return self._at(X).cdf(table, side).reshape(values.shape)

    def mean(self, X: Any, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x] if ``absolute``: (n,)."""
        return self._at(X).moments()[:, int(absolute)]

    def effective_sample_size(self, X: Any) -> Array:
        """Number of equally weighted reference rows that would be as informative: (n,)."""
        return self._at(X).moments()[:, 2]

    def fallback(self, X: Any) -> _Flags:
        """Whether the law had to widen its neighbourhood: (n,)."""
        return self._at(X).moments()[:, 3] > 0

    def _at(self, X: Any) -> LocalLaw:
        check_is_fitted(self)
        return self.at(as_rows(X))

    def _quantiles(self, X: Any, levels: ArrayLike, upper: bool) -> Array:
        t = np.atleast_1d(np.asarray(levels, dtype=np.float64))
        if not np.all((t >= 0.0) & (t <= 1.0)):
            raise ValueError(f"got levels={levels!r}; expected numbers in [0, 1].")
        return self._at(X).quantiles(t, np.full(t.shape[-1], upper))


def reference_rows(X: Any, v: ArrayLike) -> tuple[Rows, Array]:
    """The data of a law: rows in canonical order, with finite scores (n,)."""
    scores = np.asarray(column_or_1d(v), dtype=np.float64)
    if len(scores) == 0:
        raise ValueError("got 0 reference rows; expected at least 1.")
    if not np.all(np.isfinite(scores)):
        raise ValueError(
            f"{np.count_nonzero(~np.isfinite(scores))} of {len(scores)} reference scores are NaN "
            "or infinite; expected finite scores: check y and the model's predictions."
        )
    rows = as_rows(X)
    check_lengths(len(rows), len(scores))
    order = canonical_order(rows, scores)
    return rows.take(order), scores[order]


def check_lengths(rows: int, scores: int) -> None:
    """Raise an error unless there are as many rows as scores."""
    if rows != scores:
        raise ValueError(f"X has {rows} rows and v has {scores}; expected the same number.")


# ---- weights on reference rows ------------------------------------------------------------------


class ReferenceEngine:
    """The plain NumPy engine: short, exact, and the oracle in tests of faster ones.

    The law at x is a running sum of weights in the order of V. Every operation uses one row only:
    rows one by one give the same bits as a batch. ``weigh`` returns weights (m, n) in the order of
    ``v``, and where they were widened (m,).
    """

    def __init__(self, v: Array, weigh: Callable[[Any], tuple[Array, _Flags]]) -> None:
        self.v, self.weigh = v, weigh

    def quantiles(self, view: Any, levels: Array, upper: _Flags) -> Array:
        """Q, or Q+ where ``upper``: levels (L,) or (m, L) -> (m, L)."""
        levels = np.broadcast_to(levels, (len(view), levels.shape[-1]))
        out = np.empty(levels.shape)
        for part, F, _, _ in self._laws(view):
            out[part] = quantile_of_cdf(self.v, F, levels[part], upper)
        return out

    def cdf(self, view: Any, v: Array, side: str) -> Array:
        """F(v) or F(v-): v (m, k) -> (m, k)."""
        # Entry 0 is the mass below everything.
        place = np.searchsorted(self.v, v, side="right" if side == "right" else "left")
        out = np.empty(v.shape)
        for part, F, _, _ in self._laws(view):
            out[part] = np.take_along_axis(np.pad(F, ((0, 0), (1, 0))), place[part], axis=1)
        return out

    def moments(self, view: Any) -> Array:
        """E[V], E[|V|], effective sample size, widened: (m, 4)."""
        out = np.empty((len(view), 4))
        for part, _, weights, widened in self._laws(view):
            total = weights.sum(axis=1)
            # einsum, unlike a BLAS product, sums each row the same way in any batch.
            means = [np.einsum("ij,j->i", weights, v) / total for v in (self.v, np.abs(self.v))]
            out[part] = np.column_stack([*means, effective_size(weights), widened])
        return out

    def _laws(self, view: Any) -> Iterator[tuple[slice, Array, Array, _Flags]]:
        """Which rows, running sums, weights and flags, a bounded number of rows at a time."""
        step = max(1, _CHUNK // len(self.v))
        for start in range(0, len(view), step):
            part = slice(start, start + step)
            weights, widened = self.weigh(view[part])
            F = np.cumsum(weights, axis=1)
            F /= F[:, -1:]
            yield part, F, weights, widened


def effective_size(weights: Array) -> Array:
    """(sum w)^2 / sum w^2 of each row; 0 if all weights are 0."""
    squares = np.einsum("ij,ij->i", weights, weights)
    total = weights.sum(axis=1)
    return np.divide(total**2, squares, out=np.zeros_like(total), where=squares > 0)


class Localizer(Protocol):
    """The weight of one row for another: H(x, x') in [0, 1], H(x, x) = 1.

    Nothing is widened where rows are sparse: methods that weight calibration rows put the missing
    mass at +inf.
    """

    symmetric: ClassVar[bool]

    @property
    def view(self) -> Curve:
        """What the kernel needs of each row."""

    def weigh(self, rows: Any, others: Any) -> Array:
        """H(row_i, other_j) of two views: (m, n)."""


def weigh_by(kernel: Localizer, rows: Rows, others: Rows) -> Array:
    """H(row_i, other_j): (m, n)."""
    return np.asarray(kernel.weigh(kernel.view(rows), kernel.view(others)))


class UniformLaw(Law):
    """F(v | x) = share of reference scores up to v, the same at every x: no localization.

    Examples
    --------
    >>> law = UniformLaw().fit(np.zeros((4, 1)), [1.0, 2.0, 3.0, 4.0])
    >>> law.quantile(np.zeros((1, 1)), [0.5, 0.75])
    array([[2., 3.]])
    """

    def fit(self, X: Any, v: ArrayLike) -> UniformLaw:
        """Keep the sorted scores."""
        self.engine_, self.view_ = _UniformEngine(reference_rows(X, v)[1]), _Everywhere()
        return self

    def localizer(self) -> _Everywhere:
        """H = 1."""
        return _Everywhere()


class _UniformEngine(Engine):
    """Answers that do not depend on x; only the number of rows of the view is used."""

    def __init__(self, v: Array) -> None:
        self.v = v

    def _locate(self, rows: Any, targets: Array) -> NDArray[np.int64]:
        return np.searchsorted(np.arange(1, len(self.v) + 1) / len(self.v), targets)

    def _mass_up_to(self, rows: Any, counts: Any) -> Array:
        return np.asarray(counts / len(self.v))

    def moments(self, rows: Any) -> Array:
        same = np.mean(self.v), np.mean(np.abs(self.v)), len(self.v), 0.0
        return np.tile(np.array(same), (len(rows), 1))


class _Everywhere(Curve):
    """H = 1: every row counts fully for every other."""

    symmetric: ClassVar[bool] = True

    @property
    def view(self) -> Curve:
        return self

    def compute(self, rows: Rows) -> Array:
        return np.zeros(len(rows))

    def weigh(self, rows: Any, others: Any) -> Array:
        return np.ones((len(rows), len(others)))


# ---- users' own laws ----------------------------------------------------------------------------


class _ForeignLaw(Law):
    """A `Law` around an object that only has the public methods of one."""

    def __init__(self, law: Any) -> None:
        self.law = law

    def fit(self, X: Any, v: Any) -> _ForeignLaw:
        self.law_ = deepcopy(self.law).fit(as_rows(X).X, v)
        return self

    def at(self, rows: Rows) -> _Foreign:
        return _Foreign(self.law_, rows.X)


@dataclass(frozen=True)
class _Foreign:
    """Answers from the public methods of the object."""

    law: Any
    X: Any

    def quantiles(self, levels: Array, upper: _Flags) -> Array:
        if levels.ndim > 1:
            if np.any(levels != levels[:1]):
                raise ValueError(
                    f"got {type(self.law).__name__}, which takes one set of levels for all rows; "
                    "this adjustment needs one per row: subclass localconformal.laws.Law instead."
                )
            levels = levels[0]
        below = np.asarray(self.law.quantile(self.X, levels), dtype=np.float64)
        if not upper.any():
            return below
        above = np.asarray(self.law.upper_quantile(self.X, levels), dtype=np.float64)
        return np.where(upper, above, below)

    def cdf(self, v: Array, side: str) -> Array:
        columns = [np.asarray(self.law.cdf(self.X, column, side=side)) for column in v.T]
        return np.stack(columns, axis=1)

    def moments(self) -> Array:
        # It has no method for E[|V|]: NaN, which adjustments reject.
        mean, size = self.law.mean(self.X), self.law.effective_sample_size(self.X)
        none = np.zeros(len(self.X))
        return np.column_stack([mean, none + np.nan, size, none]).astype(np.float64)

    def take(self, index: Index) -> _Foreign:
        return _Foreign(self.law, Rows(self.X).take(index).X)


# ---- one law for each side of a score -----------------------------------------------------------


@dataclass(frozen=True)
class SidedLaw:
    """Fitted laws of the columns of V (n, S).

    If the second column is minus the first (residuals around a point), its law is exactly the
    mirror image: Q_lower(t) = -Q+_upper(1 - t). Such a mirrored pair holds the law of the last
    column only, which answers for both in one pass.
    """

    laws: tuple[Law, ...]
    mirrored: bool

    @classmethod
    def fit(cls, law: Law, rows: Rows, V: Array) -> SidedLaw:
        """Fit clones of ``law`` to reference rows and scores V (n, S)."""
        mirrored = is_mirrored(V)
        columns = [V[:, -1]] if mirrored else list(V.T)
        return cls(tuple(clone(law).fit(rows, v) for v in columns), mirrored)

    def at(self, rows: Rows) -> LocalLaws:
        """The laws at these rows."""
        return LocalLaws(tuple(law.at(rows) for law in self.laws), self.mirrored, len(rows))


def is_mirrored(V: Array) -> bool:
    """Whether each side is minus the other."""
    return V.shape[1] == 2 and np.array_equal(V[:, 0], -V[:, 1])


@dataclass(frozen=True)
class LocalLaws:
    """F(. | x) at n rows x, for each of S sides: the F of an adjustment."""

    sides: tuple[LocalLaw, ...]
    mirrored: bool
    n: int

    @property
    def n_sides(self) -> int:
        """S."""
        return 2 if self.mirrored else len(self.sides)

    def quantile(self, levels: Array, upper: bool = False) -> Array:
        """Q(t | x), or Q+: levels (S, L), or (n, S, L) to differ by row -> (n, S, L)."""
        L = levels.shape[-1]
        if self.mirrored:
            both = np.concatenate([1.0 - levels[..., 0, :], levels[..., 1, :]], axis=-1)
            found = self.sides[0].quantiles(both, np.repeat([not upper, upper], L))
            return np.stack([-found[:, :L], found[:, L:]], axis=1)
        sides = zip(self.sides, np.moveaxis(levels, -2, 0), strict=True)
        return np.stack([F.quantiles(t, np.full(L, upper)) for F, t in sides], axis=1)

    def upper_quantile(self, levels: Array) -> Array:
        """Q+(t | x), like `quantile`."""
        return self.quantile(levels, upper=True)

    def cdf(self, v: Array, side: str = "right") -> Array:
        """F(v | x), or F(v- | x) for side "left": v (n, S) -> (n, S)."""
        if self.mirrored:
            other = "left" if side == "right" else "right"
            lower = 1.0 - self.sides[0].cdf(-v[:, :1], other)
            return np.hstack([lower, self.sides[0].cdf(v[:, 1:], side)])
        sides = zip(self.sides, v.T, strict=True)
        return np.hstack([F.cdf(column[:, None], side) for F, column in sides])

    def moments(self) -> Array:
        """E[V], E[|V|], effective sample size, widened, of each side: (n, S, 4)."""
        found = [F.moments() for F in self.sides]
        return np.stack([found[0] * [-1, 1, 1, 1], *found] if self.mirrored else found, axis=1)

    def mean(self, absolute: bool = False) -> Array:
        """E[V | x], or E[|V| | x]: (n, S)."""
        means = self.moments()[:, :, int(absolute)]
        if np.isnan(means).any():
            raise ValueError(
                "got a law without the mean of |V|, which this adjustment needs; subclass "
                "localconformal.laws.Law, or use another adjustment."
            )
        return means

    def take(self, index: Index) -> LocalLaws:
        """At some of the rows."""
        sides = tuple(F.take(index) for F in self.sides)
        return LocalLaws(sides, self.mirrored, len(index))


# ---- weights on the simplex ---------------------------------------------------------------------

#: Laws below this weight are left out: they cost more than they gain.
_LEAST_WEIGHT = 0.08
_STEPS = 500
#: Size of the first step of the exponentiated gradient, and how soon steps shrink.
_FIRST_STEP, _SHRINK = 8.0, 0.1
#: Weight of the entropy in units of the best loss over n: with few rows, similar losses leave the
#: weights spread, which averages the candidates' errors.
_ENTROPY = 30.0
#: Candidates get no weight if their loss exceeds the best by this share, plus this number over n:
#: with few rows, a poor loss may be chance.
_HOPELESS, _HOPELESS_ROWS = 0.15, 30.0
# Weights count as no smaller than this in logarithms.
_LEAST_COUNTED = 1e-12


def pinball(predictions: Array, target: Array, levels: Array) -> Array:
    """Mean pinball loss over rows, summed over levels: (..., n, L), (n,), (L,) -> (...)."""
    error = target[:, None] - predictions
    return np.maximum(levels * error, (levels - 1.0) * error).mean(axis=-2).sum(axis=-1)


def simplex_weights(predictions: Array, target: Array, levels: Array) -> Array:
    """w >= 0 with sum 1 that minimises the pinball loss of sum_k w_k predictions_k.

    Exponentiated gradient with a small entropy term; the best iterate is kept. Predictions
    (K, n, L) are for rows that the candidates have not seen.

    >>> target = np.arange(100.0)
    >>> good, bad = target[:, None], np.zeros((100, 1))
    >>> simplex_weights(np.stack([good, bad]), target, np.array([0.5])).round(2)
    array([1., 0.])
    """
    losses = pinball(predictions, target, levels)
    slack = _HOPELESS + _HOPELESS_ROWS / len(target)
    hopeful = losses <= (1.0 + slack) * losses.min()
    weights = np.zeros(len(losses))
    weights[hopeful] = _descend(predictions[hopeful], target, levels, losses[hopeful])
    return weights


def _descend(predictions: Array, target: Array, levels: Array, losses: Array) -> Array:
    """The best iterate of the exponentiated gradient, from equal weights: (K,)."""
    n = len(target)
    # The smallest positive loss, so that the scale of the target does not matter.
    unit = float(np.min(losses, initial=np.inf, where=losses > 0.0))
    unit = unit if np.isfinite(unit) else 1.0
    penalty = min(_ENTROPY / n, 0.3)
    weights = np.full(len(losses), 1.0 / len(losses))
    best, kept = np.inf, weights
    for step in range(_STEPS):
        mixture = np.tensordot(weights, predictions, axes=1)
        logarithm = np.log(np.maximum(weights, _LEAST_COUNTED))
        objective = float(pinball(mixture, target, levels)) / unit
        objective += penalty * float(np.sum(weights * logarithm))
        if objective < best:
            best, kept = objective, weights
        slope = (mixture > target[:, None]) - levels
        gradient = np.einsum("knl,nl->k", predictions, slope) / (n * unit) + penalty * logarithm
        size = _FIRST_STEP / np.sqrt(1.0 + _SHRINK * step)
        # Steps are bounded, so that one extreme candidate cannot move all weight at once.
        move = np.clip(size * (gradient - gradient.min()), 0.0, 2.0)
        weights = weights * np.exp(-move)
        weights = weights / weights.sum()
    return kept


def fade(weights: Array) -> Array:
    """Weights below the least become 0, and those below twice the least shrink towards it.

    >>> fade(np.array([0.06, 0.09, 0.85])).round(3)
    array([0.   , 0.023, 0.977])
    """
    least = min(_LEAST_WEIGHT, weights.max() / 2.0)
    kept = np.where(weights >= 2 * least, weights, np.maximum(2.0 * (weights - least), 0.0))
    return np.asarray(kept / kept.sum())


# ---- by name ------------------------------------------------------------------------------------

#: Filled in `localconformal.laws`, where all laws are known.
LAWS: dict[str, type[Law]] = {}


def check_levels(levels: Any) -> Array:
    """At least two increasing levels inside (0, 1), or an error."""
    words = f"got levels={levels!r}; expected at least two increasing numbers inside (0, 1)."
    try:
        # Rounded, so that 1 - 0.95 is exactly the knot at 0.05.
        given = np.round(np.ravel(np.asarray(levels, dtype=np.float64)), 12)
    except (TypeError, ValueError) as error:
        raise ValueError(words) from error
    if len(given) < 2 or not np.all((given > 0) & (given < 1)) or np.any(np.diff(given) <= 0):
        raise ValueError(words)
    return np.asarray(given, dtype=np.float64)


def make_law(law: Any, random_state: int | None = None, n_jobs: int | None = None) -> Law:
    """A new law from its name or an object, with this seed and these threads if it has none."""
    if isinstance(law, str) and law in LAWS:
        return seeded(LAWS[law](), random_state, n_jobs)
    if isinstance(law, Law):
        return seeded(clone(law), random_state, n_jobs)
    if isinstance(law, (str, type)) or not (hasattr(law, "fit") and hasattr(law, "quantile")):
        raise ValueError(
            f"got law={shown(law)}; expected one of {', '.join(map(repr, LAWS))}, or an object "
            "with the methods of a law."
        )
    return _ForeignLaw(law)


def seeded(law: Law, random_state: int | None, n_jobs: int | None = None) -> Law:
    """The law with these if its own are None: a regressor's seed fixes everything."""
    own = law.get_params(deep=False)
    given = {"random_state": random_state, "n_jobs": n_jobs}
    return law.set_params(**{k: v for k, v in given.items() if k in own and own[k] is None})
