"""The forest law against its forest's own ``apply``: two quantiles of each row, leaves included.

Both on the same rows and threads, taking turns; seconds are the least of some rounds, in wall
time and in processor time (which a busy machine distorts less).
"""

import time

import numpy as np
from sklearn.ensemble import RandomForestRegressor

from benchmarks.speed.data import LEVELS, rows
from localconformal.laws.forest import ForestLaw

SIZES = [5_000, 20_000, 100_000]
QUERIES, COLUMNS, TREES, LEAF_ROWS, THREADS = 20_000, 20, 100, 10, 2


def both_clocks(work):
    """Wall and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - wall, time.process_time() - processor])


def time_size(n, rounds):
    """One number of reference rows; every tree is grown on all of them."""
    (X, v), (Q, _) = rows(n, "reference", COLUMNS), rows(QUERIES, "query", COLUMNS)
    forest = RandomForestRegressor(
        TREES, min_samples_leaf=LEAF_ROWS, max_features=1 / 3, n_jobs=THREADS
    )
    law = ForestLaw(forest, target="size", random_state=0, n_jobs=THREADS)
    fit = both_clocks(lambda: law.fit(X, v))
    law.quantile(Q[:10], LEVELS)
    apply, quantile = np.full(2, np.inf), np.full(2, np.inf)
    for _ in range(rounds):
        apply = np.minimum(apply, both_clocks(lambda: law.model_.apply(Q)))
        quantile = np.minimum(quantile, both_clocks(lambda: law.quantile(Q, LEVELS)))
    default = both_clocks(lambda: ForestLaw(random_state=0, n_jobs=THREADS).fit(X, v))
    return {
        "n": n,
        "apply_seconds": float(apply[0]),
        "quantile_seconds": float(quantile[0]),
        "quantile_over_apply": float(quantile[0] / apply[0]),
        "quantile_over_apply_processor_time": float(quantile[1] / apply[1]),
        "fit_seconds": float(fit[0]),
        "default_fit_seconds": float(default[0]),
    }


def time_forest(sizes=SIZES, rounds=7):
    """Every size."""
    return [time_size(n, rounds) for n in sizes]
