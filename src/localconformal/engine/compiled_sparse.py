"""Compiled loops over the few references near each query row.

Neighbours come as flat arrays: those of row i stand at starts[i]:starts[i + 1]. A reference is
known by its rank in the order of V, so that sorted ranks are sorted scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine import jit
from localconformal.engine.exact import weigh


@jit()
def weigh_neighbors(
    rows: Any, references: Any, starts: Any, ranks: Any, kernel: int, unit: float, weights: Any
) -> None:
    """Sort each row's ranks and fill in their kernel weights; ``unit`` is 1 / h^2."""
    for i in range(len(rows)):
        part = ranks[starts[i] : starts[i + 1]]
        if len(part) == 0:
            continue
        part.sort()
        u2 = np.empty(len(part))
        for j in range(len(part)):
            u2[j] = 0.0
            for k in range(rows.shape[1]):
                step = rows[i, k] - references[part[j], k]
                u2[j] += step * step
            u2[j] *= unit
        weigh(kernel, u2, u2.min(), weights[starts[i] : starts[i + 1]])


@jit()
def sparse_locate(starts: Any, ranks: Any, weights: Any, n: int, targets: Any, out: Any) -> None:
    """Rank at which the law reaches each target (m, L); n where it never does."""
    for i in range(len(targets)):
        total = weights[starts[i] : starts[i + 1]].sum()
        for l in range(targets.shape[1]):
            wanted, running, j = targets[i, l] * total, 0.0, starts[i]
            out[i, l] = n
            if targets[i, l] > 1.0:
                continue
            while j < starts[i + 1]:
                running += weights[j]
                # The last neighbour with weight holds all of the mass, whatever rounding says.
                if running >= wanted or j == starts[i + 1] - 1:
                    out[i, l] = ranks[j]
                    break
                j += 1


@jit()
def sparse_mass(starts: Any, ranks: Any, weights: Any, counts: Any, out: Any) -> None:
    """Share of the mass on references of rank below counts (m, k)."""
    for i in range(len(counts)):
        total = weights[starts[i] : starts[i + 1]].sum()
        for l in range(counts.shape[1]):
            running, j = 0.0, starts[i]
            while j < starts[i + 1] and ranks[j] < counts[i, l]:
                running += weights[j]
                j += 1
            out[i, l] = 1.0 if j == starts[i + 1] else min(running / total, 1.0)


@jit()
def sparse_moments(starts: Any, ranks: Any, weights: Any, v: Any, out: Any) -> None:
    """Mean of v and effective sample size: out (m, 2)."""
    for i in range(len(out)):
        total, squares, first = 0.0, 0.0, 0.0
        for j in range(starts[i], starts[i + 1]):
            total += weights[j]
            squares += weights[j] * weights[j]
            first += weights[j] * v[ranks[j]]
        out[i, 0] = first / total if total > 0.0 else 0.0
        out[i, 1] = total * total / squares if squares > 0.0 else 0.0
