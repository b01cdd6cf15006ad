"""Fit a method on a split and measure it on the test rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.experiments.experiment import Row
from localconformal.experiments.rows import Rows, Split
from localconformal.metrics.correlation import correlation
from localconformal.metrics.size import tied_lengths
from localconformal.quantiles import Array

LEVEL = 0.9


@dataclass(frozen=True)
class Sets:
    """Prediction sets at test rows: lengths (n,), which rows they cover (n,), hulls (n, 2)."""

    lengths: Array
    covered: NDArray[np.bool_]
    hulls: Array


def predict_sets(model: Any, rows: Rows) -> Sets:
    """Regions where the method has them, else intervals."""
    if hasattr(model, "predict_region"):
        region = model.predict_region(rows.X)
        return Sets(region.length, region.contains(rows.y), region.hull)
    bounds = model.predict_interval(rows.X)
    covered = (bounds[:, 0] <= rows.y) & (rows.y <= bounds[:, 1])
    return Sets(tied_lengths(bounds), covered, bounds)


def calibrated(model: Any, split: Split) -> Any:
    """The method trained and calibrated."""
    model.fit(split.train.X, split.train.y)
    return model.conformalize(split.calibration.X, split.calibration.y)


def measure(sets: Sets, y: Array, prediction: Array) -> Row:
    """Length, coverage and two correlations of the length: with coverage, and with the error.

    ``length`` is the mean of the finite ones; ``infinite`` is the share of the others.
    """
    finite = np.isfinite(sets.lengths)
    return {
        "length": sets.lengths[finite].mean() if finite.any() else None,
        "infinite": 1.0 - finite.mean(),
        "coverage": sets.covered.mean(),
        "length_coverage_corr": correlation(sets.lengths, sets.covered.astype(np.float64)),
        "length_error_corr": correlation(sets.lengths, np.abs(y - prediction)),
    }


def try_method(name: str, model: Any, split: Split, prediction: Array) -> tuple[Row, Sets | None]:
    """The row of a method on a split, and its sets; a method that fails says why.

    ``prediction`` are the shared mean model's at test rows: the error that lengths should follow
    is the same for all methods.
    """
    start = time.perf_counter()
    try:
        sets = predict_sets(calibrated(model, split), split.test)
    except Exception as problem:
        return {"method": name, "failed": f"{type(problem).__name__}: {problem}"}, None
    sizes = {
        "n_train": len(split.train.y),
        "n_calibration": len(split.calibration.y),
        "n_test": len(split.test.y),
    }
    row = {
        "method": name,
        **measure(sets, split.test.y, prediction),
        **sizes,
        "seconds": time.perf_counter() - start,
    }
    return row, sets
