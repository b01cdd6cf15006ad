"""Engines by size, and against fixed bars: the naive way, bare exp, a point model's predictions."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from benchmarks.speed.base import (
    LEVELS,
    METHODS,
    Law,
    bandwidth,
    growth_exponent,
    least_seconds,
    rank_errors,
    regression,
    rows,
)
from localconformal.engine.exact import ExactEngine

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
        answer = METHODS[name]().fit(X, v).query(Q)
        errors = rank_errors(answer, LEVELS, exact.engine_, exact.rows(Q))
        worst = float(sorted(errors.ravel())[int(0.99 * errors.size)])
        mean, most = float(errors.mean()), float(errors.max())
        results[name] = {"mean": mean, "percentile_99": worst, "max": most}
    return results


THREADS = 2
#: Elements of an array that stays in a core's cache (the harder bar), and of one that does not.
PIECES = {"bare_exp_in_cache": 2**16, "bare_exp_streamed": 2**22}


def bare_exp(elements, piece_size):
    """NumPy's float32 exp over so many elements, on two threads."""
    piece = -10 * np.random.default_rng(0).random(piece_size, dtype=np.float32)

    def work(_):
        out = np.empty_like(piece)
        for _ in range(round(elements / THREADS / len(piece))):
            np.exp(piece, out=out)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def exact_against_exp_and_naive(n=20_000, m=10_000, rounds=7):
    """Nanoseconds a pair, at d = 10; exact and bare exp take turns, to share the machine's mood."""
    (X, v), (Q, _) = rows(n, "reference"), rows(m, "query")
    order = np.argsort(v, kind="stable")
    engine = ExactEngine(v[order], X[order], "gaussian", bandwidth(), 20.0)
    below = np.zeros(len(LEVELS), dtype=bool)
    engine.quantiles(Q[:10], LEVELS, below)
    seconds = dict.fromkeys(("exact", *PIECES), np.inf)
    for _ in range(rounds):
        work = {"exact": lambda: engine.quantiles(Q, LEVELS, below)}
        work |= {name: lambda size=size: bare_exp(n * m, size) for name, size in PIECES.items()}
        for name, run in work.items():
            seconds[name] = min(seconds[name], least_seconds(run, 1)[0])
    naive = METHODS["naive"]().fit(X, v)
    slow, _ = least_seconds(lambda: naive.query(Q[:1000]), 3)
    per_pair = {name: 1e9 * least / n / m for name, least in seconds.items()}
    per_pair["naive"] = 1e9 * slow / n / 1000
    return {
        "n": n,
        "nanoseconds_per_pair": per_pair,
        "exact_over": {name: per_pair["exact"] / per_pair[name] for name in PIECES},
        "naive_over_exact": per_pair["naive"] / per_pair["exact"],
    }


def point_model():
    """Gradient boosting with 100 trees, trained on a part of the rows."""
    model = HistGradientBoostingRegressor(max_iter=100, early_stopping=False, random_state=0)
    # Training is not timed; two OpenMP threads crawl where another process is at work.
    with threadpool_limits(1, "openmp"):
        return model.fit(*regression(100_000, "train"))


def predict_seconds(model, Q):
    """On two threads as found; and half the time of one thread, which no other load inflates."""
    found, _ = least_seconds(lambda: model.predict(Q), 1)
    with threadpool_limits(1, "openmp"):
        alone, _ = least_seconds(lambda: model.predict(Q), 1)
    return {"two_threads": found, "half_of_one_thread": alone / 2}


def sketch_against_point_model(n=1_000_000, rounds=4):
    """Seconds of fit plus query of the law at n by n, and of one prediction of n rows."""
    (X, v), (Q, _) = rows(n, "reference"), rows(n, "query")
    model = point_model()
    Law("sketch", 0).fit(X[:20_000], v[:20_000]).query(Q[:100])
    fits, queries, predicts = [], [], []
    for _ in range(rounds):
        fit, method = least_seconds(lambda: Law("auto", 0).fit(X, v), 1)
        fits.append(fit)
        queries.append(least_seconds(lambda law=method: law.query(Q), 1)[0])
        predicts.append(predict_seconds(model, Q))
    predict = {key: min(one[key] for one in predicts) for key in predicts[0]}
    report = method.law.engine_report_
    return {
        "n": n,
        "engine": report.engine,
        "n_landmarks": report.n_landmarks,
        "certified_error": report.certified_error,
        "fit_seconds": min(fits),
        "query_seconds": min(queries),
        "predict_seconds": predict,
        "ratio": {k: (min(fits) + min(queries)) / seconds for k, seconds in predict.items()},
        "rank_error": error_at_scale(method, X, v),
    }


def error_at_scale(method, X, v, m=100):
    """Rank errors of the sketch against the exact law of all the references."""
    Q, _ = rows(m, "fresh")
    exact = Law("exact", 0).fit(X, v).law
    errors = rank_errors(method.query(Q), LEVELS, exact.engine_, exact.rows(Q))
    return {"mean": float(errors.mean()), "max": float(errors.max()), "queries": m}
