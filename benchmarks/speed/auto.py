"""What law="auto" costs: the search at fit, and a prediction, beside the quick choice."""

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from localconformal import SLCPRegressor

SIZES = ((1_000, 5), (10_000, 20), (100_000, 20))
N_QUERIES = 10_000


def rows(n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    y = np.sin(6 * X[:, 0]) + X[:, 1] + (0.2 + X[:, 2]) * rng.normal(size=n)
    return X, y


def time_law(law, n, d):
    X, y = rows(n, d, seed=0)
    queries, _ = rows(N_QUERIES, d, seed=1)
    model = SLCPRegressor(HistGradientBoostingRegressor(), law=law, random_state=0)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    model.predict_interval(queries)
    asked = time.perf_counter()
    return {
        "fit_seconds": fitted - start,
        "law_seconds": model.fit_report_["seconds"]["law"],
        "rows_searched": model.fit_report_["rows"].get("selection"),
        "predict_microseconds_a_row": 1e6 * (asked - fitted) / N_QUERIES,
    }


def time_auto():
    time_law("forest", *SIZES[0])  # loads and compiles what is needed
    return {
        f"{n} x {d}": {law: time_law(law, n, d) for law in ("auto", "forest", "uniform")}
        for n, d in SIZES
    }
