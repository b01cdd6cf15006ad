"""Measures of (y_true, intervals): coverage and its bands, length, scores, and how coverage varies.

Intervals are (n, 2), or (n, 2, L) for L levels; a measure is then one number, or one per level.
An empty interval (lower > upper, or both bounds at the same infinity) has length 0. Infinite
lengths count as infinite: the mean of the finite ones alone would reward a method for giving up on
the hard rows; `share_infinite` says how many there are. If every interval is infinite at the same
end, and some at that end only, they are taken as one-sided: only the other end is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, bdtrc, betaincinv
from scipy.stats import betabinom

from localconformal.columns import group_codes
from localconformal.quantiles import Array, conformal_rank
from localconformal.rows import check_unmasked, make_frame

#: Lengths within this many units in the last place of their bounds differ only by rounding.
_ROUNDING = 32.0 * np.finfo(np.float64).eps

_Result = TypeVar("_Result")

# ---- what is measured ----------------------------------------------------------------------------


def _check_intervals(intervals: ArrayLike) -> Array:
    bounds = np.asarray(intervals, dtype=np.float64)
    if bounds.ndim not in (2, 3) or bounds.shape[1] != 2 or bounds.size == 0:
        raise ValueError(
            f"intervals: got shape {bounds.shape}; expected (n, 2) or (n, 2, L), at least one "
            "interval: stack lower and upper bounds along the second axis."
        )
    if np.isnan(bounds).any():
        raise ValueError("intervals: got NaN; expected numbers or infinities: drop these rows.")
    return bounds


def _check_pair(
    y_true: ArrayLike, intervals: ArrayLike, name: str = "y_true"
) -> tuple[Array, Array]:
    """y, shaped for comparison with the bounds of each level, and the bounds."""
    check_unmasked(y_true, name)
    y, bounds = np.asarray(y_true, dtype=np.float64), _check_intervals(intervals)
    if y.shape != bounds.shape[:1]:
        raise ValueError(
            f"{name}: got shape {y.shape} with intervals of shape {bounds.shape}; expected (n,), "
            "one value per interval."
        )
    if not np.isfinite(y).all():
        raise ValueError(f"{name}: got NaN or infinity; expected finite numbers: drop these rows.")
    return y.reshape(y.shape + (1,) * (bounds.ndim - 2)), bounds


def check_one_level(y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y (n,) and bounds (n, 2) of one level."""
    bounds = np.asarray(intervals, dtype=np.float64)
    if bounds.ndim == 3 and bounds.shape[2] != 1:
        raise ValueError(
            f"intervals: got shape {bounds.shape}, {bounds.shape[2]} levels; expected one level: "
            "pass intervals[:, :, k] for each."
        )
    y_checked, bounds = _check_pair(y, bounds[:, :, 0] if bounds.ndim == 3 else bounds, "y")
    return y_checked.reshape(-1), bounds


def check_levels(confidence_level: ArrayLike, bounds: Array) -> Array:
    """One level in (0, 1) per level of the bounds: (1,) for (n, 2), else (L,)."""
    levels = np.asarray(confidence_level, dtype=np.float64)
    n_levels = 1 if bounds.ndim == 2 else bounds.shape[2]
    fits = levels.ndim <= 1 and levels.size == n_levels
    if not fits or not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(
            f"confidence_level: got {levels} with intervals of shape {bounds.shape}; expected "
            f"{n_levels} level(s), as the intervals have, numbers in (0, 1)."
        )
    return levels.reshape(-1)


def each_level(
    judge: Callable[..., _Result],
    y_true: ArrayLike,
    intervals: ArrayLike,
    confidence_level: ArrayLike | None = None,
) -> _Result | list[_Result]:
    """judge(y (n,), bounds (n, 2), level if given); for (n, 2, L) a list, one per level."""
    y, bounds = _check_pair(y_true, intervals)
    parts = bounds.reshape(len(bounds), 2, -1)
    given: list[tuple[Any, ...]] = [(y.reshape(-1), part) for part in np.moveaxis(parts, 2, 0)]
    if confidence_level is not None:
        levels = check_levels(confidence_level, bounds).tolist()
        given = [(*pair, level) for pair, level in zip(given, levels, strict=True)]
    results = [judge(*one) for one in given]
    return results[0] if bounds.ndim == 2 else results


