"""Whole ``predict_interval`` around one fitted model: this library, its peers, and baselines.

Each is calibrated on n rows and asked for n intervals, for growing n until the next size would
take more than a minute. A peer that is not installed is left out.

`time_baselines` has methods that weigh calibration rows anew for each row, and conditional
conformal peers: the same 2,000 calibration rows and 10,000 test rows for all. The naive way is the
definition, row by row; it and the slow peers get the first rows only, and their seconds stand for
these: ``seconds_for_all`` is in proportion.
"""

import time
import warnings
from functools import cache
from importlib.util import find_spec

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from benchmarks.speed.base import bandwidth, growth_exponent, least_seconds, regression
from localconformal import (
    KernelLaw,
    LCPRegressor,
    LVDRegressor,
    RLCPRegressor,
    SLCPRegressor,
    SplitConformalRegressor,
)
from localconformal.quantiles import weighted_conformal_quantile

SIZES = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
MINUTE = 60.0
TRAINING_ROWS = 20_000


@cache
def model(quantile=None):
    """A fitted point or quantile model."""
    loss = {} if quantile is None else {"loss": "quantile", "quantile": quantile}
    with threadpool_limits(1, "openmp"):
        return HistGradientBoostingRegressor(random_state=0, **loss).fit(
            *regression(TRAINING_ROWS, "train")
        )


def linear_features(X):
    """The basis that conditional guarantees are asked for: an intercept and the features."""
    return np.column_stack([np.ones(len(X)), X])


def slcp(X, y):
    """References and calibration rows: n each."""
    frozen = FrozenEstimator(model())
    reference = regression(len(X), "reference")
    law = KernelLaw(bandwidth="median", random_state=0)
    made = SLCPRegressor(frozen, law=law, calibration_size=None, random_state=0)
    return made.fit(*reference).conformalize(X, y).predict_interval


def split(X, y):
    frozen = FrozenEstimator(model())
    made = SplitConformalRegressor(frozen, calibration_size=None).fit(X[:10], y[:10])
    return made.conformalize(X, y).predict_interval


def mapie_cqr(X, y):
    from mapie.regression import ConformalizedQuantileRegressor

    models = [model(0.05), model(0.95), model(0.5)]
    made = ConformalizedQuantileRegressor(models, confidence_level=0.9, prefit=True)
    return made.conformalize(X, y).predict_interval


def mapie_conditional(X, y):
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor

    made = ConditionalSplitConformalRegressor(linear_features, model(), confidence_level=0.9)
    return made.conformalize(X, y).predict_interval


def crepes_knn(X, y):
    from crepes import WrapRegressor
    from crepes.extras import DifficultyEstimator

    X_reference, y_reference = regression(len(X), "reference")
    residuals = y_reference - model().predict(X_reference)
    difficulty = DifficultyEstimator()
    difficulty.fit(X=X_reference, residuals=residuals, k=25, scaler=True)
    made = WrapRegressor(model())
    made.calibrate(X, y, de=difficulty)
    return lambda Q: made.predict_int(Q, confidence=0.9)


def conditional_conformal(X, y):
    """Its exact mode fails under NumPy 2: the binary search is timed."""
    from conditionalconformal import CondConf

    made = CondConf(lambda X, y: np.abs(y - model().predict(X)), linear_features)
    made.setup_problem(X, y)
    largest = float(np.abs(y - model().predict(X)).max()) * 2

    def predict_interval(Q):
        middle = model().predict(Q)
        cutoffs = [
            made.predict(0.9, Q[i : i + 1], lambda c, x: c, S_min=0.0, S_max=largest, exact=False)
            for i in range(len(Q))
        ]
        return np.column_stack([middle - np.ravel(cutoffs), middle + np.ravel(cutoffs)])

    return predict_interval


#: Name -> (module it needs, calibrated predict_interval from n rows).
PEERS = {
    "localconformal SLCP": ("localconformal", slcp),
    "localconformal split": ("localconformal", split),
    "MAPIE CQR": ("mapie", mapie_cqr),
    "MAPIE conditional": ("mapie.conditional_conformal_prediction", mapie_conditional),
    "crepes kNN": ("crepes", crepes_knn),
    "conditionalconformal": ("conditionalconformal", conditional_conformal),
}


