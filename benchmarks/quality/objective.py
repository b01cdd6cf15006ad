"""What is measured of the intervals of the test rows; numbers that JSON can hold.

JSON has no infinity: an infinite score or length is None, and ``infinite_share`` says why.
"""

import numpy as np

from benchmarks.quality.datasets.simulated import conditional_coverage
from benchmarks.quality.protocol import LEVEL
from benchmarks.quality.slab import worst_slab_coverage
from localconformal.metrics import coverage_band, interval_score

FEWEST_GROUP_ROWS = 20


def finite(value):
    return float(value) if np.isfinite(value) else None


def worst_group_gap(groups, covered):
    """Largest |coverage - level| over groups with enough rows; None where there is none."""
    names, counts = np.unique(groups, return_counts=True)
    enough = names[counts >= FEWEST_GROUP_ROWS]
    gaps = [abs(covered[groups == name].mean() - LEVEL) for name in enough]
    return float(max(gaps)) if gaps else None


def measure(split, intervals, seed):
    """All metrics of one method on one split; intervals (n, 2)."""
    test = split.test
    if intervals.shape != (len(test.y), 2) or np.isnan(intervals).any():
        raise ValueError(f"Intervals have shape {intervals.shape} or NaN.")
    covered = (intervals[:, 0] <= test.y) & (test.y <= intervals[:, 1])
    length = intervals[:, 1] - intervals[:, 0]
    low, high = coverage_band(len(split.calibration.y), len(test.y), LEVEL)
    gap = None
    if test.simulation is not None:
        known = conditional_coverage(test.simulation, test.X, intervals)
        gap = float(np.abs(known - LEVEL).mean())
    return {
        "coverage": float(covered.mean()),
        "in_band": bool(low <= covered.mean() <= high),
        "interval_score": finite(interval_score(test.y, intervals, LEVEL)),
        "mean_length": finite(length.mean()),
        "median_length": finite(np.median(length)),
        "infinite_share": float(np.isinf(length).mean()),
        "worst_group_gap": worst_group_gap(test.groups, covered),
        "worst_slab_coverage": worst_slab_coverage(test.X, covered, seed),
        "conditional_gap": gap,
    }
