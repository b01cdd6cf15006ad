"""Any law as quantiles on one grid of levels: what composite laws are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine.knots import Behind, Knots
from localconformal.laws.base import BaseLaw
from localconformal.quantiles import Array

_OUTER = [0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06]
_INNER = [0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45]
_TAIL = np.array([*_OUTER, *_INNER])
#: Dense where intervals are asked for: 0, the tails, the middle, 1.
GRID = np.round(np.concatenate([[0.0], _TAIL, [0.5], 1.0 - _TAIL[::-1], [1.0]]), 12)
# Q(0) is -inf by definition; the end of the support is what a knot needs.
SMALLEST = 1e-9


def knots_of(law: BaseLaw, X: Any) -> Knots:
    """Quantiles of a fitted law at the rows of X on the grid: (n, G)."""
    rows = law.rows(X)
    return Knots(quantiles_of(law, rows, GRID), behind=(Behind(1.0, law.engine_, rows),))


def quantiles_of(law: BaseLaw, rows: Any, levels: Array) -> Array:
    """Finite quantiles at rows as the law sees them, levels (L,) increasing: (n, L)."""
    asked = np.maximum(levels, SMALLEST)
    values = law.engine_.quantiles(rows, asked, np.zeros(len(asked), dtype=bool))
    return np.maximum.accumulate(values, axis=1)
