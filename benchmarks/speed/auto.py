"""``SLCPRegressor()`` as users meet it, from a thousand rows to a million, beside MAPIE's CQR.

Every measurement has a process of its own with two threads: seconds to fit on n rows and to answer
n others, one row alone, the peak of the whole process, and the size of the pickle. The peer is left
out where its next size would take more than two minutes.
"""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.harness import timed
from benchmarks.resources import megabytes
from benchmarks.speed.base import regression
from localconformal import SLCPRegressor

SIZES = [1_000, 10_000, 30_000, 100_000, 1_000_000]
#: Share of the rows that MAPIE calibrates on: as many as the library does.
CALIBRATION = 0.25
MOST_SECONDS = 120.0
WARM_ROWS, ALONE = 500, 50


def ours(X, y):
    model = SLCPRegressor(random_state=0, n_jobs=2).fit(X, y)
    return model, model.predict_interval


def mapie_cqr(X, y):
    from mapie.regression import ConformalizedQuantileRegressor

    cut = round(len(y) * (1 - CALIBRATION))
    model = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
    made = ConformalizedQuantileRegressor(model, confidence_level=0.9)
    made.fit(X[:cut], y[:cut]).conformalize(X[cut:], y[cut:])
    return made, lambda Q: made.predict_interval(Q)[1][:, :, 0]


METHODS = {"localconformal": ours, "MAPIE CQR": mapie_cqr}


def measure(make, n):
    """All figures of one size; a small fit before loads and compiles what is needed."""
    X, y = regression(n, "train")
    Q, _ = regression(n, "query")
    make(X[:WARM_ROWS], y[:WARM_ROWS])[1](Q[:WARM_ROWS])
    (model, predict_interval), fit = timed(lambda: make(X, y))
    _, predict = timed(lambda: predict_interval(Q))
    one = [timed(lambda row=row: predict_interval(row[None]))[1][0] for row in Q[:ALONE]]
    return {
        "n": n,
        "fit_seconds": fit[0],
        "fit_processor_seconds": fit[1],
        "predict_seconds": predict[0],
        "predict_processor_seconds": predict[1],
        "one_row_milliseconds": 1e3 * float(np.median(one)),
        "gigabytes_at_peak": megabytes("VmHWM") / 1024,
        "pickle_megabytes": len(pickle.dumps(model)) / 2**20,
    }


def in_fresh_process(name, n, module=__name__):
    """The figures of a method of this module, or of another one that has METHODS."""
    code = f"import json; from benchmarks.speed.auto import measure; from {module} import METHODS; "
    code += f"print(json.dumps(measure(METHODS[{name!r}], {n})))"
    # Threads that wait actively make boosting many times slower where anything else runs.
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def time_auto(sizes=SIZES):
    """Method -> figures of each size."""
    found = {name: [] for name in METHODS}
    for n in sizes:
        for name, rows in found.items():
            last = rows[-1] if rows else {"n": n, "fit_seconds": 0.0, "predict_seconds": 0.0}
            expected = (last["fit_seconds"] + last["predict_seconds"]) * n / last["n"]
            # The library's own figures are wanted whatever they cost.
            if name == "localconformal" or expected < MOST_SECONDS:
                rows.append(in_fresh_process(name, n))
                print(name, json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return found
