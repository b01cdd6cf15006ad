"""Fit, calibrate and predict rows that no memory holds: time a million rows, and peak memory.

Rows are made block by block on the workers as they are needed, so that nothing but the work
itself is held. The point model comes fitted; the law is the kernel's, summed over all reference
rows. Each size runs on fresh worker processes, with memory as told. Run it by itself::

    python -m benchmarks.speed dask

``DASK_MILLIONS=1,2`` names other sizes than the default.
"""

import os
import time

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from benchmarks.resources import megabytes
from localconformal import KernelLaw, SLCPRegressor

MILLIONS = (1, 5, 20, 50)
WORKERS, MEMORY = 2, "2GB"
COLUMNS, BLOCK = 10, 250_000


def made_rows(start, count):
    """Rows of these positions: the same whoever makes them."""
    rng = np.random.default_rng([7, start])
    X = rng.normal(size=(count, COLUMNS))
    return X, X[:, 0] + (0.3 + np.abs(X[:, 1])) * rng.normal(size=count)


def lazy_rows(n):
    """X and y as Dask arrays; both sides of a block come from one task."""
    import dask
    import dask.array as da

    X, y = [], []
    for start in range(0, n, BLOCK):
        count = min(BLOCK, n - start)
        both = dask.delayed(made_rows, nout=2)(start, count)
        X.append(da.from_delayed(both[0], (count, COLUMNS), "f8"))
        y.append(da.from_delayed(both[1], (count,), "f8"))
    return da.concatenate(X), da.concatenate(y)


def peak_gigabytes():
    """Most memory of this process so far."""
    return megabytes("VmHWM") / 1024


def time_size(n):
    """The kernel law, summed over all reference rows."""
    slcp = SLCPRegressor(fitted_line(), law=KernelLaw(), random_state=0)
    found = time_on_cluster(slcp, n)
    return {**found, "landmarks": slcp.law_.laws[0].engine_report_.n_landmarks}


def fitted_line():
    """A point model that costs next to nothing, fitted to rows that no size has."""
    X, y = made_rows(10**12, 5_000)
    return FrozenEstimator(LinearRegression().fit(X, y))


def time_on_cluster(conformal, n):
    """Seconds of each stage on n rows, and what workers and this process held at most."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit=MEMORY
        ) as cluster,
        Client(cluster) as client,
    ):
        # Loads and compiles on every worker before the clock runs.
        conformal.fit(*lazy_rows(4 * BLOCK))
        X, y = lazy_rows(n)
        start = time.perf_counter()
        conformal.fit(X, y)
        fitted = time.perf_counter()
        bounds = conformal.predict_interval(X)
        covered = ((bounds[:, 0] <= y) & (y <= bounds[:, 1])).mean().compute()
        end = time.perf_counter()
        peaks = client.run(peak_gigabytes)
    per_million = 1e6 / n
    return {
        "rows": n,
        "fit_seconds": fitted - start,
        "predict_seconds": end - fitted,
        "fit_seconds_per_million": (fitted - start) * per_million,
        "predict_seconds_per_million": (end - fitted) * per_million,
        "fit_stages": {k: float(s) for k, s in conformal.fit_report_["seconds"].items()},
        "covered": float(covered),
        "gigabytes_at_peak_of_workers": sorted(peaks.values()),
        "gigabytes_at_peak_of_client": peak_gigabytes(),
    }


def time_out_of_core():
    """Every size; those of DASK_MILLIONS where it is set."""
    told = os.environ.get("DASK_MILLIONS")
    sizes = MILLIONS if told is None else tuple(float(size) for size in told.split(","))
    return {
        "workers": WORKERS,
        "memory_a_worker": MEMORY,
        "columns": COLUMNS,
        "rows_a_block": BLOCK,
        "sizes": [time_size(int(size * 1e6)) for size in sizes],
    }
