"""What every method is given: the same rows, in three parts, at the same level.

Rows are capped by a seeded subsample and cut 60/20/20 into training, calibration and test rows.
Every random choice comes from the names of the data set and the seed, never from loop order, so
any part of the benchmark can be run alone and stays paired with the rest.
"""

import zlib
from dataclasses import dataclass

import numpy as np

#: Raised whenever splits, data sets or metrics change: records of other versions are not reused.
VERSION = 1
LEVEL = 0.9
SHARES = (0.6, 0.2)


@dataclass(frozen=True)
class Rows:
    """A data set: X (n, d), y (n,), groups (n,); the simulation behind it where there is one."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    simulation: object = None


@dataclass(frozen=True)
class Split:
    """Three disjoint parts of a data set."""

    train: Rows
    calibration: Rows
    test: Rows


def seed_of(dataset, seed, purpose=""):
    """A 32-bit seed from names."""
    return zlib.crc32(f"{dataset}/{seed}/{purpose}".encode())


def take(rows, index):
    return Rows(rows.X[index], rows.y[index], rows.groups[index], rows.simulation)


def split(rows, dataset, seed, max_rows):
    """At most ``max_rows`` rows, shuffled, 60/20/20."""
    order = np.random.default_rng(seed_of(dataset, seed, "split")).permutation(len(rows.y))
    order = order[:max_rows]
    cuts = np.round(np.cumsum(SHARES) * len(order)).astype(int)
    return Split(*(take(rows, part) for part in np.split(order, cuts)))
