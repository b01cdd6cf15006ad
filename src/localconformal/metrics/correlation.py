"""Pearson correlations of the length: with coverage (validity), with the error (discrimination).

Two questions under two names, since they are easily mixed up. Whether an interval covers should
not depend on its length: `length_coverage_corr` near 0 is ideal. Intervals should be longer where
the model errs more: `length_error_corr` is better the higher, and says nothing about validity.
Both leave out rows of infinite length, and give NaN where a correlation is undefined: constant
lengths, all rows covered (or none), equal errors, fewer than two finite rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics._check import check_pair, one_number_or_all, split_levels
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import tied_lengths
from localconformal.quantiles import Array


def length_coverage_corr(y_true: ArrayLike, intervals: ArrayLike) -> float | Array:
    """Correlation of length and coverage (Feldman et al., 2021); 0 is ideal.

    It is signed: negative where long intervals miss more often than short ones.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> intervals = [[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [0.0, 2.0]]
    >>> length_coverage_corr([0.5, 3.0, 1.0, 3.0], intervals)
    0.0
    """
    y, bounds = check_pair(y_true, intervals)
    found = [
        correlation(tied_lengths(part), is_covered(y.reshape(-1), part).astype(np.float64))
        for part in split_levels(bounds)
    ]
    return one_number_or_all(found, bounds)


def length_error_corr(
    y_true: ArrayLike, intervals: ArrayLike, y_pred: ArrayLike | None = None
) -> float | Array:
    """Correlation of length and |y - prediction|; higher tells hard rows from easy ones better.

    Parameters
    ----------
    y_true : array of shape (n,)
    intervals : array of shape (n, 2) or (n, 2, L)
    y_pred : array of shape (n,), default=None
        Point predictions; None is the centre of each interval.

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> intervals = [[-1.0, 1.0], [-2.0, 2.0], [-3.0, 3.0]]
    >>> round(length_error_corr([0.5, -1.0, 1.5], intervals), 12)
    1.0
    """
    y, bounds = check_pair(y_true, intervals)
    known = None if y_pred is None else check_prediction(y_pred, len(y))
    found = []
    for part in split_levels(bounds):
        length = tied_lengths(part)
        rows = np.isfinite(part).all(axis=1)
        centre = part[rows].mean(axis=1) if known is None else known[rows]
        found.append(correlation(length[rows], np.abs(y.reshape(-1)[rows] - centre)))
    return one_number_or_all(found, bounds)


def correlation(length: Array, other: Array) -> float:
    """Pearson's correlation over finite lengths; NaN where either is constant."""
    finite = np.isfinite(length)
    a, b = length[finite], other[finite]
    if len(a) < 2 or np.ptp(a) == 0.0 or np.ptp(b) == 0.0:
        return float("nan")
    # Largest entries of one: squares of tiny or huge numbers would vanish or overflow.
    a, b = ((v - v.mean()) / np.ptp(v) for v in (a, b))
    return float(np.clip((a @ b) / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def check_prediction(y_pred: ArrayLike, n: int) -> Array:
    """Finite predictions (n,), or refused."""
    prediction = np.asarray(y_pred, dtype=np.float64)
    if prediction.shape != (n,) or not np.isfinite(prediction).all():
        raise ValueError(
            f"y_pred has shape {prediction.shape}, or NaN or infinity; ({n},) finite numbers were "
            "expected, one for each row of y_true."
        )
    return prediction
