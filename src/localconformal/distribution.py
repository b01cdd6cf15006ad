"""The predictive distribution behind calibrated scores: a CDF, its inverse, samples from it.

Every (x, y) has a *place*: the rank F(v | x) of its score v = V_upper(x, y) in the local law,
and, among equal ranks, how far v lies beyond the scores that the law has seen. Places are ordered
by rank, then by this excess, so they increase strictly with y. With n calibration rows and
N(x, y) = how many of their places are at or below that of (x, y), a new row's CDF is known up
to one step,

    N / (n + 1)  <=  H(y | x)  <=  (N + 1) / (n + 1),

and we take the value nearest 1/2, so neither tail is ever understated. Its inverse is the k-th
smallest calibration place, converted to a score at x and then to a response:

    k = floor((n + 1) t) for t < 1/2, ceil((n + 1) t) for t >= 1/2;  k = 0 is -inf, n + 1 is +inf.

For every k, and any law, model and ties,
P(Y < q_k(X)) <= k / (n + 1) <= P(Y <= q_k(X)), on average over rows. Rounding is outward: it
preserves the first inequality for t < 1/2 and the second for t >= 1/2.

A rank alone would not be enough. A law is a step function: it ranks every v beyond its last step as
1, and a law of few steps gives many rows the same rank. The excess distinguishes them, so quantiles
stay finite and are calibrated to 1 / (n + 1), not to the height of a step. Without a law, all ranks
are equal and the excess is v itself: the conformal predictive system.

Across folds (``cv=``), a row's place is compared with that of (x, y) by the parts that have not
seen the row, and N is the sum over folds; q_k is the k-th smallest of the responses that all places
have at x. At most twice the probability of each inequality is then proven, as for CV+.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from localconformal.composition import Calibration, Correction, Parts, Placed
from localconformal.cross import at_a_time, order_statistic, probes_of
from localconformal.laws.base import LocalLaws
from localconformal.metrics import crps
from localconformal.quantiles import (
    RANK_GUARD,
    Array,
    Support,
    as_levels,
    required_calibration_size,
    round_up,
)
from localconformal.rows import ROWS_AT_A_TIME, Rows, check_unmasked
from localconformal.scores import Band

# CRPS uses this many values of each distribution, and holds this many rows at a time.
_CRPS_VALUES, _CRPS_ROWS = 200, 10_000
_Places = NDArray[np.complex128]
_Ranks = NDArray[np.intp]
_Flags = NDArray[np.bool_]
#: Sorted places (n,) of the rows of a fold, and at new rows the parts that placed them.
_Fold = tuple[_Places, Placed]

# Ranks count steps of 2^-30: sums of weights that differ only by rounding have the same rank.
# Half a step is far above the guards of the laws' quantiles, so those do not matter.
_STEPS = 2.0**30
_NO_LAW = _STEPS / 2.0


def _cdf(folds: list[_Fold], y: Array) -> Array:
    """H(y | x) at m rows, given the places of calibration rows: y (m, k) -> (m, k)."""
    below = np.zeros(y.shape, dtype=np.intp)
    for places, at in folds:
        edge, score = _upper_edge(at.band), at.parts.score
        v = np.stack([score.values(edge, column)[:, 1] for column in y.T], axis=1)
        below += np.searchsorted(places, _place(v, at.F), side="right")
    whole = _count(folds) + 1
    return np.clip(0.5, below / whole, (below + 1) / whole)


def _quantiles(folds: list[_Fold], levels: Array) -> Array:
    """Inverse of `_cdf`: levels (L,) -> (m, L).

    Rounded down below level 1/2 and up from there: a response with exactly the score of a
    calibration row must not fall outside.
    """
    n = _count(folds)
    ranks = _outward_ranks(n, levels)
    values = _of_rank(folds, np.clip(ranks, 1, n), levels >= 0.5)
    return np.where(ranks < 1, -np.inf, np.where(ranks > n, np.inf, values))


def _count(folds: list[_Fold]) -> int:
    return sum(len(places) for places, _ in folds)


def _all_responses(folds: list[_Fold], up: bool = True) -> Array:
    """Responses at all places of n rows, fold by fold: (m, n)."""
    return np.concatenate([_responses(places, at, up) for places, at in folds], axis=1)


def _of_rank(folds: list[_Fold], ranks: _Ranks, up: Any = True) -> Array:
    """Responses of these ranks (L,), from 1, among those of all places: (m, L)."""
    if len(folds) == 1:
        places, at = folds[0]
        return _responses(places[ranks - 1], at, up)
    up = np.broadcast_to(up, ranks.shape)
    if _reads_all([len(places) for places, _ in folds], len(ranks)):
        values = np.empty((folds[0][1].F.n, len(ranks)))
        for way in np.unique(up):
            some = up == way
            values[:, some] = np.sort(_all_responses(folds, way), axis=1)[:, ranks[some] - 1]
        return values

    def ask(k: int, index: _Ranks) -> Array:
        places, at = folds[k]
        found = _responses(places[index.reshape(len(index), -1)], at, np.repeat(up, index.shape[2]))
        return found.reshape(index.shape)

    asked = np.broadcast_to(ranks, (folds[0][1].F.n, len(ranks)))
    return order_statistic(ask, [len(places) for places, _ in folds], asked)


def _of_row(folds: list[_Fold], drawn: _Ranks) -> Array:
    """Responses at the places of these calibration rows, counted over folds: (m, k) -> (m, k)."""
    if len(folds) > 1 and _count(folds) <= len(folds) * drawn.shape[1]:
        return np.take_along_axis(_all_responses(folds), drawn, axis=1)
    values, first = np.empty(drawn.shape), 0
    for places, at in folds:
        mine = (first <= drawn) & (drawn < first + len(places))
        found = _responses(places[np.where(mine, drawn - first, 0)], at)
        values, first = np.where(mine, found, values), first + len(places)
    return values


def _reads_all(sizes: Sequence[int], columns: int) -> bool:
    """Whether reading all numbers of these folds takes less time than a search for each column.

    All are read twice, rounded down and up; of a search, the first pass reads most.
    """
    return 2 * sum(sizes) <= columns * probes_of(sizes)


def _responses(places: _Places, at: Placed, up: Any = True) -> Array:
    """Responses at these places, (L,) or (m, L) -> (m, L), rounded up where ``up`` (L,)."""
    up = np.broadcast_to(up, places.shape[-1:])
    v = _scores_at(places, at.F, up)
    both = at.parts.score.bounds(_upper_edge(at.band), np.stack([-v, v], axis=1))
    return np.where(up, both[:, 1], both[:, 0])


def _outward_ranks(n: int, levels: Array) -> _Ranks:
    """floor((n + 1) t) below 1/2, ceil((n + 1) t) from there: 0 and n + 1 mean infinite."""
    exact = (n + 1) * levels
    down, up = np.floor(exact + RANK_GUARD), np.ceil(exact - RANK_GUARD)
    return np.where(levels < 0.5, down, up).astype(np.intp)


def _place(v: Array, F: LocalLaws) -> _Places:
    """Rank and excess of scores v (m, k) as real and imaginary part.

    NumPy sorts and searches complex numbers by real part, then by imaginary part: the order
    needed here.
    """
    places = np.empty(v.shape, dtype=np.complex128)
    if not F.sides:
        places.real, places.imag = _NO_LAW, v
        return places
    law = F.sides[-1]
    rank = np.floor(law.cdf(v, "right") * _STEPS + 0.5)
    ends = law.quantiles(np.array([0.5, _STEPS - 0.5]) / _STEPS, np.zeros(2, dtype=bool))
    places.real, places.imag = rank, v - _origin(rank, ends[:, 1:], ends[:, :1])
    return places


def _origin(rank: Array, last: Array, first: Array) -> Array:
    """The origin of the excess of this rank: the end of the support for the outer ranks, else 0."""
    return np.where(rank >= _STEPS, last, np.where(rank <= 0.0, first, 0.0))


def _scores_at(places: _Places, F: LocalLaws, up: _Flags) -> Array:
    """The scores that have these places at each row: (L,) or (m, L) -> (m, L).

    v has rank r from Q((r - 1/2) / _STEPS) to Q((r + 1/2) / _STEPS), which bound the score. Where
    ``up`` (L,), scores are rounded up, with Q+ instead of Q; the others are rounded down.
    """
    rank, excess = places.real, places.imag
    low, high = np.full(rank.shape, -np.inf), np.full(rank.shape, np.inf)
    if F.sides:
        levels = np.concatenate([rank - 0.5, rank + 0.5], axis=-1) / _STEPS
        found = F.sides[-1].quantiles(np.clip(levels, 0.0, 1.0), np.tile(up, 2))
        # Every v has a rank from 0 to _STEPS.
        found = np.where(levels < 0.0, -np.inf, np.where(levels > 1.0, np.inf, found))
        low, high = np.split(found, 2, axis=1)
    start, sign = _origin(rank, low, high), np.where(up, 1.0, -1.0)
    v = np.clip(sign * round_up(sign * start, sign * excess), low, high)
    return np.broadcast_to(v, (F.n, v.shape[-1]))


def _upper_edge(band: Band) -> Band:
    """The band shrunk to its upper edge: V_upper is the same, and V_lower is its mirror."""
    return Band.around(band.point, band.upper, band.upper_unit)


class WithPredictiveDistribution:
    """The predictive distribution of a composition with a signed score.

    It uses the calibration of `predict_interval`: nothing is fitted again.
    """

    parts_: Parts
    calibration_: Any
    fit_report_: dict[str, dict[str, Any]]
    _support: Support
    _rows: Callable[..., Rows]
    _check_calibrated: Callable[[], None]

    def predict_quantiles(self, X: Any, levels: ArrayLike) -> Array:
        """Calibrated quantiles of y at each x; they never cross.

        On average over new rows, P(Y < q_t) <= t for t < 1/2 and P(Y > q_t) <= 1 - t for
        t >= 1/2, and both are within 1 / (n + 1) of that for n calibration rows and y without
        ties: [q_0.05, q_0.95] covers at least 90 %. Nothing is guaranteed at a given x. With
        ``cv=`` that is about so, and twice these probabilities are proven: see ``guarantee_``.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        levels : float or list of L floats inside (0, 1)

        Returns
        -------
        array of shape (m, L), or (m,) for one number
            -inf (or the lower end of ``support``) for levels below 1 / (n + 1) and +inf (or its
            upper end) above n / (n + 1): the calibration set is too small for them. Inverse of
            `predict_cdf`, up to rounding: y >= q_t exactly when predict_cdf(y) > t for t < 1/2,
            >= t for t > 1/2. With ``integer``, the nearest whole number; the guarantee still holds.

        Examples
        --------
        >>> from localconformal import SLCPRegressor, datasets
        >>> X, y = datasets.load_simulation("sim2").sample(200, random_state=0)
        >>> SLCPRegressor(law="forest").fit(X, y).predict_quantiles(X, [0.25, 0.5, 0.75]).shape
        (200, 3)
        """
        t = as_levels(levels, "levels")
        asked = np.atleast_1d(t)
        found = [_quantiles(folds, asked) for _, folds in self._placed(X, len(asked))]
        n = self.calibration_.n
        values = _in_order(self._support.nearest(np.concatenate(found)), asked)
        outside = np.any((ranks := _outward_ranks(n, t)) < 1) or np.any(ranks > n)
        if outside and np.isinf(values).any():
            warnings.warn(_shortage(n, t), UserWarning, stacklevel=2)
        return values if t.ndim else values[:, 0]

    def predict_cdf(self, X: Any, y: ArrayLike) -> Array:
        """Calibrated probability that the response at x is at most y.

        It is known up to one step of 1 / (n + 1), for n calibration rows; the value returned is
        the one nearest 1/2, which never understates a tail. For new rows (x, y) without ties it is
        uniform on [0, 1] to within 1 / (n + 1), on average over x, not at each x.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        y : float, or array of shape (m,) or (m, k)
            One number for all rows, or one or k numbers for each.

        Returns
        -------
        array of shape (m,) or (m, k)
            From 1 / (n + 1) to n / (n + 1), non-decreasing in y; 0 below the ``support`` and 1
            from its upper end on. With ``integer``, the CDF of responses rounded to the nearest
            whole number: the inverse of the quantiles, and the distribution of `sample`.
        """
        table = _check_responses(y, len(X))
        columns, support = table[:, None] if table.ndim == 1 else table, self._support
        columns = np.floor(columns) if support.whole else columns
        asked = columns + 0.5 if support.whole else columns
        found = [_cdf(folds, asked[part]) for part, folds in self._placed(X)]
        inside = np.where(columns >= support.high, 1.0, np.concatenate(found))
        return np.where(columns < support.low, 0.0, inside).reshape(table.shape)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Independent samples from the predictive distribution at each x, always finite.

        Each of the n calibration ranks is equally likely; the mass of 1 / (n + 1) beyond the ends
        of the distribution is shared among them. Samples outside ``support`` are moved to its ends,
        and with ``integer`` to the nearest whole number.

        Parameters
        ----------
        X : array or frame of shape (m, d)
        n_samples : int, default=1
        random_state : int, RandomState instance or None, default=None
            An int gives the same samples at every call.

        Returns
        -------
        array of shape (m, n_samples)
        """
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"got n_samples={n_samples!r}; expected a whole number of at least 1.")
        random = check_random_state(random_state)
        draws = []
        for part, folds in self._placed(X, int(n_samples)):
            drawn = random.randint(_count(folds), size=(part.stop - part.start, int(n_samples)))
            draws.append(self._support.nearest(_of_row(folds, drawn)))
        return np.concatenate(draws)

    def crps(self, X: Any, y: ArrayLike) -> float:
        """Mean continuous ranked probability score of rows X (m, d), y (m,); lower is better.

        `localconformal.metrics.crps` of 200 equally likely values, as `sample` would draw them.
        """
        target = _check_responses(y, len(X)).reshape(len(X))
        shares, total = (np.arange(_CRPS_VALUES) + 0.5) / _CRPS_VALUES, 0.0
        for part, folds in self._placed(X, _CRPS_VALUES, _CRPS_ROWS):
            ranks = np.ceil(_count(folds) * shares).astype(np.intp)
            values = self._support.nearest(_of_rank(folds, ranks))
            total += len(values) * crps(target[part], values)
        return total / len(target)

    # ---- parts -----------------------------------------------------------------------------

    def _placed(
        self, X: Any, columns: int = 1, most: int = ROWS_AT_A_TIME
    ) -> Iterator[tuple[slice, list[_Fold]]]:
        """Places of calibration rows, and the parts at X, some rows at a time."""
        places = self._places()
        sets = self.calibration_.folds
        if len(sets) > 1:
            sizes = [one.n for one in sets]
            whole = _reads_all(sizes, columns)
            most = min(most, at_a_time(sum(sizes) if whole else columns * probes_of(sizes)))
        for part, rows in self._rows(X).parts(most):
            yield part, [(p, one.parts.at(rows)) for p, one in zip(places, sets, strict=True)]

    def _places(self) -> list[_Places]:
        """Sorted places of the calibration rows of each fold (n,), computed on first use."""
        self._check_calibrated()
        if (reason := self._why_no_distribution()) is not None:
            raise ValueError(reason)

        def sorted_places(one: Calibration) -> _Places:
            return np.sort(_place(one.V[:, -1:], one.F)[:, 0])

        return [one.once("places", sorted_places, one) for one in self.calibration_.folds]

    def _why_no_distribution(self) -> str | None:
        """A sentence if there are only intervals, else None."""
        if self.parts_.sides.n_sides == 1:
            why = "calibrates one number per row"
        elif type(self.parts_.correction) is not Correction:
            why = "calibrates each row with different calibration rows"
        else:
            return None
        return (
            f"{type(self).__name__} {why}, which gives intervals but no distribution; use "
            "LocalizedConformalRegressor with a score other than 'absolute' and sides='joint' "
            "(adjustment='plain' for no law)."
        )


