"""Data sets by name: ``load(name, seed, max_rows)`` gives rows before they are split."""

from functools import lru_cache

from benchmarks.quality.datasets import meps, simulated, tabular
from benchmarks.quality.protocol import seed_of

#: Name -> function without arguments that reads all rows.
REAL = {**tabular.DATASETS, **meps.DATASETS}
SIMULATED = simulated.SIMULATIONS
DATASETS = [*REAL, *SIMULATED]


# The tasks of one data set follow each other: two of them in memory are enough.
@lru_cache(maxsize=2)
def _read(name):
    return REAL[name]()


def load(name, seed, max_rows):
    """All rows of a file, which no seed changes; or fresh rows of a simulation."""
    if name in SIMULATED:
        return simulated.draw(name, max_rows, seed_of(name, seed, "draw"))
    return _read(name)
