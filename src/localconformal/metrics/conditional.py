"""Does coverage depend on x, or on the length? Tests for any form of dependence.

`hsic` looks at the length, `worst_slab_coverage` and `excess_risk` at x. The latter two learn on
some rows and judge on others: on the same rows, they would find what is only chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from localconformal.columns import LABEL, Column, read_columns
from localconformal.metrics.intervals import binomial_band, each_level, is_covered, tied_lengths
from localconformal.quantiles import Array
from localconformal.rows import few_threads, fold_rows, make_frame, take_rows

# ---- dependence of length and coverage ----------------------------------------------------------

_MAX_ROWS = 5_000
#: With more distinct lengths than this the kernel takes seconds, so they are rounded.
_MAX_PLACES = 1_000


@dataclass(frozen=True)
class HSIC:
    """Dependence of length and coverage; ``float(result)`` is its value.

    ``value`` is 0 under independence, except for noise of order 1 / n, and NaN for one row;
    ``p_value`` is the share of permutations, including the data, with a value at least as large;
    ``n`` is the number of rows used, at most 5,000.
    """

    value: float
    p_value: float
    n: int

    def __float__(self) -> float:
        return self.value


def hsic(
    y_true: ArrayLike, intervals: ArrayLike, *, n_permutations: int = 499, random_state: int = 0
) -> HSIC | list[HSIC]:
    """Hilbert-Schmidt independence criterion of length and coverage; 0 is ideal.

        HSIC = trace(K H L H) / (n - 1)^2,  K_ij = exp(-(u_i - u_j)^2),  L_ij = exp(-(c_i - c_j)^2),

    where u are the lengths divided by their standard deviation and c says whether y is covered. At
    most 5,000 rows are used, drawn at random; if there are more than 1,000 distinct lengths, u is
    rounded to hundredths. All infinite lengths are one point, infinitely far from the finite ones.
    If lengths are constant, or rows all covered or all missed, the value is 0 and the p-value 1.
    MAPIE's ``hsic`` is the square root of this, with lengths not standardised.

    Parameters
    ----------
    n_permutations : int, default=499
        Draws behind the p-value; 0 leaves it at 1.
    random_state : int, default=0

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
        return HSIC(float("nan"), 1.0, n)
    u = _in_deviations(length)
    if len(np.unique(u)) > _MAX_PLACES:
        u = np.round(u, 2)
    places, rows, counts = np.unique(u, return_inverse=True, return_counts=True)
    if len(places) == 1 or n_missed in (0, n):
        return HSIC(0.0, 1.0, n)
    kernel = np.exp(-((places[:, None] - places) ** 2))
    observed = np.bincount(rows[missed], minlength=len(places))[None]
    draws = rng.multivariate_hypergeometric(counts, n_missed, size=n_permutations, method="count")
    a = np.concatenate([observed, draws]) - counts * (n_missed / n)
    factor = 2.0 * (1.0 - np.exp(-1.0)) / (n - 1) ** 2
    values = factor * np.einsum("bi,bi->b", a @ kernel, a)
    # A draw of the same misses, summed in another order, counts as equally large.
    as_large = int(np.sum(values[1:] >= values[0] * (1.0 - 1e-9)))
    return HSIC(float(values[0]), (1 + as_large) / (1 + n_permutations), n)


def _in_deviations(length: Array) -> Array:
    """Lengths (n,) divided by the standard deviation of the finite ones; infinite ones far away."""
    finite = length[np.isfinite(length)]
    unit = float(finite.max(initial=0.0)) or 1.0
    spread = (unit * float(np.std(finite / unit)) if len(finite) else 0.0) or 1.0
    # The kernel is 0 at this distance, as at infinity.
    return np.where(np.isinf(length), finite.max(initial=0.0) / spread + 1e3, length / spread)


# ---- the worst slab (Cauchois et al., 2021; Romano et al., 2020) --------------------------------

