"""Scores as whole numbers on a fixed grid, so that a stream of any length has a small state.

The grid is that of floating point numbers with 8 bits of mantissa: neighbours differ by 0.2 to
0.4 %, whatever the unit of y. It depends on no data, so a rounded score is still a function of its
row, and what rounding makes equal is told apart at random: p-values stay exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localconformal.quantiles import Array

Codes = NDArray[np.int64]

#: Steps between two powers of two.
STEPS = 256
#: Beyond the exponent of the smallest number there is, so that codes keep the sign.
BIAS = 1_100
#: Turns the grid away from round numbers: halfway between two of its points the last bit of a
#: prediction decides, and that depends on how many rows were asked for at once.
TURN = 0.5**0.5
LARGEST = np.finfo(np.float64).max


def grid_codes(scores: Array) -> Codes:
    """The nearest point of the grid, as a whole number that rises with the score; same shape.

    Examples
    --------
    >>> low, middle, high = grid_codes(np.array([-np.inf, 0.0, np.inf]))
    >>> bool(low < middle == 0 < high)
    True
    >>> one, near, far = grid_codes(np.array([1.0, 1.0001, 1.01]))
    >>> bool(one == near < far)
    True
    """
    value = np.clip(scores, -LARGEST, LARGEST) * TURN
    mantissa, exponent = np.frexp(np.abs(value))
    step = np.rint((mantissa - 0.5) * (2 * STEPS)).astype(np.int64)
    size = (exponent.astype(np.int64) + BIAS) * STEPS + step
    return np.sign(value).astype(np.int64) * size
