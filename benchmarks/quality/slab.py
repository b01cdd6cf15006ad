"""Worst-slab coverage with hold-out (Cauchois et al.; Romano et al.).

A slab is {x: a <= v'x <= b} with a tenth of the rows or more. The slab that covers worst is
found on a quarter of the rows and its coverage reported on the other three, since the minimum
over slabs of the rows it was found on is far below the level even for perfect intervals. Each
quarter finds once, and the rows of the four reports are pooled.
"""

import numpy as np

DIRECTIONS = 300
SHARE = 0.1
#: Below this many test rows a slab has a handful of rows, and its coverage says nothing.
FEWEST_ROWS = 200


def worst_segment(covered, fewest):
    """Start, end (exclusive) and direction of the segment of least mean; covered (M, n).

    Segments of ``fewest`` to 2 ``fewest`` - 1 rows are enough: a longer one is two of these,
    one of which covers no better.
    """
    sums = np.concatenate([np.zeros((len(covered), 1)), np.cumsum(covered, axis=1)], axis=1)
    best = (np.inf, 0, 0, 0)
    for length in range(fewest, min(2 * fewest, covered.shape[1] + 1)):
        means = (sums[:, length:] - sums[:, :-length]) / length
        at = np.unravel_index(np.argmin(means), means.shape)
        if means[at] < best[0]:
            best = (means[at], at[1], at[1] + length, at[0])
    return best[1:]


def find_slab(X, covered, directions):
    """v (d,), a, b of the slab that covers worst."""
    projected = directions @ X.T
    order = np.argsort(projected, axis=1)
    start, end, which = worst_segment(covered[order], max(2, int(np.ceil(SHARE * len(X)))))
    rows = projected[which, order[which, start:end]]
    return directions[which], rows[0], rows[-1]


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
        v, a, b = find_slab(X[quarter == k], covered[quarter == k], directions)
        projected = X[quarter != k] @ v
        hits.append(covered[quarter != k][(a <= projected) & (projected <= b)])
    found = np.concatenate(hits)
    return float(found.mean()) if len(found) else None