_FIND_SHARE = 0.25
#: More rows than these do not improve the search, they only slow it down.
MAX_FIND_ROWS = 10_000
#: Most labels with their own indicator; the others have none.
_MAX_INDICATORS = 20
#: Projected values closer than this, in standard deviations, are equal.
_TIE = 1e-12
#: Entries of one block of (directions, rows), to bound the memory.
_BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class WorstSlab:
    """The slab found, and its coverage on other rows; ``float(result)`` is that coverage.

    ``coverage``, with its exact binomial band ``lower`` to ``upper``, is measured on the ``n``
    held-out rows in the slab; NaN if there are none. ``found_coverage``, on the ``found_n`` rows
    used to find it, is biased low. The slab is low <= v'x <= high, with v = ``direction`` (d,) of
    unit length and x the standardised ``columns``: their names, x0, x1, ... for an array,
    ``name=label`` for the indicator of a label; ``source`` is the position of each in X. A slab
    along one column runs, in units of that column, from center + scale * low to
    center + scale * high.
    """

    coverage: float
    lower: float
    upper: float
    n: int
    found_coverage: float
    found_n: int
    direction: Array
    low: float
    high: float
    columns: tuple[str, ...]
    source: NDArray[np.intp]
    center: Array
    scale: Array

    def __float__(self) -> float:
        return self.coverage

    def frame(self) -> Any:
        """Columns by their weight in the direction, largest first (pandas)."""
        order = np.argsort(-np.abs(self.direction), kind="stable")
        names = [self.columns[j] for j in order]
        return make_frame({"column": names, "weight": self.direction[order]}, None)


def worst_slab_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    X: Any,
    *,
    delta: float = 0.1,
    n_directions: int = 1000,
    random_state: int = 0,
) -> WorstSlab | list[WorstSlab]:
    """Coverage of the worst slab, found on a quarter of the rows, reported on the others.

    A slab is a set {x: a <= v'x <= b} with at least a share delta of the rows. Intervals with
    coverage tau at every x have tau here too, within the band; the functions of this name in MAPIE
    and covmetrics report the rows used to find the slab, which gives less. Directions are the
    columns themselves and random unit vectors. At most 10,000 rows are searched; coverage is
    measured on all others.

    Parameters
    ----------
    X : array or frame of shape (n, d), or columns that were read before
        Standardised here; missing values are set to the mean, labels become indicators.
    delta : float, default=0.1
        Least share of the searched rows in a slab.
    n_directions : int, default=1000
    random_state : int, default=0

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(4000, 2)), rng.normal(size=4000)
    >>> y[X[:, 0] > 0.8] *= 2.0
    >>> slab = worst_slab_coverage(y, np.tile([-2.0, 2.0], (4000, 1)), X)
    >>> slab.upper < 0.85
    True
    """
    if not 0.0 < delta <= 1.0 or n_directions < 0:
        raise ValueError(
            f"got delta={delta} and n_directions={n_directions}; expected a share in (0, 1] and "
            "0 or more directions."
        )

    def of_level(y: Array, bounds: Array) -> WorstSlab:
        points, described = _standardised(read_columns(X, len(y)))
        inside, rng = is_covered(y, bounds), np.random.default_rng(random_state)
        directions = _draw_directions(points.shape[1], n_directions, rng)
        order = rng.permutation(len(y))
        n_find = min(int(np.ceil(_FIND_SHARE * len(y))), MAX_FIND_ROWS)
        find, report = order[:n_find], order[n_find:]
        v, low, high = _find_slab(points[find], inside[find], directions, delta)
        found, held = (inside[r][_in_slab(points[r], v, low, high)] for r in (find, report))
        lower, upper = binomial_band(int(held.sum()), len(held))
        share = float(held.mean()) if len(held) else float("nan")
        counted = share, float(lower), float(upper), len(held), float(found.mean()), len(found)
        return WorstSlab(*counted, v, low, high, *described)

    return each_level(of_level, y_true, intervals)


def _standardised(columns: list[Column]) -> tuple[Array, tuple[Any, ...]]:
    """Points (n, d) of mean 0 and variance 1; the name, source, center and scale of each column."""
    found: list[tuple[str, int, Array]] = []
    for j, column in enumerate(columns):
        values = column.numbers
        if column.kind != LABEL or column.is_flag:
            found.append((column.name, j, values))
            continue
        for code, label in enumerate(column.labels[:_MAX_INDICATORS]):
            is_it = np.where(np.isnan(values), np.nan, values == code)
            found.append((f"{column.name}={label}", j, is_it))
    found = found or [(columns[0].name, 0, np.zeros(len(columns[0].numbers)))]
    names, source, given = zip(*found, strict=True)
    points, center, scale = zip(*map(_standardise, given), strict=True)
    described = names, np.array(source), np.array(center), np.array(scale)
    return np.stack(points, axis=1), described


