"""Does coverage depend on the row? Correlations of the length, and errors where pi(x) is known.

Two questions under two names, since they are easily mixed up. Whether an interval covers should
not depend on its length: `length_coverage_corr` near 0 is ideal. Intervals should be longer where
the model errs more: `length_error_corr` is better the higher, and says nothing about validity.
Both leave out rows of infinite length, and give NaN where a correlation is undefined: constant
lengths, all rows covered (or none), equal errors, fewer than two finite rows.

A simulation knows its conditional law, and with it pi(x) = P(lower(x) <= Y <= upper(x) | x); on
real data `excess_risk` estimates lower bounds of its distance from the level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics._check import each_level, number_or_array
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

    def of_level(y: Array, bounds: Array) -> float:
        return correlation(tied_lengths(bounds), is_covered(y, bounds).astype(np.float64))

    return number_or_array(each_level(of_level, y_true, intervals))


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

    def of_level(y: Array, bounds: Array) -> float:
        rows = np.isfinite(bounds).all(axis=1)
        known = None if y_pred is None else check_prediction(y_pred, len(y))[rows]
        centre = bounds[rows].mean(axis=1) if known is None else known
        return correlation(tied_lengths(bounds)[rows], np.abs(y[rows] - centre))

    return number_or_array(each_level(of_level, y_true, intervals))


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


def mean_squared_conditional_error(
    conditional_coverage: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """MSCE: mean of (pi(x) - confidence_level)^2; 0 is ideal.

    Parameters
    ----------
    conditional_coverage : array of shape (n,) or (n, L)
        pi(x) of each row.
    confidence_level : float or array of shape (L,), default=0.9

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> round(mean_squared_conditional_error([0.8, 1.0]), 12)
    0.01
    """
    return number_or_array(np.mean(_gaps(conditional_coverage, confidence_level) ** 2, axis=0))


def mean_absolute_conditional_gap(
    conditional_coverage: ArrayLike, confidence_level: float | ArrayLike = 0.9
) -> float | Array:
    """Mean of |pi(x) - confidence_level|; 0 is ideal.

    Parameters
    ----------
    conditional_coverage : array of shape (n,) or (n, L)
        pi(x) of each row.
    confidence_level : float or array of shape (L,), default=0.9

    Returns
    -------
    float or array of shape (L,)

    Examples
    --------
    >>> round(mean_absolute_conditional_gap([0.8, 1.0]), 12)
    0.1
    """
    return number_or_array(np.mean(np.abs(_gaps(conditional_coverage, confidence_level)), axis=0))


def _gaps(conditional_coverage: ArrayLike, confidence_level: float | ArrayLike) -> Array:
    """pi(x) - confidence_level, shaped like pi."""
    pi = np.asarray(conditional_coverage, dtype=np.float64)
    level = np.asarray(confidence_level, dtype=np.float64)
    if pi.ndim not in (1, 2) or pi.size == 0 or not np.all((pi >= 0.0) & (pi <= 1.0)):
        raise ValueError(
            f"conditional_coverage has shape {pi.shape}, or values outside [0, 1]; the probability "
            "of being covered was expected, (n,) or (n, L)."
        )
    if level.shape not in ((), pi.shape[1:]) or not np.all((level > 0.0) & (level < 1.0)):
        raise ValueError(
            f"confidence_level is {level} for conditional_coverage of shape {pi.shape}; "
            "one number in (0, 1), or one per level, was expected."
        )
    return pi - level
