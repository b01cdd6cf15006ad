"""Disjoint training and calibration rows."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, train_test_split

Rows = NDArray[np.intp]


def split_rows(n: int, share: float | int | None, seed: int) -> tuple[Rows, Rows]:
    """Rows 0..n-1 in two disjoint parts; the second has ``share`` (or that many) of them.

    ``share=None`` leaves the second part empty.

    Examples
    --------
    >>> first, second = split_rows(8, 0.25, seed=0)
    >>> len(first), len(second), sorted([*first, *second]) == list(range(8))
    (6, 2, True)
    """
    rows = np.arange(n)
    if share is None:
        return rows, rows[:0]
    if n < 2:
        raise ValueError(
            f"n_samples={n} cannot be split into a training and a calibration part; at least 2 "
            "rows are needed, or pass calibration_size=None and call conformalize."
        )
    if isinstance(share, Integral) and share >= n:
        raise ValueError(
            f"calibration_size is {share} and {n} rows came; some rows must be left to train on."
        )
    first, second = train_test_split(rows, test_size=share, random_state=seed)
    return np.sort(first), np.sort(second)


def fold_rows(n: int, n_folds: int, seed: int) -> list[tuple[Rows, Rows]]:
    """(other rows, fold) for at most ``n_folds`` shuffled folds of 0..n-1."""
    if n < 2:
        raise ValueError(
            f"n_samples={n} is too few for cross-fitting, which needs at least 2 training rows: "
            "give more rows."
        )
    folds = KFold(min(n_folds, n), shuffle=True, random_state=seed)
    return list(folds.split(np.empty((n, 0))))
