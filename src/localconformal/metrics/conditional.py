"""Distance of the coverage at each x from the level, where the truth is known.

A simulation knows its conditional law, and with it pi(x) = P(lower(x) <= Y <= upper(x) | x); on
real data `excess_risk` estimates lower bounds of the same two numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics._check import number_or_array
from localconformal.quantiles import Array


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
    pi, level = (
        np.asarray(values, dtype=np.float64) for values in (conditional_coverage, confidence_level)
    )
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
