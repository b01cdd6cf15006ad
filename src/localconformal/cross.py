"""Cross-conformal intervals: every row trains, and every row calibrates (CV+, jackknife+, J+aB).

The method M_k is fitted without fold k and scores the rows of that fold, p_i = p_k(X_i, Y_i). At x
and threshold theta it has the interval [l_k(x, theta), u_k(x, theta)], which grows with theta. Then

    upper end = the r-th smallest of {u_{k(i)}(x, p_i)},  r = ceil((1 - alpha)(n + 1)), +inf if > n,
    lower end = the mirror image: minus the r-th smallest of {-l_{k(i)}(x, p_i)}.

Within a fold, both ends are monotone in p_i: its scores are sorted once, and each end is an order
statistic of K sorted lists. `order_statistic` finds it without computing the whole lists. A pass
reads at most `_PROBES` numbers of each list, and leaves at most 2 n / _PROBES + K of n candidates.
Folds of up to `_PROBES` rows take one pass: then every model and every law is used once per row.

References: Barber, Candes, Ramdas and Tibshirani, Annals of Statistics 49 (2021); as nested sets,
for any score, Gupta, Kuchibhotla and Ramdas, Pattern Recognition 127 (2022); out of bag, Kim, Xu
and Barber, NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor
from sklearn.model_selection import KFold, check_cv

from localconformal.composition import Calibration, Method, Parts, Placed, Task
from localconformal.quantiles import Array, conformal_rank, round_up
from localconformal.rows import Index, Rows, few_threads, take_params
from localconformal.scores import AbsoluteScore, ResidualScore
from localconformal.text import one_line

#: Numbers of a list that one pass reads, and numbers held at once by all lists and rows.
_PROBES, _HELD = 256, 2**20
#: Factor that makes outward positive for both ends: -1 for lower ends.
_OUTWARD = np.array([-1.0, 1.0])[:, None]
_FORESTS = (RandomForestRegressor, ExtraTreesRegressor, BaggingRegressor)


def order_statistic(
    ask: Callable[[int, NDArray[np.intp]], Array], sizes: Sequence[int], ranks: NDArray[np.intp]
) -> Array:
    """The number of each rank, from 1, among K sorted lists: ranks (m, e) -> (m, e).

    ``ask(k, index)`` returns the numbers at places ``index`` (m, e, M) of list k, which has
    ``sizes[k]`` numbers. Ranks above the sum of sizes give +inf.

    >>> lists = np.array([1.0, 4.0, 9.0]), np.array([2.0, 3.0])
    >>> order_statistic(lambda k, index: lists[k][index], [3, 2], np.array([[1, 4, 6]]))
    array([[ 1.,  4., inf]])
    """
    shape, K = ranks.shape, len(sizes)
    first = np.zeros((K, *shape), dtype=np.intp)
    stop = first + np.reshape(sizes, (K, 1, 1))
    floor, ceiling = np.full(shape, -np.inf), np.full(shape, np.inf)
    while True:
        left = stop - first
        # Short lists, which blocks would hardly shrink, are read in full.
        most = max(int(left.max()), 1)
        M = most if most <= 4 * K else min(most, _PROBES)
        # Each list in M blocks, of which the last numbers are read; blocks are in ascending order.
        edges = first[..., None] + left[..., None] * np.arange(M + 1) // M
        size = np.diff(edges)
        last = np.stack([ask(k, np.maximum(edges[k, ..., 1:] - 1, 0)) for k in range(K)])
        last = np.maximum.accumulate(last, axis=-1)
        if most == M:
            found = np.sort(_beside(np.where(size > 0, last, np.inf)), axis=-1)
            found = np.take_along_axis(found, np.clip(ranks, 1, found.shape[-1])[..., None] - 1, -1)
            found = np.where(ranks > left.sum(axis=0), ceiling, found[..., 0])
            return np.clip(np.where(ranks < 1, floor, found), floor, ceiling)
        below = np.broadcast_to(floor[..., None], (*left.shape, 1))
        start = np.concatenate([below, last[..., :-1]], axis=-1)
        # Blocks that end at or below the ceiling hold at least ``rank`` numbers; those that start
        # below the floor hold fewer. Numbers at or beyond either are dropped; if the answer is
        # among them, it is the floor or the ceiling itself.
        reached = [_reached(values, size, ranks) for values in (start, last)]
        floor, ceiling = (np.clip(value, floor, ceiling) for value in reached)
        under = (size * (last <= floor[..., None])).sum(axis=-1)
        over = (size * (start >= ceiling[..., None])).sum(axis=-1)
        first, ranks = first + under, ranks - under.sum(axis=0)
        stop = np.maximum(stop - over, first)


def _beside(lists: NDArray[Any]) -> NDArray[Any]:
    """(K, m, e, M) -> (m, e, K M)."""
    return np.moveaxis(lists, 0, 2).reshape(*lists.shape[1:3], -1)


def _reached(values: Array, sizes: NDArray[np.intp], ranks: NDArray[np.intp]) -> Array:
    """The value at which blocks (K, m, e, M), in its order, hold ``ranks`` (m, e) numbers."""
    values, sizes = _beside(values), _beside(sizes)
    order = np.argsort(values, axis=-1)
    held = np.cumsum(np.take_along_axis(sizes, order, axis=-1), axis=-1)
    # Padded with +inf, for ranks beyond all numbers.
    place = (held < ranks[..., None]).sum(axis=-1, keepdims=True)
    padded = np.append(np.take_along_axis(values, order, -1), np.full((*ranks.shape, 1), np.inf), 2)
    return np.take_along_axis(padded, place, axis=-1)[..., 0]


# ---- folds --------------------------------------------------------------------------------------


def folds_of(cv: Any, n: int, seed: int, y: Array) -> list[tuple[Index, Index]]:
    """(other rows, fold) for each fold; every row of 0..n-1 is in exactly one fold.

    >>> [fold.tolist() for _, fold in folds_of("loo", 3, 0, np.zeros(3))]
    [[0], [1], [2]]
    """
    given = one_line(repr(cv))
    if isinstance(cv, str):
        cv = KFold(n) if n > 1 else n
    if isinstance(cv, int | np.integer):
        if not 2 <= cv <= n:
            raise ValueError(
                f"got cv={cv} and n_samples={n}; expected at least 2 folds and at most one per row."
            )
        cv = KFold(int(cv), shuffle=True, random_state=seed)
    try:
        pairs = list(check_cv(cv).split(np.empty((n, 1)), y))
        folds = [(np.asarray(rest), np.asarray(fold)) for rest, fold in pairs]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"got cv={given}, which does not split the rows ({error}); expected a number of folds, "
            "a splitter such as KFold(5), or a list of pairs (other rows, fold), such as "
            "list(GroupKFold(5).split(X, y, groups))."
        ) from error
    held = np.concatenate([np.empty(0, dtype=np.intp), *(fold for _, fold in folds)])
    apart = all(len(rest) and not np.isin(rest, fold).any() for rest, fold in folds)
    if not apart or not np.array_equal(np.sort(held), np.arange(n)):
        raise ValueError(
            f"got cv={given}, whose {len(folds)} folds hold out {len(held)} of {n} rows; expected "
            "folds that hold out every row once and train on the others, such as KFold."
        )
    return folds


@dataclass(frozen=True)
class CrossCalibration:
    """Rows of K folds, each scored by parts that have not seen the fold.

    ``parts`` are fitted to all rows, and define the kind of scores.
    """

    parts: Parts
    folds: tuple[Calibration, ...]

    @classmethod
    def of(cls, parts: Parts, method: Method, task: Task, cv: Any, seed: int) -> CrossCalibration:
        """The method fitted once without each fold."""
        n = len(task.y)

        def one(rest: Index, fold: Index) -> Calibration:
            params = take_params(task.fit_params, rest, n)
            some = replace(task, rows=task.rows.take(rest), y=task.y[rest], fit_params=params)
            return Calibration.of(method.fit(some), task.rows.take(fold), task.y[fold])

        return cls(parts, tuple(one(*fold) for fold in folds_of(cv, n, seed, task.y)))

    @property
    def n(self) -> int:
        """Number of rows, all of which calibrate."""
        return sum(fold.n for fold in self.folds)

    @property
    def lost(self) -> float:
        """How far the proven level may lie below 1 - 2 alpha, for folds of equal size."""
        n, K = self.n, len(self.folds)
        return min(2.0 * (1.0 - 1.0 / K) / (n / K + 1.0), (1.0 - K / n) / (K + 1.0))

    def theta(self, levels: Array) -> Array:
        """theta* (S, L) of the scores of all folds together, for uses that need one number."""
        scores = np.concatenate([fold.scores(levels) for fold in self.folds])
        return self.parts.sides.theta(scores, levels)

    def bounds(self, rows: Rows, levels: Array) -> Array:
        """Raw bounds (m, 2, L), some rows at a time."""
        raw = np.empty((len(rows), 2, len(levels)))
        most = min(self.parts.rows_at_a_time, at_a_time(probes_of([fold.n for fold in self.folds])))
        for part, some in rows.parts(most):
            placed = [fold.parts.at(some) for fold in self.folds]
            for l, level in enumerate(levels):
                raw[part, :, l] = self._at_level(placed, np.array([level]))
        return raw

    def _at_level(self, placed: list[Placed], level: Array) -> Array:
        """Bounds (m, 2) at one level (1,)."""
        thetas = [fold.once(("sorted", *level), _sorted_scores, fold, level) for fold in self.folds]
        whole = len(thetas) and max(fold.n for fold in self.folds) <= _PROBES
        known = [_ends(*one, level) for one in zip(placed, thetas, strict=True)] if whole else []

        def ask(k: int, index: NDArray[np.intp]) -> Array:
            if known:
                return np.take_along_axis(known[k], index, axis=2)
            M = index.shape[2]
            # Each end has its own places, and all ends are computed at once.
            both = np.moveaxis(thetas[k][:, np.concatenate([*np.moveaxis(index, 1, 0)], 1)], 0, 1)
            found = _ends(placed[k], both, level)
            return np.stack([found[:, 0, :M], found[:, 1, M:]], axis=1)

        ranks = _ranks(self.parts, self.n, level)
        asked = np.broadcast_to(ranks, (placed[0].F.n, 2))
        return order_statistic(ask, [fold.n for fold in self.folds], asked) * _OUTWARD[:, 0]


def probes_of(sizes: Sequence[int]) -> int:
    """Numbers of lists of these sizes that one pass reads at most."""
    return sum(min(size, _PROBES) for size in sizes)


def at_a_time(numbers: int) -> int:
    """New rows that are predicted at once, with so many numbers for each."""
    return max(1, _HELD // numbers)


def _ranks(parts: Parts, n: int, level: Array) -> NDArray[np.intp]:
    """Rank of each end among n outward ones, at a level (1,): (2,)."""
    sides = parts.sides
    by_end = sides.levels(level)[:, 0] if sides.separate else np.repeat(level, 2)
    return np.array([max(conformal_rank(n, t), 1) for t in by_end], dtype=np.intp)


def _sorted_scores(fold: Calibration, level: Array) -> Array:
    """Adjusted scores of a fold that are calibrated, each side sorted: (S, n)."""
    p, sides = fold.scores(level), fold.parts.sides
    p = p if sides.separate else np.broadcast_to(sides.together(p), p.shape)
    return np.sort(p[:, :, 0].T, axis=1)


def _ends(placed: Placed, theta: Array, level: Array) -> Array:
    """Both ends at thresholds (S, M) or (m, S, M), outward and up: (m, 2, M)."""
    theta = theta if theta.ndim == 3 else theta[None]
    return placed.bounds(theta, level) * _OUTWARD


# ---- out of bag ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OutOfBag:
    """Rows of a bagged model, each scored by the members that were not trained on it (J+aB).

    Row i has the point mu_i(x), the mean of these members, and the ends mu_i(x) -+ V_i: V (n, S)
    are its scores, ``share`` (T, n) the weight of each of T members in mu_i.
    """

    parts: Parts
    V: Array
    share: Array
    #: The guarantee is that of jackknife+.
    lost = 0.0

    @classmethod
    def of(cls, parts: Parts, task: Task) -> OutOfBag:
        """From the model trained on all rows."""
        score, n = parts.score, len(task.y)
        model = getattr(score, "model_", None)
        plain = parts.adjustment is None and type(score) in (ResidualScore, AbsoluteScore)
        if not (plain and isinstance(model, _FORESTS) and getattr(model, "bootstrap", True)):
            raise ValueError(
                f"got cv='oob' with {type(model or score).__name__} and {type(score).__name__}"
                f"{'' if parts.adjustment is None else ' with a law'}; expected a forest or "
                "BaggingRegressor with bootstrap=True, 'residual' or 'absolute', and no law "
                "(SplitConformalRegressor, or adjustment='plain'): use cv=10 for everything else."
            )
        out = np.ones((len(model.estimators_), n))
        for member, bag in zip(out, model.estimators_samples_, strict=True):
            member[bag] = 0.0
        if not (count := out.sum(axis=0)).all():
            raise ValueError(
                f"{np.count_nonzero(count == 0)} of {n} rows are in the bags of all {len(out)} "
                "members, so none is left to score them; use more, such as n_estimators=200."
            )
        share = out / count
        point = np.einsum("it,ti->i", _members(model, task.rows), share)
        V = score.values(score(task.rows)._replace(lower=point, upper=point), task.y)
        return cls(parts, parts.sides.fold(V), share)

    @property
    def n(self) -> int:
        """Number of rows, all of which calibrate."""
        return len(self.V)

    def theta(self, levels: Array) -> Array:
        """theta* (S, L) of all scores, for uses that need one number."""
        p = np.broadcast_to(self.V[:, :, None], (*self.V.shape, len(levels)))
        return self.parts.sides.theta(p, levels)

    def bounds(self, rows: Rows, levels: Array) -> Array:
        """Raw bounds (m, 2, L), some rows at a time."""
        sides, raw = self.parts.sides, np.empty((len(rows), 2, len(levels)))
        V = self.V[:, :, None] if sides.separate else sides.together(self.V[:, :, None])
        reach = np.broadcast_to(V[:, :, 0].T, (2, self.n))
        ranks = np.stack([_ranks(self.parts, self.n, np.array([t])) for t in levels], axis=1)
        for part, some in rows.parts(max(1, _HELD // self.n)):
            # Not a matrix product: there, a row's last digit depends on the other rows.
            point = np.einsum("mt,ti->mi", _members(self.parts.score.model_, some), self.share)
            for end, sign in enumerate(_OUTWARD[:, 0]):
                ends = np.sort(round_up(sign * point, reach[end]), axis=1)
                found = np.append(ends, np.full((len(ends), 1), np.inf), axis=1)
                raw[part, end] = sign * found[:, np.minimum(ranks[end], self.n + 1) - 1]
        open_ends = np.ones(2, dtype=bool)
        open_ends[sides.closed] = False
        raw[:, open_ends] = (np.inf * _OUTWARD)[open_ends]
        return raw


def _members(model: Any, rows: Rows) -> Array:
    """Predictions of each of T members of a bagged model: (m, T)."""
    # In their columns: members know neither names nor each other's features. Bagged pipelines may
    # take text, trees take numbers.
    X = np.asarray(rows.X, dtype=None if isinstance(model, BaggingRegressor) else np.float64)
    columns = getattr(model, "estimators_features_", None) or [slice(None)] * len(model.estimators_)
    with few_threads(X, predicts=True):
        said = [one.predict(X[:, j]) for one, j in zip(model.estimators_, columns, strict=True)]
    return np.stack(said, axis=1)
