"""Between levels and scores, for loops that answer with positions in the sorted scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array, cdf_targets


def targets_by_row(levels: Array, upper: NDArray[np.bool_], m: int) -> Array:
    """Masses to reach at each of m rows: levels (L,) or (m, L) -> (m, L), contiguous."""
    targets = cdf_targets(levels, upper)
    return np.ascontiguousarray(np.broadcast_to(targets, (m, targets.shape[-1])))


def scores_at(v: Array, positions: NDArray[np.int64], targets: Array) -> Array:
    """Sorted scores at these positions; +inf past the last, -inf where nothing was to reach."""
    scores = np.append(v, np.inf)[positions]
    scores[targets <= 0.0] = -np.inf
    return scores
