"""What may be passed for intervals: bounds, (predictions, bounds), or whatever predicts them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from localconformal.metrics._check import check_levels, check_pair
from localconformal.quantiles import Array

LEVEL = "confidence_level"
DEFAULT_LEVEL = 0.9


def predicts_intervals(candidate: Any) -> bool:
    """Whether it has to be asked for its intervals."""
    return hasattr(candidate, "predict_interval")


def intervals_of(candidate: Any, X: Any, confidence_level: float | None) -> Any:
    """The candidate's intervals for X, or the candidate if it is them."""
    if not predicts_intervals(candidate):
        return without_predictions(candidate)
    takes = inspect.signature(candidate.predict_interval).parameters
    asked = {LEVEL: confidence_level} if confidence_level is not None and LEVEL in takes else {}
    return without_predictions(candidate.predict_interval(X, **asked))


def without_predictions(found: Any) -> Any:
    """Intervals alone; MAPIE returns (predictions, intervals)."""
    beside = isinstance(found, tuple) and len(found) == 2 and np.ndim(found[1]) > 1
    return found[1] if beside else found


def common_level(candidates: Iterable[Any], confidence_level: float | None) -> float:
    """The target: as given, or what all that predict intervals were set to."""
    if confidence_level is not None:
        return confidence_level
    asked = [one for one in candidates if predicts_intervals(one)]
    unknown = [one for one in asked if np.ndim(getattr(one, LEVEL, [])) != 0]
    if unknown:
        raise ValueError(
            f"{type(unknown[0]).__name__} does not say in {LEVEL} which one level its intervals "
            f"were made for; pass {LEVEL}=."
        )
    levels = {float(getattr(one, LEVEL)) for one in asked}
    if len(levels) > 1:
        raise ValueError(
            f"the candidates were set to {LEVEL} {sorted(levels)}; one was expected: pass {LEVEL}=."
        )
    return levels.pop() if levels else DEFAULT_LEVEL


def check_one_level(y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y (n,) and bounds (n, 2) of one level."""
    bounds = np.asarray(intervals, dtype=np.float64)
    if bounds.ndim == 3 and bounds.shape[2] != 1:
        raise ValueError(
            f"intervals have shape {bounds.shape}, {bounds.shape[2]} levels; one level was "
            "expected: pass intervals[:, :, k] for each."
        )
    y_checked, bounds = check_pair(y, bounds[:, :, 0] if bounds.ndim == 3 else bounds, "y")
    return y_checked.reshape(-1), bounds


def check_level(confidence_level: ArrayLike, bounds: Array) -> float:
    """The one level in (0, 1) of bounds (n, 2)."""
    return float(check_levels(confidence_level, bounds)[0])
