"""Rows, tables, models and clusters for the tests on Dask."""

import os
import signal
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from localconformal import KernelLaw, SLCPRegressor
from registry import optional

dask, da, dd = optional("dask"), optional("dask.array"), optional("dask.dataframe")
distributed = optional("distributed")

#: Not imported by default, where its doctests would be looked for.
pytestmark = pytest.mark.ci
NAMES = ["a", "b", "c"]


def rows(n, seed):
    """Features whose first decides the noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


def cut(X, y, sizes):
    return da.from_array(X, chunks=(sizes, X.shape[1:])), da.from_array(y, chunks=(sizes,))


def frames(X, y, *, npartitions):
    table = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y), npartitions=npartitions)
    return table[NAMES], table["y"]


class FirstColumn:
    """A fitted model that needs no training: mu(x) is the first feature."""

    def predict(self, X):
        return np.asarray(X)[:, 0].astype(float)


class Quantiles:
    """A fitted model of three quantiles, whose levels it says."""

    quantiles = (0.1, 0.5, 0.9)

    def predict(self, X):
        x = np.asarray(X)[:, :1]
        return x + (0.2 + np.abs(x)) * [-1.3, 0.0, 1.3]


class Deadly(FirstColumn):
    """The same, but its first prediction after `arm` kills a process: its own, or another's."""

    def __init__(self, mark, victim=None):
        self.mark = Path(mark)
        self.victim = victim

    def arm(self):
        self.mark.touch()
        return self

    def predict(self, X):
        try:
            self.mark.unlink()
        except FileNotFoundError:
            return super().predict(X)
        os.kill(self.victim or os.getpid(), signal.SIGKILL)
        time.sleep(1)
        return super().predict(X)


@contextmanager
def workers():
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GB"}
    with (
        distributed.LocalCluster(**options, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


SIZES = (70, 300, 500, 1, 0, 50, 250, 29)
ENDS = np.cumsum((0, *SIZES))
#: Columns that nobody asks for: the fewer are read, the more files Dask joins into one partition,
#: here two for X and y together, three for y alone.
OTHERS = ["d", "e"]
FEATURES, RESPONSE = rows(int(ENDS[-1]), 0)
TABLE = pd.DataFrame(FEATURES, columns=NAMES).assign(y=RESPONSE, **dict.fromkeys(OTHERS, 0.5))


def sides(table):
    return table[NAMES], table["y"]


def write(folder):
    """One Parquet file per partition, of several row groups."""
    for place, part in enumerate(map(part_of, pairwise(ENDS))):
        part.to_parquet(folder / f"{place}.parquet", row_group_size=60, index=False)
    return folder


def part_of(ends):
    return TABLE.iloc[slice(*ends)]


def parquet(folder, **options):
    return sides(dd.read_parquet(write(folder), **options))


SOURCES = {
    "parquet": parquet,
    "row groups": lambda folder: parquet(folder, split_row_groups=True),
    "read twice": lambda folder: (
        dd.read_parquet(write(folder), columns=NAMES),
        dd.read_parquet(folder, columns=["y"])["y"],
    ),
    # Dask joins files in arrays, and differently for X and y, until their lengths are known.
    "arrays of frames": lambda folder: tuple(
        side.values.compute_chunk_sizes() for side in parquet(folder)
    ),
    "from_pandas": lambda folder: sides(dd.from_pandas(TABLE, npartitions=5)),
    "from_map": lambda folder: sides(dd.from_map(part_of, [*pairwise(ENDS)], meta=TABLE[:0])),
    "arrays": lambda folder: cut(FEATURES, RESPONSE, SIZES),
}


def slcp(model=None, law=None, **params):
    model = FirstColumn() if model is None else model
    return SLCPRegressor(model, law=law or KernelLaw(), random_state=0, **params)


def check_fit(X, y):
    model = slcp().fit(X, y)
    bounds = np.asarray(model.predict_interval(X).compute())
    whole = slcp().fit(*cut(FEATURES, RESPONSE, (len(RESPONSE),)))
    np.testing.assert_allclose(bounds, whole.predict_interval(FEATURES), atol=1e-6)
    np.testing.assert_array_equal(bounds, model.predict_interval(X.compute()))
