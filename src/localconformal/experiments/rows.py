"""What every method of a task is given: the same rows, in three parts.

As in the paper: 60/20/20 training, calibration and test rows, features standardised and the
response divided by its mean absolute value, both as training rows have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localconformal.datasets import Dataset, Simulation, load_dataset
from localconformal.experiments.seeds import seed_of
from localconformal.quantiles import Array

SHARES = (0.6, 0.2)


@dataclass(frozen=True)
class Rows:
    """X (n, d), y (n,), and the group of each row (n,) as text."""

    X: Array
    y: Array
    groups: NDArray[np.str_]


@dataclass(frozen=True)
class Split:
    """Three disjoint parts; ``unit`` is what responses were divided by."""

    train: Rows
    calibration: Rows
    test: Rows
    unit: float


# Tasks of one data set follow each other.
@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    return load_dataset(name, as_in_paper=True)


def real_split(dataset: str, repeat: int, max_rows: int | None) -> Split:
    """The rows of a data set for one repeat; all methods and models get the same."""
    data = _load(dataset)
    order = np.random.default_rng(seed_of("split", dataset, repeat)).permutation(len(data.y))
    order = order[:max_rows]
    label = data.groups.iloc[:, 0].to_numpy() if data.groups.shape[1] else np.zeros(len(data.y))
    X, groups = data.X.to_numpy(dtype=np.float64), label.astype(str)
    cuts = np.round(np.cumsum(SHARES) * len(order)).astype(int)
    first, second, third = np.split(order, cuts)
    return normalise(*(Rows(X[p], data.y[p], groups[p]) for p in (first, second, third)))


def simulated_split(
    simulation: Simulation, repeat: int, sizes: tuple[int, int, int], scale: bool = True
) -> Split:
    """Fresh rows of a simulation: so many to train, to calibrate and to test.

    ``scale=False`` leaves features and responses in the simulation's own units, in which its
    quantiles are known.
    """
    rng = np.random.default_rng(seed_of("draw", simulation.name, repeat))

    def draw(size: int) -> Rows:
        X, y = simulation.sample(size, random_state=rng)
        return Rows(X, y, np.zeros(size).astype(str))

    train, calibration, test = map(draw, sizes)
    return normalise(train, calibration, test) if scale else Split(train, calibration, test, 1.0)


def normalise(train: Rows, calibration: Rows, test: Rows) -> Split:
    """Features to mean 0 and variance 1, responses to mean absolute value 1, on training rows."""
    centre, spread = train.X.mean(axis=0), train.X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    unit = float(np.abs(train.y).mean()) or 1.0

    def scaled(rows: Rows) -> Rows:
        return Rows((rows.X - centre) / spread, rows.y / unit, rows.groups)

    return Split(scaled(train), scaled(calibration), scaled(test), unit)
