"""The response y as it comes in: finite numbers, one per row."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from localconformal.frames import check_unmasked
from localconformal.quantiles import Array

#: Squares of larger responses, and sums of them, leave the range of float64.
LARGEST_RESPONSE = 1e150


def check_target(y: Any) -> Array:
    """y as a finite float64 array of shape (n,)."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    check_unmasked(y, "y")
    column = column_or_1d(y, warn=True)
    if column.dtype.kind not in "biufO":
        raise ValueError(
            f"y has the type {column.dtype}; numbers were expected: convert it, for example to "
            "seconds or codes."
        )
    try:
        target = np.asarray(check_array(column, ensure_2d=False, dtype=np.float64, input_name="y"))
    except OverflowError:  # whole numbers beyond all floats
        target = np.array([np.inf])
    if np.any(np.abs(target) > LARGEST_RESPONSE):
        raise ValueError(
            f"y has values as large as {np.abs(target).max():.3g}; at most {LARGEST_RESPONSE:g} "
            "in size was expected: count it in a larger unit."
        )
    return target
