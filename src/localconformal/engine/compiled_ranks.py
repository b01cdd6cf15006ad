"""Compiled loops of `local_ranks`, in the order of operations of its plain NumPy twins.

No sum is reordered and nothing fused (``fastmath=False``), so that both give the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine import jit


@jit()
def sum_up_to(weights: Any, below: Any, under: Any, total: Any) -> None:
    """Sum of the first ``below[i]`` entries of each row, and of all: (m, n) -> (m,), (m,)."""
    for i in range(len(weights)):
        running = 0.0
        for j in range(below[i]):
            running += weights[i, j]
        under[i] = running
        for j in range(below[i], weights.shape[1]):
            running += weights[i, j]
        total[i] = running


@jit()
def _count(first: Any, second: Any, start: int, mass: float) -> int:
    """Calibration rows whose local rank is below ``mass``, ``start`` scores being below v."""
    count = 0
    for i in range(start):
        count += second[i] < mass
    for i in range(start, len(first)):
        count += first[i] < mass
    return count


@jit()
def last_accepted(
    to_row: Any,
    from_row: Any,
    under: Any,
    total: Any,
    below: Any,
    most: Any,
    shrink: float,
    tiny: float,
    out: Any,
) -> None:
    """Largest k that each of m rows accepts, for each number of rows that may be below: (m, L)."""
    n = len(under)
    first, second, masses = np.empty(n), np.empty(n), np.empty(n + 1)
    for q in range(len(to_row)):
        masses[0] = 0.0
        for i in range(n):
            mass = total[i] + to_row[q, i]
            first[i] = (under[i] + to_row[q, i]) / mass
            second[i] = under[i] / mass
            masses[i + 1] = masses[i] + from_row[q, i]
        whole = masses[n] + 1.0
        for i in range(n + 1):
            masses[i] = masses[i] / whole * shrink - tiny
        for l in range(len(most)):
            low, high = 0, n + 1
            while high - low > 1:
                k = (low + high) // 2
                if _count(first, second, below[k], masses[below[k]]) <= most[l]:
                    low = k
                else:
                    high = k
            out[q, l] = low
