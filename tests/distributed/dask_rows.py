"""Rows, models and clusters for the tests on Dask."""

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd

from distributed import Client, LocalCluster

NAMES = ["a", "b", "c"]


def rows(n, seed):
    """Features whose first decides the noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


def cut(X, y, sizes):
    """The rows as Dask arrays with these chunks."""
    return da.from_array(X, chunks=(sizes, X.shape[1:])), da.from_array(y, chunks=(sizes,))


def frames(X, y, *, npartitions):
    """The rows as a Dask frame and a series."""
    table = dd.from_pandas(pd.DataFrame(X, columns=NAMES).assign(y=y), npartitions=npartitions)
    return table[NAMES], table["y"]


class FirstColumn:
    """A fitted model that needs no training: mu(x) is the first feature."""

    def predict(self, X):
        return np.asarray(X)[:, 0].astype(float)


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
def workers(count=2):
    """A cluster of worker processes."""
    with (
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit="1GB",
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