def _standardise(column: Array) -> tuple[Array, float, float]:
    """(column - mean) / standard deviation, 0 if missing or constant; mean and deviation."""
    known, result = np.isfinite(column), np.zeros_like(column)
    if not known.any():
        return result, 0.0, 0.0
    # In units of its largest entry: squares of huge numbers would overflow.
    unit = float(np.abs(column[known]).max()) or 1.0
    mean, spread = float(np.mean(column[known] / unit)), float(np.std(column[known] / unit))
    if spread > 1e-12:
        result[known] = (column[known] / unit - mean) / spread
    return result, unit * mean, unit * spread


def _draw_directions(d: int, n_directions: int, rng: np.random.Generator) -> Array:
    """The d axes, and random unit vectors if there is more than one axis; (M, d)."""
    if d == 1:
        return np.ones((1, 1))
    drawn = rng.standard_normal((n_directions, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return np.concatenate([np.eye(d), drawn])


def _in_slab(points: Array, v: Array, low: float, high: float) -> NDArray[np.bool_]:
    projected = points @ v
    return (projected >= low - _TIE) & (projected <= high + _TIE)


def _find_slab(
    points: Array, covered: NDArray[np.bool_], directions: Array, delta: float
) -> tuple[Array, float, float]:
    """v (d,), a, b of the slab with the lowest coverage; points (n, d), directions (M, d).

    Of slabs with equal coverage, one along the first d directions, the columns, is preferred.
    """
    n, d = points.shape
    fewest = max(1, int(np.ceil(delta * n)))
    best, found = np.inf, (directions[0], -np.inf, np.inf)
    step = max(1, _BLOCK // n)
    starts = [*range(0, d, step), *range(d, len(directions), step)]
    for start, end_of_block in pairwise([*starts, len(directions)]):
        block = directions[start:end_of_block]
        projected = block @ points.T
        order = np.argsort(projected, axis=1)
        projected = np.take_along_axis(projected, order, axis=1)
        breaks = np.ones((len(block), n + 1), dtype=bool)
        breaks[:, 1:-1] = np.diff(projected, axis=1) > _TIE
        mean, first, end, which = _worst_segment(covered[order], fewest, breaks, best)
        if mean < best:
            best = mean
            found = (block[which], projected[which, first], projected[which, end - 1])
    return found[0], float(found[1]), float(found[2])


def _worst_segment(
    covered: NDArray[np.bool_], fewest: int, breaks: NDArray[np.bool_], known: float = np.inf
) -> tuple[float, int, int, int]:
    """Least mean of a segment of at least ``fewest`` entries of one row; its start, end and row.

    ``covered`` is (M, n); ``breaks`` (M, n + 1) says where a segment may begin and end, which is
    not between equal projections; only a mean below ``known`` counts.

    This avoids trying all O(n^2) segments: with m the least mean so far, the segment that minimises
    sum(c) - m (rows) takes one running maximum, and the minimum is below 0 exactly if some segment
    has a smaller mean; m becomes the mean of that segment, and so on until nothing is below 0
    (Dinkelbach, 1967). This is exact, and three or four passes are enough.
    """
    n = covered.shape[1]
    sums = np.concatenate([np.zeros((len(covered), 1)), np.cumsum(covered, axis=1)], axis=1)
    best = (known, 0, n, 0)
    # 2 is above every mean: the first pass then finds some segment.
    target = min(known, 2.0)
    while True:
        excess = sums - target * np.arange(n + 1)
        start = np.where(breaks, excess, -np.inf)[:, : n + 1 - fewest]
        end = np.where(breaks, excess, np.inf)[:, fewest:]
        below = end - np.maximum.accumulate(start, axis=1)
        row, last = np.unravel_index(np.argmin(below), below.shape)
        # Sums are whole numbers and targets fractions of n: a real improvement exceeds 1e-9.
        if not below[row, last] < -1e-9:
            return best
        first, stop = int(np.argmax(start[row, : last + 1])), int(last) + fewest
        target = float((sums[row, stop] - sums[row, first]) / (stop - first))
        best = (target, first, stop, int(row))


# ---- excess risk of the target coverage (ERT; Braun et al., 2025) -------------------------------

#: With fewer covered or missed rows to learn from, the default classifier predicts their share.
_FEWEST_OF_A_KIND = 10


@dataclass(frozen=True, eq=False)
class ExcessRisk:
    """``l1`` with its standard error, from ``n`` rows; ``float(result)`` is ``l1``.

    It is 0 for ideal intervals, except for noise, and its expectation is a lower bound on
    E|pi(x) - tau|. ``l1_error`` takes the classifiers of the folds as given, and is NaN for one
    row. It is therefore too small for few rows: for ideal intervals, l1 / l1_error had a standard
    deviation of 1.6 at 60 rows, 1.4 at 100, 1.2 at 200 and 1.1 at 500, instead of 1. ``predicted``
    (n,) is the cross-fitted estimate of pi(x) at each row.
    """

    l1: float
    l1_error: float
    n: int
    predicted: Array = field(repr=False)

    def __float__(self) -> float:
        return self.l1


def excess_risk(
    y_true: ArrayLike,
    intervals: ArrayLike,
    X: Any,
    confidence_level: float | ArrayLike = 0.9,
    *,
    classifier: Any = None,
    n_splits: int = 5,
    random_state: int = 0,
) -> ExcessRisk | list[ExcessRisk]:
    """Excess risk of the target coverage, in L1: can misses be predicted from x?

    If coverage is tau at every x, no classifier predicts whether y is covered better than the
    constant tau. The gain of a cross-fitted classifier is in expectation a lower bound on the mean
    of |pi(x) - tau|, with pi(x) = P(covered | x): it is the mean of sign(tau - p) (tau - c), where
    c = 1 if y is covered and p is the cross-fitted probability of that.

    Parameters
    ----------
    X : array or frame of shape (n, d), or columns that were read before
        Features from which misses may be predicted.
    confidence_level : float or array of shape (L,), default=0.9
    classifier : classifier with predict_proba, default=None
        Receives X as it is. None is gradient boosting of small trees with early stopping, which
        takes missing values and labels; with fewer than 10 covered or missed rows to learn from,
        it predicts their share.
    n_splits : int, default=5
    random_state : int, default=0

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(1000, 1))
    >>> y = X[:, 0] * rng.normal(size=1000)
    >>> from sklearn.linear_model import LogisticRegression
    >>> same = np.tile([-1.0, 1.0], (1000, 1))
    >>> risk = excess_risk(y, same, X, classifier=LogisticRegression())
    >>> risk.l1 > 3 * risk.l1_error
    True
    """
    if n_splits < 2:
        raise ValueError(f"n_splits: got {n_splits}; expected at least 2.")

    def of_level(y: Array, bounds: Array, level: float) -> ExcessRisk:
        inside = is_covered(y, bounds)
        p = _cross_fit(classifier, X, inside, n_splits, random_state)
        each = np.sign(level - p) * (level - inside)
        error = float(each.std(ddof=1) / np.sqrt(len(y))) if len(y) > 1 else float("nan")
        return ExcessRisk(float(each.mean()), error, len(y), p)

    return each_level(of_level, y_true, intervals, confidence_level)


def _cross_fit(
    classifier: Any, X: Any, covered: NDArray[np.bool_], n_splits: int, seed: int
) -> Array:
    """Probability of being covered (n,), learned for each row from the other folds."""
    own, predicted = classifier is None, np.full(len(covered), np.nan)
    columns = read_columns(X, len(covered)) if own else []
    table = np.stack([column.numbers for column in columns], axis=1) if own else X
    is_label = np.array([column.kind == LABEL and not column.is_flag for column in columns])
    if len(covered) == 1:
        return predicted
    for others, fold in fold_rows(len(covered), n_splits, seed):
        seen, known = covered[others], take_rows(table, others)
        if min(seen.sum(), (~seen).sum()) < (_FEWEST_OF_A_KIND if own else 1):
            predicted[fold] = seen.mean()
            continue
        if own:
            # Boosting cannot bin a column without known values.
            known = np.where(np.isfinite(known).any(axis=0), known, 0.0)
        model = _boosting(len(seen), is_label, seed) if own else clone(classifier)
        with few_threads(table):
            model.fit(known, seen)
        probabilities = np.asarray(model.predict_proba(take_rows(table, fold)), dtype=np.float64)
        predicted[fold] = probabilities[:, list(model.classes_).index(True)]
    return predicted


def _boosting(n: int, is_label: NDArray[np.bool_], seed: int) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(
        learning_rate=0.1,
        max_leaf_nodes=8,
        min_samples_leaf=max(20, n // 500),
        early_stopping=True,
        n_iter_no_change=5,
        categorical_features=is_label,
        random_state=seed,
    )
