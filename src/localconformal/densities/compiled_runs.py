"""Compiled loops over the bins of each row: two pointers, O(M) steps a row in all."""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine import jit


@jit()
def shortest_run(mass: Any, widths: Any, level: float) -> tuple[int, int]:
    """First and last bin of the shortest run with mass >= level; all bins where there is none."""
    M = len(mass)
    best_first, best_last, best = 0, M - 1, np.inf
    end, held, length = 0, 0.0, 0.0
    for first in range(M):
        while end < M and held < level:
            held += mass[end]
            length += widths[end]
            end += 1
        if held < level:
            break
        if length < best:
            best_first, best_last, best = first, end - 1, length
        held -= mass[first]
        length -= widths[first]
    return best_first, best_last


@jit()
def nested_runs(mass: Any, widths: Any, level: float, ranks: Any) -> None:
    """Into ranks (n, M): the mass of the first run that holds each bin, 0 for the innermost."""
    M = mass.shape[1]
    for i in range(len(mass)):
        first, last = shortest_run(mass[i], widths, level)
        start = 0.0
        for k in range(first, last + 1):
            start += mass[i, k]
        low, high, held = first, last, start
        while low < high:
            sparser_low = mass[i, low] / widths[low] <= mass[i, high] / widths[high]
            dropped = low if sparser_low else high
            ranks[i, dropped] = held
            held -= mass[i, dropped]
            low, high = (low + 1, high) if sparser_low else (low, high - 1)
        ranks[i, low] = 0.0
        low, high, held = first, last, start
        while high - low < M - 1:
            below = mass[i, low - 1] / widths[low - 1] if low > 0 else -1.0
            above = mass[i, high + 1] / widths[high + 1] if high < M - 1 else -1.0
            added = low - 1 if below > above else high + 1
            held += mass[i, added]
            ranks[i, added] = held
            low, high = min(low, added), max(high, added)
