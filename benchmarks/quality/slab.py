"""Worst-slab coverage with hold-out, of slabs found as `localconformal.metrics` finds them.

The library finds one slab on a quarter of the rows and reports the others, so that its band is
exact. Here each quarter finds once, and the rows of the four reports are pooled: less noise for
a comparison of methods, which needs no band.
"""

import numpy as np

from localconformal.metrics import slab

DIRECTIONS = 300
SHARE = 0.1
#: Below this many test rows a slab has a handful of rows, and its coverage says nothing.
FEWEST_ROWS = 200


def worst_segment(covered, fewest):
    """Start, end (exclusive) and direction of the segment of least mean; covered (M, n)."""
    anywhere = np.ones((covered.shape[0], covered.shape[1] + 1), dtype=bool)
    return slab.worst_segment(covered, fewest, anywhere)[1:]


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
        found = slab.find_slab(X[quarter == k], covered[quarter == k], directions, SHARE)
        hits.append(covered[quarter != k][slab.in_slab(X[quarter != k], *found)])
    held_out = np.concatenate(hits)
    return float(held_out.mean()) if len(held_out) else None
