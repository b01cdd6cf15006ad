"""Methods that weigh calibration rows anew for each row, and conditional conformal peers.

The same 2,000 calibration rows and 10,000 test rows for all, around one fitted model. The naive
way is the definition, row by row; it and the slow peers get the first rows only, and their
seconds stand for these: ``seconds_for_all`` is in proportion.
"""

import time
import warnings
from importlib.util import find_spec

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.frozen import FrozenEstimator

from benchmarks.speed.data import bandwidth, regression
from benchmarks.speed.peers import linear_features, model
from localconformal import KernelLaw, LCPRegressor, LVDRegressor, RLCPRegressor
from localconformal.quantiles import weighted_conformal_quantile

CALIBRATION, QUERIES, REFERENCES = 2_000, 10_000, 2_000
LEVEL = 0.9
#: Rows that the slow ones are asked about.
NAIVE_LCP_ROWS, NAIVE_ROWS, SLOW_ROWS = 1, 500, 100


def law():
    return KernelLaw(bandwidth=bandwidth(), engine="reference")


def ours(kind):
    """Fitted around the model on reference rows, not yet calibrated."""
    made = kind(FrozenEstimator(model()), law=law(), calibration_size=None, random_state=0)
    return made.fit(*regression(REFERENCES, "reference"))


def time_ours(kind, calibration, X):
    """Seconds to calibrate and to answer, after a first call that may compile."""
    made = ours(kind).conformalize(*calibration)
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


def time_naive(one_row, held, scores, X, rows):
    start = time.perf_counter()
    for x in X[:rows]:
        one_row(held, scores, x[None])
    seconds = time.perf_counter() - start
    return {"rows": rows, "seconds": seconds, "seconds_for_all": seconds * len(X) / rows}


def naive_weighted(held, scores, x):
    """The weighted quantile for one row; for the randomised method the centre is drawn."""
    return weighted_conformal_quantile(scores, kernel(x, held)[0], 1.0, LEVEL)


def mapie_conditional(calibration, X):
    from mapie.conditional_conformal_prediction import ConditionalSplitConformalRegressor

    made = ConditionalSplitConformalRegressor(linear_features, model(), confidence_level=LEVEL)
    made.conformalize(*calibration)
    made.predict_interval(X)


def conditionalconformal(calibration, X):
    from conditionalconformal import CondConf

    fitted = model()
    made = CondConf(lambda rows, y: np.abs(y - fitted.predict(rows)), linear_features, seed=0)
    made.setup_problem(*calibration)
    for x in X:
        made.predict(LEVEL, x[None], lambda cut, _: cut, exact=False)


PEERS = {"mapie": mapie_conditional, "conditionalconformal": conditionalconformal}


def time_peer(name, calibration, X):
    rows = SLOW_ROWS
    start = time.perf_counter()
    PEERS[name](calibration, X[:rows])
    seconds = time.perf_counter() - start
    return {"rows": rows, "seconds": seconds, "seconds_for_all": seconds * len(X) / rows}


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
    naive = calibration[0], scores, X
    found["naive LCP"] = time_naive(naive_lcp, *naive, min(queries, NAIVE_LCP_ROWS))
    found["naive weighted quantile"] = time_naive(naive_weighted, *naive, min(queries, NAIVE_ROWS))
    for name in PEERS:
        if find_spec(name) is not None:
            found[f"{name} (conditional)"] = time_peer(name, calibration, X)
    return found
