"""What is measured: the least time of some repeats, growth with size, and rank error."""

import time

import numpy as np


def least_seconds(work, repeats=3):
    """Least wall time of the repeats, and the last result."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def growth_exponent(sizes, seconds):
    """Slope of log seconds on log size, over the upper half of the sizes; None for one size."""
    if len(sizes) < 2:
        return None
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])


def rank_errors(answer, levels, exact, points):
    """How far, in mass of the exact law, the answers (m, L) lie from their levels: (m, L)."""
    above = exact.cdf(points, answer, "left") - levels
    below = levels - exact.cdf(points, answer, "right")
    return np.maximum(np.maximum(above, below), 0.0)
