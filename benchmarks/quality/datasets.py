"""Data sets by name: ``load(name, draw_seed, max_rows)`` gives rows before they are split.

Public tables are those of `paper.data`, prepared as the code of CQR and SLCP prepares them. Groups
are those by which coverage is reported: a column with a meaning where there is one, else quintiles
of the first principal component of the features. The meps sets are stand-ins, of other years or
filters than those of CQR and SLCP: their figures must not be compared with those printed there.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from localconformal.datasets import gaussian, load_simulation, uniform_features
from paper.data import load_dataset


@dataclass(frozen=True)
class Rows:
    """A data set: X (n, d), y (n,), groups (n,); the simulation behind it where there is one."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    simulation: object = None


def take(rows, index):
    return Rows(rows.X[index], rows.y[index], rows.groups[index], rows.simulation)


def quintiles(v):
    """Five groups of equal size by v (n,), fewer where v has ties."""
    edges = np.quantile(v, [0.2, 0.4, 0.6, 0.8])
    return np.searchsorted(edges, v, side="right")


def first_component(X):
    """Scores (n,) of the first principal component of the standardised features."""
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    _, vectors = np.linalg.eigh(Z.T @ Z)
    return Z @ vectors[:, -1]


#: Name here -> name in `paper.data`.
REAL = {
    **{name: name for name in ("bike", "bio", "star", "concrete", "community", "blog_data")},
    **{name: name for name in ("facebook_1", "yacht", "energy", "kin8nm")},
    "meps_19_standin": "meps_2015_util_19",
    "meps_21_standin": "meps_2017_util_21",
}


# The tasks of one data set follow each other: two of them in memory are enough.
@lru_cache(maxsize=2)
def read(name):
    """All rows of a table; that of facebook_1 with the row that the papers' code loses."""
    data = load_dataset(REAL[name], as_in_paper=name != "facebook_1")
    X = data.X.to_numpy(dtype=float)
    known = data.groups.shape[1] > 0
    groups = data.groups.iloc[:, 0].to_numpy() if known else quintiles(first_component(X))
    return Rows(X, data.y, groups)


#: Rows of a simulation where nothing caps them.
LARGEST = 50_000

#: The scale depends on the first two features, the mean on the next two; 46 are noise. The mean
#: is simple and the scale never small, so that the scale is what intervals get wrong: boosting's
#: mean with the true scale has a fifth of split's gap here, but 0.7 of it with a scale down to 0.1
#: and a wavy mean, where the error of the mean hides that of the scale.
two_of_fifty = gaussian(
    "two_of_fifty",
    uniform_features(0.0, 1.0, d=50),
    mean=lambda X: X[:, 2] + X[:, 3],
    deviation=lambda X: 0.5 + 2.0 * X[:, 0] * X[:, 1],
)

SIMULATIONS = {
    "sim1": load_simulation("sim1"),
    "sim2": load_simulation("sim2"),
    "two_of_fifty": two_of_fifty,
}


DATASETS = [*REAL, *SIMULATIONS]
#: What is run on all rows: the smaller files are whole under a cap already.
SMALL = {"concrete", "community", "yacht", "energy"}
LARGE_DATASETS = [name for name in DATASETS if name not in SMALL]


def load(name, draw_seed, max_rows=None):
    """All rows of a file, which no seed changes; or fresh rows of a simulation, capped.

    Groups of the latter are quintiles of the first feature, on which the scale depends.
    """
    if name not in SIMULATIONS:
        return read(name)
    X, y = SIMULATIONS[name].sample(min(LARGEST, max_rows or LARGEST), random_state=draw_seed)
    return Rows(X, y, quintiles(X[:, 0]), SIMULATIONS[name])
