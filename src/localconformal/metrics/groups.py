"""Coverage within groups of rows, with exact bands, and its mean gap."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.columns import as_labels
from localconformal.frames import make_frame
from localconformal.metrics._check import (
    check_levels,
    check_pair,
    one_number_or_all,
    one_or_all,
    split_levels,
)
from localconformal.metrics.binomial import binomial_band
from localconformal.metrics.coverage import is_covered
from localconformal.quantiles import Array


@dataclass(frozen=True, eq=False)
class GroupCoverage:
    """Coverage of each of G groups.

    Attributes
    ----------
    group : array of shape (G,)
        Labels, sorted; what is missing is the last, None, NaN or NaT.
    n : array of shape (G,)
        Rows of the group.
    coverage : array of shape (G,)
    gap : array of shape (G,)
        coverage - confidence_level: negative where the group is covered too rarely.
    lower, upper : array of shape (G,)
        Exact binomial band of the coverage. Each holds with its probability on its own: among
        20 groups of 95 % bands, expect one to miss.
    confidence_level : float
    """

    group: NDArray[Any]
    n: NDArray[np.intp]
    coverage: Array
    gap: Array
    lower: Array
    upper: Array
    confidence_level: float

    def frame(self) -> Any:
        """One row per group (pandas)."""
        return make_frame(asdict(self), None)


def group_coverage(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike,
    confidence_level: float | ArrayLike = 0.9,
    *,
    probability: float = 0.95,
) -> GroupCoverage | list[GroupCoverage]:
    """Coverage, gap and exact binomial band of each group.

    The bands hold for groups that were chosen before looking at ``y_true``, on rows that
    neither trained nor calibrated the intervals.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    groups : array of shape (n,)
        Labels of any kind; missing ones of whatever kind are one group. Labels of mixed kinds are
        told apart by their text.
    confidence_level : float or array of shape (L,), default=0.9
    probability : float, default=0.95
        With which each band holds.

    Returns
    -------
    GroupCoverage
        A list, one per level, for intervals of shape (n, 2, L).

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> result = group_coverage([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"])
    >>> result.coverage, result.n
    (array([1. , 0.5]), array([2, 2]))
    """
    y, bounds = check_pair(y_true, intervals)
    labels, codes = group_codes(groups, len(y))
    levels = check_levels(confidence_level, bounds)
    inside = is_covered(y, bounds).reshape(len(y), -1)
    results = [
        GroupCoverage(labels, **count_groups(codes, inside[:, l], level, probability))
        for l, level in enumerate(levels)
    ]
    return one_or_all(results, bounds)


def coverage_gap(
    y_true: ArrayLike,
    intervals: ArrayLike,
    groups: ArrayLike | None = None,
    confidence_level: float | ArrayLike = 0.9,
    *,
    weighted: bool = False,
) -> float | Array:
    """Mean over groups of |coverage - confidence_level|; 0 is ideal, and noise adds to it.

    Without groups it is |coverage - confidence_level|, by which a search finds intervals that
    cover what they should: the `coverage` itself is highest for the widest.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    groups : array of shape (n,), default=None
        None is one group of all rows.
    confidence_level : float or array of shape (L,), default=0.9
    weighted : bool, default=False
        Groups count by their rows, instead of equally.

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> intervals = [[0.0, 1.0]] * 4
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, ["a", "a", "b", "b"], 0.75)
    0.25
    >>> coverage_gap([0.5, 0.6, 0.7, 2.0], intervals, confidence_level=0.75)
    0.0
    """
    y, bounds = check_pair(y_true, intervals)
    _, codes = group_codes(np.zeros(len(y)) if groups is None else groups, len(y))
    levels, gaps = check_levels(confidence_level, bounds), []
    for part, level in zip(split_levels(bounds), levels, strict=True):
        counted = count_groups(codes, is_covered(y.reshape(-1), part), level)
        weights = counted["n"] if weighted else None
        gaps.append(float(np.average(np.abs(counted["gap"]), weights=weights)))
    return one_number_or_all(gaps, bounds)


def count_groups(
    codes: NDArray[np.intp],
    covered: NDArray[np.bool_],
    confidence_level: float,
    probability: float = 0.95,
) -> dict[str, Any]:
    """Rows, coverage, gap and band of the groups 0, 1, ..., none of which is empty."""
    n = np.bincount(codes)
    hits = np.bincount(codes[covered], minlength=len(n))
    lower, upper = binomial_band(hits, n, probability)
    return {
        "n": n,
        "coverage": hits / n,
        "gap": hits / n - confidence_level,
        "lower": lower,
        "upper": upper,
        "confidence_level": float(confidence_level),
    }


def group_codes(groups: ArrayLike, n: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Labels (G,), sorted, and the position of each row's label among them (n,).

    All that is missing (None, NaN, NaT, pandas.NA) is one label, the last: None among texts.
    """
    given = np.asarray(groups)
    if given.shape != (n,):
        raise ValueError(
            f"groups have shape {given.shape}; ({n},) was expected, one label for each row."
        )
    if given.dtype.kind in "US" and not isinstance(groups, np.ndarray):
        # NumPy makes texts of what is missing in a list of texts.
        given = np.array(list(groups), dtype=object)  # type: ignore[arg-type]
    if given.dtype.kind != "O":
        return np.unique(given, return_inverse=True)
    named = as_labels(given)
    missing = np.array([label is None for label in named], dtype=bool)
    texts = named[~missing].astype(np.str_)
    labels, place = np.unique(texts, return_inverse=True)
    codes = np.full(n, len(labels), dtype=np.intp)
    codes[~missing] = place
    return (np.array([*labels.tolist(), None], dtype=object) if missing.any() else labels), codes
