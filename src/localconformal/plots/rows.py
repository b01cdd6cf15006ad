"""Rows that come in, and those of them that are drawn as points."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from localconformal.metrics._check import check_pair
from localconformal.quantiles import Array
from localconformal.text import say_rows

#: More points than this hide one another, and take long to draw.
MAX_POINTS = 5000


def one_level(y: ArrayLike, intervals: ArrayLike) -> tuple[Array, Array]:
    """y (n,) and the intervals (n, 2) of one level, checked."""
    response, bounds = check_pair(y, intervals)
    if bounds.ndim != 2:
        raise ValueError(
            f"intervals have shape {bounds.shape}; those of one level, (n, 2), were expected: pass "
            "intervals[:, :, level]."
        )
    return response, bounds


def drawn_rows(n: int, max_points: int, random_state: int) -> NDArray[np.intp]:
    """All rows, or ``max_points`` of them at random, ascending.

    Examples
    --------
    >>> drawn_rows(3, 5, 0), len(drawn_rows(1000, 5, 0))
    (array([0, 1, 2]), 5)
    """
    if max_points < 1:
        raise ValueError(f"max_points is {max_points}; at least 1 was expected.")
    if n <= max_points:
        return np.arange(n)
    return np.sort(np.random.default_rng(random_state).choice(n, max_points, replace=False))


def say_drawn(n_drawn: int, n: int) -> str:
    """A sentence on rows that are counted and not drawn, if there are any."""
    return "" if n_drawn == n else f"{say_rows(n_drawn)} drawn, at random, of {n:,}."
