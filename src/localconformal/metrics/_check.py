"""Shapes of (y_true, intervals), checked once for every metric; one level or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from localconformal.frames import check_unmasked
from localconformal.quantiles import Array

Result = TypeVar("Result")


def check_intervals(intervals: ArrayLike) -> Array:
    """Intervals as a float array, (n, 2) or (n, 2, L)."""
    bounds = np.asarray(intervals, dtype=np.float64)
    if bounds.ndim not in (2, 3) or bounds.shape[1] != 2:
        raise ValueError(
            f"intervals have shape {bounds.shape}; (n, 2) or (n, 2, L) was expected: stack lower "
            "and upper bounds along the second axis."
        )
    if bounds.size == 0:
        raise ValueError(f"intervals have shape {bounds.shape}; at least one was expected.")
    if np.isnan(bounds).any():
        raise ValueError(
            "intervals have NaN; numbers or infinities were expected: leave such rows out."
        )
    return bounds


def check_pair(
    y_true: ArrayLike, intervals: ArrayLike, name: str = "y_true"
) -> tuple[Array, Array]:
    """y, shaped to be compared with the bounds of each level, and intervals.

    ``name`` is what the caller calls y.
    """
    check_unmasked(y_true, name)
    y, bounds = np.asarray(y_true, dtype=np.float64), check_intervals(intervals)
    if y.shape != bounds.shape[:1]:
        raise ValueError(
            f"{name} has shape {y.shape} and intervals {bounds.shape}; (n,) was expected for "
            f"{name}, with as many rows as intervals."
        )
    if not np.isfinite(y).all():
        raise ValueError(
            f"{name} has NaN or infinity; finite numbers were expected: leave such rows out."
        )
    return y.reshape(y.shape + (1,) * (bounds.ndim - 2)), bounds


def check_levels(confidence_level: ArrayLike, bounds: Array) -> Array:
    """One level in (0, 1) for each of those in bounds: (1,) for (n, 2), else (L,)."""
    levels = np.asarray(confidence_level, dtype=np.float64)
    n_levels = 1 if bounds.ndim == 2 else bounds.shape[2]
    if levels.ndim > 1 or levels.size != n_levels:
        raise ValueError(
            f"confidence_level has shape {levels.shape} and intervals {bounds.shape}; as many "
            f"levels as in intervals were expected, {n_levels}."
        )
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise ValueError(f"confidence_level is {levels}; numbers in (0, 1) were expected.")
    return levels.reshape(-1)


def each_level(
    judge: Callable[..., Result],
    y_true: ArrayLike,
    intervals: ArrayLike,
    confidence_level: ArrayLike | None = None,
) -> Result | list[Result]:
    """judge(y (n,), bounds (n, 2), level if given); a list, one per level, for (n, 2, L)."""
    y, bounds = check_pair(y_true, intervals)
    parts = bounds.reshape(len(bounds), 2, -1)
    given: list[tuple[Any, ...]] = [(y.reshape(-1), part) for part in np.moveaxis(parts, 2, 0)]
    if confidence_level is not None:
        levels = check_levels(confidence_level, bounds).tolist()
        given = [(*pair, level) for pair, level in zip(given, levels, strict=True)]
    results = [judge(*one) for one in given]
    return results[0] if bounds.ndim == 2 else results


def number_or_array(values: Any) -> float | Array:
    """A plain number instead of an array without axes."""
    numbers = np.asarray(values, dtype=np.float64)
    return float(numbers) if numbers.ndim == 0 else numbers