def _check_responses(y: ArrayLike, n: int) -> Array:
    """y as finite numbers, (n,) or (n, k)."""
    check_unmasked(y, "y")
    given = np.asarray(y)
    if given.dtype.kind not in "biufO":
        raise ValueError(f"got y of dtype {given.dtype}; expected finite numbers.")
    values = given.astype(np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError("got y with NaN or infinity; expected finite numbers.")
    if values.ndim == 0:
        values = np.full(n, values)
    if values.ndim > 2 or len(values) != n:
        raise ValueError(
            f"y has shape {values.shape} and X has {n} rows; expected ({n},) or ({n}, k), or one "
            "number for all rows."
        )
    return values


def _in_order(values: Array, levels: Array) -> Array:
    """Quantiles (m, L) that increase with their levels in spite of rounding."""
    order = np.argsort(levels, kind="stable")
    return np.maximum.accumulate(values[:, order], axis=1)[:, np.argsort(order)]


def _shortage(n: int, levels: Array) -> str:
    """Which level has no finite quantile, and how many rows it needs."""
    extreme = np.maximum(levels, 1.0 - levels)
    level = float(np.ravel(levels)[np.argmax(extreme)])
    needed = required_calibration_size(float(extreme.max()))
    return (
        f"Some quantiles are infinite: got {n} calibration rows, and level {level!r} needs at "
        f"least {needed}; calibrate on more rows, or use levels inside "
        f"[{1 / (n + 1):.3g}, {n / (n + 1):.3g}]."
    )