def _number_or_array(values: Any) -> float | Array:
    """A plain number instead of an array without axes."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers) if numbers.ndim == 0 else numbers


class _Table:
    """A result whose fields are columns."""

    def frame(self) -> Any:
        """The fields as columns (pandas)."""
        return make_frame(asdict(self), None)  # type: ignore[call-overload]


# ---- coverage ------------------------------------------------------------------------------------


def coverage(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of rows with lower <= y <= upper.

    >>> coverage([0.0, 2.0], [[0.0, 1.0], [0.0, 1.0]])
    0.5
    """
    return _number_or_array(is_covered(*_check_pair(y_true, intervals)).mean(axis=0))


def is_covered(y: Array, bounds: Array) -> NDArray[np.bool_]:
    """Whether lower <= y <= upper, (n,) or (n, L), for a checked pair."""
    return (bounds[:, 0] <= y) & (y <= bounds[:, 1])


@lru_cache(maxsize=1024)
def coverage_band(
    n_calibration: int, n_test: int, confidence_level: float, probability: float = 0.95
) -> tuple[float, float]:
    """The range in which the coverage of ``n_test`` new rows lies with this probability.

    Given its calibration set, split conformal prediction with continuous scores covers a new row
    with a probability that is Beta(k, n + 1 - k) distributed, k = ceil((n + 1) tau); so the number
    covered is Beta-binomial. Results are cached, as quantiles of that law take milliseconds.

    >>> low, high = coverage_band(500, 1000, 0.9)
    >>> round(low, 3), round(high, 3)
    (0.866, 0.93)
    """
    if not 0.0 < confidence_level < 1.0 or n_calibration < 1 or n_test < 1:
        raise ValueError(
            f"got n_calibration={n_calibration}, n_test={n_test} and confidence_level="
            f"{confidence_level}; expected at least one row each and a level in (0, 1)."
        )
    k, tail = conformal_rank(n_calibration, confidence_level), _tail(probability)
    if k > n_calibration:
        return 1.0, 1.0
    law = betabinom(n_test, k, n_calibration + 1 - k)
    return float(law.ppf(tail)) / n_test, float(law.ppf(1.0 - tail)) / n_test


def _tail(probability: float) -> float:
    """What a band leaves out on either side."""
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability: got {probability}; expected a number in (0, 1).")
    return (1.0 - probability) / 2.0


def binomial_band(
    n_covered: ArrayLike, n: ArrayLike, probability: float = 0.95
) -> tuple[float | Array, float | Array]:
    """Exact (Clopper-Pearson) band of the true coverage, given ``n_covered`` of ``n`` rows.

    From the t-quantile of Beta(k, n - k + 1) to the (1 - t)-quantile of Beta(k + 1, n - k), with k
    of n rows covered and t = (1 - probability) / 2: it contains the true coverage with at least
    this probability. Counts are whole numbers or arrays of them; without rows the band is (0, 1).

    >>> low, high = binomial_band(90, 100)
    >>> round(low, 3), round(high, 3)
    (0.824, 0.951)
    """
    k, rows = np.broadcast_arrays(np.asarray(n_covered), np.asarray(n))
    if not all(np.issubdtype(counts.dtype, np.integer) for counts in (k, rows)):
        raise ValueError(
            f"got n_covered of type {k.dtype} and n of type {rows.dtype}; expected whole numbers: "
            "pass the number of covered rows, not their share."
        )
    if not np.all((k >= 0) & (k <= rows)):
        raise ValueError(f"got n_covered={k} and n={rows}; expected 0 <= n_covered <= n.")
    tail = _tail(probability)
    # Beta(0, .) and Beta(., 0) are point masses at 0 and 1; the maxima keep betaincinv defined.
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), rows - k + 1, tail), 0.0)
    upper = np.where(k < rows, betaincinv(k + 1, np.maximum(rows - k, 1), 1.0 - tail), 1.0)
    return _number_or_array(lower), _number_or_array(upper)


