"""The whole estimator at a million rows: what share of it is the law's."""

import time
from contextlib import contextmanager

from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.speed.data import regression
from localconformal import KernelLaw, SLCPRegressor

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
