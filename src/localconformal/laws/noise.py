"""Noise that is a function of the row: the same row gets the same draw, alone or in a batch.

A method that draws at random for each new row would answer otherwise at every call. Here a draw
is a hash of (seed, row): 64 mixed bits for each coordinate, read as uniform numbers, which the
inverse of a distribution function turns into draws from a kernel.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincinv, ndtri

from localconformal.frames import row_hashes
from localconformal.quantiles import Array

# A model's last bits depend on how many rows it is asked at once; the draw must not.
KEPT_BITS = 30
HALF = np.uint64(32)


def draw(kernel: str, seed: int, points: Array) -> Array:
    """One draw with density proportional to K(|u|) for each point: (n, k) -> (n, k).

    Gaussian: N(0, I). Boxcar: uniform in the unit ball. Epanechnikov: a uniform direction, and
    a squared radius with the law Beta(k / 2, 2).

    Examples
    --------
    >>> rows = np.array([[0.5, 1.0], [2.0, 3.0]])
    >>> both, second = draw("gaussian", 7, rows), draw("gaussian", 7, rows[1:])
    >>> bool((both[1] == second[0]).all())
    True
    """
    return DRAWS[kernel](seed, points)


def gaussian(seed: int, points: Array) -> Array:
    """Independent standard normal coordinates."""
    return ndtri(uniforms(seed, points, points.shape[1]))


def boxcar(seed: int, points: Array) -> Array:
    """Uniform in the unit ball: radius^k is uniform."""
    k = points.shape[1]
    return in_ball(seed, points, lambda share: share ** (1.0 / k))


def epanechnikov(seed: int, points: Array) -> Array:
    """Density (1 - |u|^2)+ up to a factor: the radius has density (1 - r^2) r^(k - 1)."""
    k = points.shape[1]
    return in_ball(seed, points, lambda share: np.sqrt(betaincinv(k / 2.0, 2.0, share)))


#: Kernels from which one can draw.
DRAWS: dict[str, Callable[[int, Array], Array]] = {
    "gaussian": gaussian,
    "boxcar": boxcar,
    "epanechnikov": epanechnikov,
}


def in_ball(seed: int, points: Array, radius: Callable[[Array], Array]) -> Array:
    """Uniform directions with radii given by their inverse distribution function."""
    k = points.shape[1]
    table = uniforms(seed, points, k + 1)
    normal = ndtri(table[:, :k])
    length = np.sqrt(np.einsum("ij,ij->i", normal, normal))
    return normal * (radius(table[:, k]) / length)[:, None]


def uniforms(seed: int, points: Array, count: int) -> Array:
    """So many numbers inside (0, 1) for each point, a hash of the seed and the point."""
    n = len(points)
    keys = row_hashes(coarse(points), np.full(n, float(seed)))
    # Halves of 32 bits: a hash reads numbers as floats, which would round 64.
    halves = np.column_stack([keys >> HALF, keys & np.uint64(2**32 - 1)])
    bits = np.empty((n, count), dtype=np.uint64)
    for position in range(count):
        bits[:, position] = row_hashes(halves, np.full(n, float(position)))
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def coarse(points: Array) -> Array:
    """Coordinates rounded to their first 30 bits."""
    mantissa, exponent = np.frexp(points)
    return np.ldexp(np.rint(np.ldexp(mantissa, KEPT_BITS)), exponent - KEPT_BITS)