def coverage_p_values(n_covered: ArrayLike, n: ArrayLike, confidence_level: float) -> Array:
    """Exact two-sided p-values of "the coverage is confidence_level", one per count.

    With K ~ Binomial(n, tau) they are 2 min(P(K <= k), P(K >= k)), at most 1: below 0.05 exactly
    when the 95 % `binomial_band` does not contain tau.
    """
    k, rows = (np.asarray(counts, dtype=np.intp) for counts in (n_covered, n))
    at_most, at_least = bdtr(k, rows, confidence_level), bdtrc(k - 1, rows, confidence_level)
    return np.minimum(1.0, 2.0 * np.minimum(at_most, at_least))


# ---- length --------------------------------------------------------------------------------------


def mean_length(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Mean of upper - lower; +inf as soon as one interval is infinite.

    >>> mean_length(None, [[0.0, 1.0], [0.0, 3.0]])
    2.0
    """
    return _number_or_array(lengths(_check_intervals(intervals)).mean(axis=0))


def median_length(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Median of upper - lower; +inf if half of the intervals are infinite.

    >>> median_length(None, [[0.0, 1.0], [0.0, 3.0], [0.0, float("inf")]])
    3.0
    """
    return _number_or_array(np.median(lengths(_check_intervals(intervals)), axis=0))


def share_infinite(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of intervals of infinite length; for one-sided ones, those without any finite bound.

    >>> share_infinite(None, [[0.0, 1.0], [0.0, float("inf")]])
    0.5
    """
    return _number_or_array(is_infinite(_check_intervals(intervals)).mean(axis=0))


def is_infinite(bounds: Array) -> NDArray[np.bool_]:
    """Which intervals are infinite at an end that should be finite: (n,) or (n, L)."""
    end = open_end(bounds)
    return np.isinf(lengths(bounds) if end is None else bounds[:, 1 - end])


def open_end(bounds: Array) -> int | None:
    """The end, 0 or 1, at which one-sided intervals are infinite on purpose; else None.

    >>> open_end(np.array([[-np.inf, 1.0], [-np.inf, np.inf]])), open_end(np.array([[0.0, 1.0]]))
    (0, None)
    """
    for end, infinity in enumerate((-np.inf, np.inf)):
        if (bounds[:, end] == infinity).all() and np.isfinite(bounds[:, 1 - end]).any():
            return end
    return None


def mean_bound(bounds: Array) -> float | None:
    """Mean of the finite bounds of one-sided intervals (n, 2); None for two-sided ones.

    >>> mean_bound(np.array([[-np.inf, 1.0], [-np.inf, np.inf], [-np.inf, 3.0]]))
    2.0
    """
    if (end := open_end(bounds)) is None:
        return None
    return float(np.mean(bounds[:, 1 - end], where=np.isfinite(bounds[:, 1 - end])))


def share_empty(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Share of intervals that contain no number.

    >>> share_empty(None, [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [3.0, 4.0]])
    0.25
    """
    return _number_or_array(is_empty(_check_intervals(intervals)).mean(axis=0))


def is_empty(bounds: Array) -> NDArray[np.bool_]:
    """Which intervals contain no real number; (n, 2) -> (n,), (n, 2, L) -> (n, L)."""
    lower, upper = bounds[:, 0], bounds[:, 1]
    return (lower > upper) | (lower == np.inf) | (upper == -np.inf)


def lengths(bounds: Array) -> Array:
    """upper - lower, 0 for empty sets; (n, 2) -> (n,), (n, 2, L) -> (n, L)."""
    lower, upper = bounds[:, 0], bounds[:, 1]
    return np.subtract(upper, lower, out=np.zeros_like(upper), where=upper > lower)


def tied_lengths(bounds: Array) -> Array:
    """Lengths (n,) of (n, 2); those that differ only by rounding of their bounds are made equal.

    Intervals mu(x) +- q all have the same length, but upper - lower differs in its last digits,
    which anything that ranks or standardises lengths would take for a difference.
    """
    length = lengths(bounds)
    finite = np.flatnonzero(np.isfinite(length))
    if len(finite) == 0:
        return length
    order = finite[np.argsort(length[finite], kind="stable")]
    size = np.abs(bounds[order]).max(axis=1, where=np.isfinite(bounds[order]), initial=0.0)
    apart = np.diff(length[order]) > _ROUNDING * np.maximum(size[1:], size[:-1])
    first = np.maximum.accumulate(np.where(np.append(True, apart), np.arange(len(apart) + 1), 0))
    length[order] = length[order][first]
    return length


# ---- proper scores -------------------------------------------------------------------------------


def interval_score(
    y_true: ArrayLike, intervals: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """Mean Winkler score: length + (2 / alpha) (distance by which y falls outside).

    Lower is better; the alpha/2 and 1 - alpha/2 quantiles are best. Crossed bounds are scored as
    the two quantiles they stand for, with negative length. Infinite intervals score +inf. One-sided
    ones score (distance of y from the bound) + (1 / alpha) (distance by which y falls outside), the
    first term being negative if y is outside: 1 / alpha times the pinball loss of the bound.

    >>> interval_score([2.0], [[0.0, 1.0]], confidence_level=0.5)
    5.0
    """
    y, bounds = _check_pair(y_true, intervals)
    lower, upper = bounds[:, 0], bounds[:, 1]
    alpha = 1.0 - check_levels(confidence_level, bounds)
    if (end := open_end(bounds)) is not None:
        room = y - lower if end else upper - y
        return _number_or_array(np.where(room < 0.0, room * (1.0 - 1.0 / alpha), room).mean(axis=0))
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    # Both bounds at the same infinity: the miss counts, and the length is undefined.
    length = np.subtract(upper, lower, out=np.zeros_like(upper), where=upper != lower)
    score = np.where(np.isinf(outside), np.inf, length) + 2.0 / alpha * outside
    return _number_or_array(score.mean(axis=0))


def crps(y_true: ArrayLike, values: ArrayLike) -> float:
    """Mean CRPS of predictive laws given by k equally likely values; lower is better.

    With x_1 <= ... <= x_k the ``values`` (n, k) of one row, in O(k log k) by sorting,

        CRPS = mean_j |x_j - y| - 1/2 mean_ij |x_i - x_j|
             = 2 mean_j (x_j - y) (1{y < x_j} - (j - 1/2) / k).

    The true law scores best. Values are draws from each row's law, or its quantiles at the
    midpoints of k equal steps of level; an infinite value makes the CRPS +inf.

    >>> crps([0.0, 0.0], [[-1.0, 1.0], [1.0, 1.0]])
    0.75
    """
    check_unmasked(y_true, "y_true")
    y, x = np.asarray(y_true, dtype=np.float64), np.asarray(values, dtype=np.float64)
    shaped = y.ndim == 1 and x.ndim == 2 and len(x) == len(y) and x.size > 0
    if not shaped or not np.all(np.isfinite(y)) or np.isnan(x).any():
        raise ValueError(
            f"got y_true of shape {y.shape} and values of shape {x.shape}, or NaN; expected finite "
            "numbers (n,) and (n, k) numbers, at least one value per row."
        )
    if np.isinf(x).any():
        return float("inf")
    distance, k = np.sort(x, axis=1) - y[:, None], x.shape[1]
    share = (distance > 0.0) - (np.arange(k) + 0.5) / k
    return float(np.mean(2.0 * np.mean(distance * share, axis=1)))


# ---- does coverage depend on the length, or on x? ------------------------------------------------


def length_coverage_corr(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Correlation of length and coverage (Feldman et al., 2021); 0 is ideal.

    Negative if long intervals miss more often than short ones. Rows of infinite length are left
    out; NaN if undefined: constant lengths, all rows covered or none.

    >>> intervals = [[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    >>> length_coverage_corr([0.5, 3.0, 1.0, 3.0], intervals)
    0.0
    """

    def of_level(y: Array, bounds: Array) -> float:
        return _correlation(tied_lengths(bounds), is_covered(y, bounds).astype(np.float64))

    return _number_or_array(each_level(of_level, y_true, intervals))


def length_error_corr(
    y_true: ArrayLike, intervals: ArrayLike, y_pred: ArrayLike | None = None
) -> float | Array:
    """Correlation of length and |y - prediction|; higher means that hard rows are recognised.

    ``y_pred`` (n,) are point predictions; None is the centre of each interval. Rows of infinite
    length are left out; NaN if undefined.

    >>> intervals = [[-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0]]
    >>> round(length_error_corr([0.5, -1.0, 1.5], intervals), 12)
    1.0
    """

    def of_level(y: Array, bounds: Array) -> float:
        rows = np.isfinite(bounds).all(axis=1)
        known = None if y_pred is None else check_prediction(y_pred, len(y))[rows]
        centre = bounds[rows].mean(axis=1) if known is None else known
        return _correlation(tied_lengths(bounds)[rows], np.abs(y[rows] - centre))

    return _number_or_array(each_level(of_level, y_true, intervals))


def _correlation(length: Array, other: Array) -> float:
    """Pearson's correlation over finite lengths; NaN if either is constant."""
    finite = np.isfinite(length)
    a, b = length[finite], other[finite]
    if len(a) < 2 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    # Scaled to a largest entry of one: squares of tiny or huge numbers would under- or overflow.
    a, b = ((v - v.mean()) / np.ptp(v) for v in (a, b))
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def check_prediction(y_pred: ArrayLike, n: int) -> Array:
    """Finite predictions (n,), or an error."""
    prediction = np.asarray(y_pred, dtype=np.float64)
    if prediction.shape != (n,) or not np.isfinite(prediction).all():
        raise ValueError(
            f"y_pred: got shape {prediction.shape}, or NaN or infinity; expected {n} finite "
            "numbers, one per row."
        )
    return prediction


def mean_squared_conditional_error(
    conditional_coverage: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """MSCE: mean of (pi(x) - confidence_level)^2; 0 is ideal.

    pi(x) = P(lower(x) <= Y <= upper(x) | x), (n,) or (n, L), is known only in simulations.

    >>> round(mean_squared_conditional_error([0.8, 1.0]), 12)
    0.01
    """
    return _number_or_array(np.mean(_gaps(conditional_coverage, confidence_level) ** 2, axis=0))


def mean_absolute_conditional_gap(
    conditional_coverage: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """Mean of |pi(x) - confidence_level|, as in `mean_squared_conditional_error`; 0 is ideal.

    >>> round(mean_absolute_conditional_gap([0.8, 1.0]), 12)
    0.1
    """
    return _number_or_array(np.mean(np.abs(_gaps(conditional_coverage, confidence_level)), axis=0))


def _gaps(conditional_coverage: ArrayLike, confidence_level: float | ArrayLike) -> Array:
    """pi(x) - confidence_level, shaped like pi."""
    pi = np.asarray(conditional_coverage, dtype=np.float64)
    level = np.asarray(confidence_level, dtype=np.float64)
    fits = pi.ndim in (1, 2) and pi.size > 0 and level.shape in ((), pi.shape[1:])
    if not fits or not np.all((pi >= 0) & (pi <= 1)) or not np.all((level > 0) & (level < 1)):
        raise ValueError(
            f"got conditional_coverage of shape {pi.shape}, or outside [0, 1], and "
            f"confidence_level={level}; expected probabilities of being covered, (n,) or (n, L), "
            "and one number in (0, 1), or one per level."
        )
    return pi - level


# ---- coverage of parts: groups, strata of the length ---------------------------------------------


@dataclass(frozen=True, eq=False)
class GroupCoverage(_Table):
    """Coverage of each of G groups: arrays of shape (G,).

    ``group`` has the labels, sorted, missing ones last; ``n`` the number of rows; ``gap`` is
    coverage - confidence_level; ``lower`` and ``upper`` are the exact binomial band of the
    coverage. Each band holds on its own: of twenty 95 % bands, expect one to miss.
    """

    group: NDArray[Any]
    n: NDArray[np.intp]
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    confidence_level: float


def group_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike,
    confidence_level: float | ArrayLike = 0.9,
) -> GroupCoverage | list[GroupCoverage]:
    """Coverage, gap and exact binomial band of each group; for several levels, a list.

    The bands hold for groups that were chosen before looking at ``y_true``, on rows that neither
    trained nor calibrated the intervals. ``groups`` (n,) are labels of any kind; all missing ones
    form one group, and labels of mixed types are distinguished by their text.

    >>> intervals = [[0.0, 1.0]] * 4
    >>> result = group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> result.coverage, result.n
    (array([1. , 0.5]), array([2, 2]))
    """

    def of_level(y: Array, bounds: Array, level: float) -> GroupCoverage:
        labels, codes = group_codes(groups, len(y))
        return GroupCoverage(labels, **_count_parts(codes, y, bounds, level))

    return each_level(of_level, y_true, intervals, confidence_level)


def coverage_gap(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike | None = None,
    confidence_level: float | ArrayLike = 0.9,
) -> float | Array:
    """Mean over groups of |coverage - confidence_level|; 0 is ideal, and noise adds to it.

    Without groups it is |coverage - confidence_level|; a search by it finds intervals with the
    right coverage.

    >>> intervals = [[0.0, 1.0]] * 4
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"], 0.75)
    0.25
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, confidence_level=0.75)
    0.0
    """

    def of_level(y: Array, bounds: Array, level: float) -> float:
        _, codes = group_codes(np.zeros(len(y)) if groups is None else groups, len(y))
        return float(np.abs(_count_parts(codes, y, bounds, level)["gap"]).mean())

    return _number_or_array(each_level(of_level, y_true, intervals, confidence_level))


def _count_parts(codes: NDArray[np.intp], y: Array, bounds: Array, level: float) -> dict[str, Any]:
    """Rows, coverage, gap and band of the parts 0, 1, ..., none of them empty."""
    n = np.bincount(codes)
    hits = np.bincount(codes[is_covered(y, bounds)], minlength=len(n))
    lower, upper = binomial_band(hits, n)
    band = {"lower": lower, "upper": upper, "confidence_level": level}
    return {"n": n, "coverage": hits / n, "gap": hits / n - level, **band}


@dataclass(frozen=True, eq=False)
class SizeStratifiedCoverage(_Table):
    """Coverage of B bins of lengths, ``shortest`` to ``longest``: (B,); else as `GroupCoverage`."""

    shortest: Array
    longest: Array
    n: NDArray[np.intp]
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    confidence_level: float


def size_stratified_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    confidence_level: float | ArrayLike = 0.9,
    *,
    n_bins: int = 5,
) -> SizeStratifiedCoverage | list[SizeStratifiedCoverage]:
    """Coverage within at most ``n_bins`` quantile bins of the length, with exact bands.

    Equal lengths stay together, in the bin of their middle row, so there may be fewer bins.
    Infinite lengths have their own bin, the last. For several levels, a list with one per level.

    >>> intervals = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
    >>> result = size_stratified_coverage([0.5, 3.0, 1.0, 1.0], intervals, n_bins=2)
    >>> result.coverage, result.longest
    (array([0.5, 1. ]), array([2., 4.]))
    """

    def of_level(y: Array, bounds: Array, level: float) -> SizeStratifiedCoverage:
        length = tied_lengths(bounds)
        codes = size_bins(length, n_bins)
        bins = [length[codes == code] for code in range(codes.max() + 1)]
        shortest, longest = np.array([(one.min(), one.max()) for one in bins]).T
        return SizeStratifiedCoverage(shortest, longest, **_count_parts(codes, y, bounds, level))

    return each_level(of_level, y_true, intervals, confidence_level)


def size_stratified_coverage_score(
    y_true: ArrayLike, intervals: ArrayLike, *, n_bins: int = 5
) -> float | Array:
    """Coverage of the worst bin of `size_stratified_coverage`; the level, minus noise, is ideal.

    >>> intervals = [[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]]
    >>> size_stratified_coverage_score([0.5, 3.0, 1.0, 1.0], intervals, n_bins=2)
    0.5
    """

    def of_level(y: Array, bounds: Array) -> float:
        codes = size_bins(tied_lengths(bounds), n_bins)
        return float(_count_parts(codes, y, bounds, 0.5)["coverage"].min())

    return _number_or_array(each_level(of_level, y_true, intervals))


def size_bins(length: Array, n_bins: int) -> NDArray[np.intp]:
    """Bin of each length (n,), from 0 without gaps; without ties the same as ``np.array_split``."""
    if n_bins < 1:
        raise ValueError(f"n_bins: got {n_bins}; expected at least 1.")
    finite = np.isfinite(length)
    _, place, counts = np.unique(length[finite], return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts + (counts - 1) // 2
    in_each, rest = divmod(int(finite.sum()), n_bins)
    ends = np.cumsum(in_each + (np.arange(n_bins) < rest))
    bins = np.full(len(length), n_bins)
    bins[finite] = np.searchsorted(ends, middle, side="right")[place]
    return np.unique(bins, return_inverse=True)[1]