def is_installed(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def time_peer(prepare):
    """Seconds to calibrate and to predict at each size that a minute allows."""
    sizes, growth = [], 2.0
    for n in SIZES:
        if sizes and sizes[-1]["total_seconds"] * (n / sizes[-1]["n"]) ** growth > MINUTE:
            break
        (X, y), (Q, _) = regression(n, "calibration"), regression(n, "query")
        calibrate, predict_interval = least_seconds(lambda a=X, b=y: prepare(a, b), 1)
        ask = lambda rows=Q, p=predict_interval: p(rows)  # noqa: E731
        predict, _ = least_seconds(ask, 1)
        if predict < 2.0:
            predict = min(predict, least_seconds(ask, 2)[0])
        total = calibrate + predict
        sizes.append({"n": n, "calibrate_seconds": calibrate, "predict_seconds": predict})
        sizes[-1]["total_seconds"] = total
        if len(sizes) > 1:
            step = np.log(total / sizes[-2]["total_seconds"]) / np.log(n / sizes[-2]["n"])
            growth = float(np.clip(step, 0.8, 2.5))
    seconds = [one["predict_seconds"] for one in sizes]
    exponent = growth_exponent([one["n"] for one in sizes], seconds)
    within = [one["n"] for one in sizes if one["total_seconds"] <= MINUTE]
    return {"sizes": sizes, "largest_n": max(within), "growth_exponent": exponent}


def time_peers():
    """Every installed peer."""
    results = {}
    for name, (module, prepare) in PEERS.items():
        if is_installed(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                prepare(*regression(200, "calibration"))(regression(50, "query")[0])
                results[name] = time_peer(prepare)
    return results


CALIBRATION, QUERIES, REFERENCES = 2_000, 10_000, 2_000
LEVEL = 0.9
#: Rows that the slow ones are asked about.
NAIVE_LCP_ROWS, NAIVE_ROWS, SLOW_ROWS = 1, 500, 100


def time_ours(kind, calibration, X):
    """Seconds to calibrate and to answer, after a first call that may compile."""
    law = KernelLaw(bandwidth=bandwidth())
    made = kind(FrozenEstimator(model()), law=law, calibration_size=None, random_state=0)
    made.fit(*regression(REFERENCES, "reference")).conformalize(*calibration)
    made.predict_interval(X[:10])
    start = time.perf_counter()
    made.conformalize(*calibration)
    middle = time.perf_counter()
    intervals = made.predict_interval(X)
    end = time.perf_counter()
    return {
        "calibrate_seconds": middle - start,
        "predict_seconds": end - middle,
        "rows": len(X),
        "seconds_for_all": end - start,
        "infinite_share": float(np.isinf(intervals).any(axis=1).mean()),
    }


def kernel(A, B):
    return np.exp(-0.5 * cdist(A, B, "sqeuclidean") / bandwidth() ** 2)


def naive_lcp(held, scores, x):
    """Guan's definition for one row: every candidate score with all local laws anew."""
    points = np.vstack([held, x])
    H = kernel(points, points)
    H /= H.sum(axis=1, keepdims=True)
    n = len(scores)
    largest = -np.inf
    for v in np.append(np.sort(scores), np.inf):
        V = np.append(scores, v)
        ranks = np.array([H[i] @ (V[i] > V) for i in range(n + 1)])
        if np.sum(ranks[:n] < ranks[n]) >= LEVEL * (n + 1):
            break
        largest = v
    return largest


def in_proportion(answer, X, rows):
    """Seconds of the first rows, and those that all would take."""
    seconds, _ = least_seconds(lambda: answer(X[:rows]), 1)
    return {"rows": rows, "seconds": seconds, "seconds_for_all": seconds * len(X) / rows}


def naive_weighted(held, scores, x):
    """The weighted quantile for one row; for the randomised method the centre is drawn."""
    return weighted_conformal_quantile(scores, kernel(x, held)[0], 1.0, LEVEL)


SLOW_PEERS = {"mapie": mapie_conditional, "conditionalconformal": conditional_conformal}


def time_baselines(calibration_rows=CALIBRATION, queries=QUERIES):
    """Every method on the same rows."""
    calibration = regression(calibration_rows, "calibration")
    X, _ = regression(queries, "query")
    scores = np.abs(calibration[1] - model().predict(calibration[0]))
    with warnings.catch_warnings():
        # That some intervals are infinite is counted.
        warnings.simplefilter("ignore", UserWarning)
        found = {
            kind.__name__: time_ours(kind, calibration, X)
            for kind in (LCPRegressor, RLCPRegressor, LVDRegressor)
        }
    naive = {"LCP": (naive_lcp, NAIVE_LCP_ROWS), "weighted quantile": (naive_weighted, NAIVE_ROWS)}
    for name, (one, most) in naive.items():
        answer = lambda Q, one=one: [one(calibration[0], scores, x[None]) for x in Q]  # noqa: E731
        found[f"naive {name}"] = in_proportion(answer, X, min(queries, most))
    for name, peer in SLOW_PEERS.items():
        if find_spec(name) is not None:
            answer = lambda Q, peer=peer: peer(*calibration)(Q)  # noqa: E731
            found[f"{name} (conditional)"] = in_proportion(answer, X, SLOW_ROWS)
    return found
