"""Engines by size: seconds to fit and to query, growth, rank errors against the exact law."""

import numpy as np

from benchmarks.speed.data import LEVELS, rows
from benchmarks.speed.methods import METHODS, Law
from benchmarks.speed.objective import growth_exponent, least_seconds, rank_errors

SIZES = [1_000, 10_000, 100_000, 1_000_000]
APPROXIMATE = ["minibatch 30 %", "minibatch 10 %", "sketch"]


def time_method(name, n):
    """Seconds of fit and of n queries on n references."""
    X, v = rows(n, "reference")
    method = METHODS[name]()
    m = int(min(n, max(method.pairs / n, 20)))
    Q, _ = rows(m, "query")
    method.fit(X[:1000], v[:1000]).query(Q[:10])
    fit, method = least_seconds(lambda: METHODS[name]().fit(X, v), 3)
    query, _ = least_seconds(lambda: method.query(Q), 3)
    return {
        "n": n,
        "queries_timed": m,
        "fit_seconds": fit,
        "microseconds_per_query": 1e6 * query / m,
        "seconds_for_n_queries": query * n / m,
        "nanoseconds_per_pair": 1e9 * query / m / n,
    }


def time_methods(sizes=SIZES):
    """All methods at all sizes, and the growth exponent of the cost of n queries."""
    results = {}
    for name in METHODS:
        by_size = [time_method(name, n) for n in sizes]
        seconds = [one["seconds_for_n_queries"] for one in by_size]
        results[name] = {"sizes": by_size, "growth_exponent": growth_exponent(sizes, seconds)}
    return results


def time_flatness(sizes=(10_000, 100_000, 1_000_000), m=1_000_000):
    """Microseconds of each of the same m queries to sketches of more and more references."""
    Q, _ = rows(m, "query")
    laws = {n: METHODS["sketch"]().fit(*rows(n, "reference")) for n in sizes}
    cost = dict.fromkeys(sizes, np.inf)
    for _ in range(3):
        for n, law in laws.items():
            cost[n] = min(cost[n], 1e6 * least_seconds(lambda law=law: law.query(Q), 1)[0] / m)
    return {
        "microseconds_per_query": cost,
        "n_landmarks": {n: law.law.engine_report_.n_landmarks for n, law in laws.items()},
        "most_over_least": max(cost.values()) / min(cost.values()),
    }


def measure_errors(n=100_000, m=400):
    """Mean, 99th percentile and maximum of the rank errors at m fresh rows."""
    X, v = rows(n, "reference")
    Q, _ = rows(m, "fresh")
    exact = Law("exact", 0).fit(X, v).law
    results = {"n": n, "queries": m}
    for name in APPROXIMATE:
        errors = rank_errors(
            METHODS[name]().fit(X, v).query(Q), LEVELS, exact.engine_, exact.rows(Q)
        )
        worst = sorted(errors.ravel())[int(0.99 * errors.size)]
        results[name] = {
            "mean": float(errors.mean()),
            "percentile_99": float(worst),
            "max": float(errors.max()),
        }
    return results
