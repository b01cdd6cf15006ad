"""Whole estimators and their laws: the forest law beside its forest, and shares.

The forest law against its forest's own ``apply``: two quantiles of each row, leaves included. Both
on the same rows and threads, taking turns; seconds are the least of some rounds, in wall time and
in processor time (which a busy machine distorts less).
"""

import time
from contextlib import contextmanager

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

from benchmarks.speed.base import LEVELS, both_clocks, regression, rows
from localconformal import ForestLaw, KernelLaw, SLCPRegressor

SIZES = [5_000, 20_000, 100_000]
QUERIES, COLUMNS, TREES, LEAF_ROWS, THREADS = 20_000, 20, 100, 10, 2


def time_size(n, rounds=7):
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


#: The whole estimator at a million rows: seconds that are the law's.
spent = {"law_fit": 0.0, "law_query": 0.0}


@contextmanager
def charged(to):
    """Add the time within to an account."""
    start = time.perf_counter()
    yield
    spent[to] += time.perf_counter() - start


class TimedEngine:
    """An engine whose answers are charged to the law."""

    def __init__(self, engine):
        self.engine = engine

    def __getattr__(self, name):
        ask = getattr(self.engine, name)

        def timed(*args):
            with charged("law_query"):
                return ask(*args)

        return timed


class TimedLaw(KernelLaw):
    """The kernel law, with its own time kept apart: embedding, bandwidth, engine and queries."""

    def fit(self, X, v, *, outputs=None):
        with charged("law_fit"):
            super().fit(X, v, outputs=outputs)
        self.engine_ = TimedEngine(self.engine_)
        return self

    def rows(self, X):
        with charged("law_query"):
            return super().rows(X)


def time_whole(n=1_000_000):
    """Seconds of fit and predict_interval on n rows each, and the law's share."""
    (X, y), (Q, _) = regression(n, "train"), regression(n, "query")
    spent.update(law_fit=0.0, law_query=0.0)
    # A compiled engine is loaded before the clock runs: `first_call` times that.
    KernelLaw(engine="sketch").fit(X[:4000], y[:4000]).quantile(X[:10], [0.5])
    model = SLCPRegressor(
        HistGradientBoostingRegressor(random_state=0),
        law=TimedLaw(bandwidth="median", random_state=0),
        random_state=0,
    )
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    model.predict_interval(Q)
    end = time.perf_counter()
    law = model.law_.laws[0]
    return {
        "n": n,
        "fit_seconds": fitted - start,
        "predict_interval_seconds": end - fitted,
        "fit_stages": {k: float(s) for k, s in model.fit_report_["seconds"].items()},
        "law_seconds": dict(spent),
        "law_share": sum(spent.values()) / (end - start),
        "engine": law.engine_report_.engine,
    }
