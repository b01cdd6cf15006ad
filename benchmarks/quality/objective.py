"""What is measured of the intervals of the test rows.

JSON has no infinity: the store has None for an infinite score, and ``infinite_share`` says why.

Worst-slab coverage has a hold-out. The library finds one slab on a quarter of the rows and reports
the others, so that its band is exact. Here each quarter finds once, and the rows of the four
reports are pooled: less noise for a comparison of methods, which needs no band.
"""

import numpy as np

from benchmarks.harness import LEVEL
from localconformal.metrics import conditional, coverage_band, interval_score

FEWEST_GROUP_ROWS = 20


def worst_group_gap(groups, covered):
    """Largest |coverage - level| over groups with enough rows; None where there is none."""
    names, counts = np.unique(groups, return_counts=True)
    enough = names[counts >= FEWEST_GROUP_ROWS]
    gaps = [abs(covered[groups == name].mean() - LEVEL) for name in enough]
    return max(gaps, default=None)


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
        gap = np.abs(test.simulation.coverage(test.X, intervals) - LEVEL).mean()
    return {
        "coverage": covered.mean(),
        "in_band": low <= covered.mean() <= high,
        "interval_score": interval_score(test.y, intervals, LEVEL),
        "mean_length": length.mean(),
        "median_length": np.median(length),
        "infinite_share": np.isinf(length).mean(),
        "worst_group_gap": worst_group_gap(test.groups, covered),
        "worst_slab_coverage": worst_slab_coverage(test.X, covered, seed),
        "conditional_gap": gap,
    }


DIRECTIONS = 300
SHARE = 0.1
#: Below this many test rows a slab has a handful of rows, and its coverage says nothing.
FEWEST_ROWS = 200


def worst_slab_coverage(X, covered, seed):
    """Coverage (a share) of held-out rows in the worst slabs; None with too few rows.

    X (n, d) are test features, standardised here; covered (n,) says which rows are covered.
    """
    if len(X) < FEWEST_ROWS:
        return None
    rng = np.random.default_rng(seed)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    directions = rng.standard_normal((DIRECTIONS, X.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    quarter = rng.permutation(len(X)) % 4
    hits = []
    for k in range(4):
        found = conditional._find_slab(X[quarter == k], covered[quarter == k], directions, SHARE)
        hits.append(covered[quarter != k][conditional._in_slab(X[quarter != k], *found)])
    held_out = np.concatenate(hits)
    return held_out.mean() if len(held_out) else None
