"""Compiled loops of the sketch: fill it, and walk it.

A sketch holds r landmarks z and, for each of G edges of V, a vector A_g of length r with
F(v_g | x) close to k(x, Z).A_g / k(x, Z).A_G. A query costs r kernel values and log2 G dot
products of length r: the number of references is nowhere in it.

These ratios need not increase with g. So the law is read off a fixed binary tree over the
edges: the value at a node is its ratio, held between the largest value at the ancestors that
lie to its left and the smallest at those to its right. That is increasing by construction, and
a quantile and a CDF that walk the same tree are exact inverses.

::

                          g = 511
                   <= /            \\ >
               g = 255               g = 767        value(767) = clip(ratio, value(511), 1)
              /       \\             /       \\
            ...       ...         ...       ...
"""

from __future__ import annotations

from typing import Any

import numpy as np

from localconformal.engine.compiled import _exp, _squared_distances, _weigh
from localconformal.engine.compiler import dot, jit, smallest


@jit()
def accumulate(rows: Any, landmarks: Any, bins: Any, v: Any, sums: Any, extra: Any) -> None:
    """Add rows to a sketch: sums (G, r) by bin of V; extra (3, r): k^2, v k and |v| k."""
    r = landmarks.shape[1]
    u2, k = np.empty(r, rows.dtype), np.empty(r, rows.dtype)
    one, zero = rows.dtype.type(1.0), rows.dtype.type(0.0)
    for i in range(len(rows)):
        _squared_distances(rows[i], landmarks, one, u2)
        _weigh(0, u2, zero, k)
        into, value = sums[bins[i]], v[i]
        for j in range(r):
            into[j] += k[j]
        for j in range(r):
            extra[0, j] += k[j] * k[j]
            extra[1, j] += k[j] * value
            extra[2, j] += k[j] * abs(value)


@jit(inline="always")
def _sample_size(k: Any, total: Any, squares: Any, u2: Any) -> float:
    """(sum w)^2 / sum w^2 by the sketch; 0 where either sum is lost in rounding."""
    for j in range(len(k)):
        u2[j] = k[j] * k[j]
    below = dot(u2, squares)
    return total * total / below if total > 0 and below > 0 else 0.0


@jit()
def _read(
    x: Any, landmarks: Any, A: Any, squares: Any, needed: float, least: float, u2: Any, k: Any
) -> Any:
    """Fill k(x, Z): the total mass, the effective sample size, and whether x is lost.

    A row is lost where the sketch cannot speak for it: no landmark is near, or the effective
    sample size is below what is needed.
    """
    _squared_distances(x, landmarks, k.dtype.type(1.0), u2)
    largest = _exp(k.dtype.type(-0.5) * smallest(u2, k))
    _weigh(0, u2, k.dtype.type(0.0), k)
    total = dot(k, A[-1])
    sample = _sample_size(k, total, squares, u2)
    return total, sample, largest < least or sample < needed


@jit()
def _walk(k: Any, A: Any, total: Any, target: float, wanted: int) -> Any:
    """Down the tree, to the first value that reaches ``target``, or to edge ``wanted`` (if >= 0).

    The edge that was reached, and its value. Quantiles and CDF both come through here: were the
    values summed by two loops, they might differ in the last bits and no longer be inverses.
    """
    left, right, floor, ceiling = -1, len(A) - 1, 0.0, 1.0
    while right - left > 1:
        middle = (left + right) // 2
        value = min(max(dot(k, A[middle]) / total, floor), ceiling)
        if (middle >= wanted) if wanted >= 0 else (value >= target):
            right, ceiling = middle, value
        else:
            left, floor = middle, value
    return right, ceiling


@jit()
def sketch_locate(
    rows: Any,
    landmarks: Any,
    A: Any,
    squares: Any,
    needed: float,
    least: float,
    targets: Any,
    positions: Any,
    lost: Any,
) -> None:
    """First edge whose value reaches each target (m, L); G where none does."""
    G, r = A.shape
    u2, k = np.empty(r, rows.dtype), np.empty(r, rows.dtype)
    for i in range(len(rows)):
        total, _, lost[i] = _read(rows[i], landmarks, A, squares, needed, least, u2, k)
        if not lost[i]:
            for l in range(targets.shape[1]):
                target = targets[i, l]
                positions[i, l] = G if target > 1.0 else _walk(k, A, total, target, -1)[0]


@jit()
def sketch_values(
    rows: Any,
    landmarks: Any,
    A: Any,
    squares: Any,
    needed: float,
    least: float,
    edges: Any,
    values: Any,
    lost: Any,
) -> None:
    """Value of the law at given edges (m, k); 0 below the first."""
    r = A.shape[1]
    u2, k = np.empty(r, rows.dtype), np.empty(r, rows.dtype)
    for i in range(len(rows)):
        total, _, lost[i] = _read(rows[i], landmarks, A, squares, needed, least, u2, k)
        if not lost[i]:
            for l in range(edges.shape[1]):
                edge = edges[i, l]
                values[i, l] = _walk(k, A, total, 0.0, edge)[1] if edge >= 0 else 0.0


@jit()
def sketch_moments(
    rows: Any,
    landmarks: Any,
    A: Any,
    squares: Any,
    needed: float,
    least: float,
    numerator: Any,
    out: Any,
    lost: Any,
) -> None:
    """Mean of the score and effective sample size: out (m, 2)."""
    r = A.shape[1]
    u2, k = np.empty(r, rows.dtype), np.empty(r, rows.dtype)
    for i in range(len(rows)):
        total, out[i, 1], lost[i] = _read(rows[i], landmarks, A, squares, needed, least, u2, k)
        out[i, 0] = dot(k, numerator) / total
