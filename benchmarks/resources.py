"""Memory of predictions by the number of rows, and what a thousand fits leave behind.

``python -m benchmarks.resources`` writes benchmarks/results/resources.json. Every measurement has
a process of its own, started with one thread, and reads what Linux says of it: the peak of a
prediction is counted from the memory in use just before. ``cycles`` fit and predict a small model
again and again; growth is that after the first hundred, when caches are filled.
"""

import argparse
import gc
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression

from benchmarks.harness import describe_machine
from localconformal import KernelLaw, SLCPRegressor
from localconformal.laws import ForestLaw, LearnedLaw, NeighborsLaw, StackedLaw
from localconformal.rows import ROWS_AT_A_TIME

RESULTS = Path(__file__).parent / "results" / "resources.json"
COLUMNS = 5
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
#: Laws with their training rows; the engine that answers is told in the results.
LAWS = {
    "sketch": (KernelLaw(engine="sketch"), 30_000),
    "plain": (KernelLaw(), 2_000),
    "exact": (KernelLaw(engine="exact"), 20_000),
    "neighbors": (NeighborsLaw(), 20_000),
    "forest": (ForestLaw(), 6_000),
    "learned": (LearnedLaw(), 4_000),
    "stack": (StackedLaw(["learned", KernelLaw(embedding="outputs-spread"), "forest"]), 2_000),
}
#: What is measured: (law, query rows).
SIZES = [(law, n) for law in LAWS for n in (100_000, 1_000_000)] + [("stack", 20_000)]
CYCLES = {"kernel": KernelLaw(bandwidth=1.0), "forest": ForestLaw(n_jobs=1)}
FILLED = 100


def rows(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS))
    return X, X[:, 0] + (0.3 + np.abs(X[:, 1])) * rng.normal(size=n)


def megabytes(name):
    """A line of what Linux says of this process: VmRSS now, VmHWM at most."""
    return int(re.search(rf"{name}:\s*(\d+)", STATUS.read_text())[1]) / 1024


def predict(name, n):
    law, n_train = LAWS[name]
    model = SLCPRegressor(LinearRegression(), law=law, random_state=0, n_jobs=1)
    model.fit(*rows(n_train, seed=0))
    X = rows(n, seed=1)[0]
    # Compiled, loaded and warm.
    model.predict_interval(X[:1_000])
    gc.collect()
    # VmHWM counts anew from here.
    CLEAR.write_text("5")
    before, start = megabytes("VmRSS"), time.process_time()
    bounds = model.predict_interval(X)
    seconds = time.process_time() - start
    peak = megabytes("VmHWM") - before
    return {
        "law": name,
        "engine": type(model.law_.laws[0].engine_).__name__,
        "training_rows": n_train,
        "rows": n,
        "processor_seconds": round(seconds, 2),
        "megabytes_at_peak": round(peak, 1),
        "megabytes_of_the_rows_asked": round(X.nbytes / 2**20, 1),
        "megabytes_of_the_answer": round(bounds.nbytes / 2**20, 1),
    }


def cycle(name, count):
    X, y = rows(120, seed=0)
    found = {}
    start = time.process_time()
    for done in range(1, count + 1):
        SLCPRegressor(LinearRegression(), law=CYCLES[name], reference="train", random_state=0).fit(
            X, y
        ).predict_interval(X)
        if done in (FILLED, count):
            gc.collect()
            found[done] = megabytes("VmRSS")
    return {
        "law": name,
        "cycles": count,
        "processor_seconds": round(time.process_time() - start, 1),
        "megabytes_after_the_first_hundred": round(found[FILLED], 2),
        "megabytes_of_growth_since": round(found[count] - found[FILLED], 2),
    }


def in_fresh_process(what, name, number):
    """One measurement; what other ones left in the process would count."""
    code = f"import json; from benchmarks.resources import {what}; "
    code += f"print(json.dumps({what}({name!r}, {number})))"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    made = json.loads(done.stdout)
    print(made, flush=True)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="leave out larger queries")
    parser.add_argument("--cycles", type=int, default=1_000, help="fits, more than a hundred")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    found = {
        "command": "python -m benchmarks.resources",
        "rows_at_a_time": ROWS_AT_A_TIME,
        "predictions": [
            in_fresh_process("predict", *size) for size in SIZES if size[1] <= args.most
        ],
        "cycles": [in_fresh_process("cycle", name, args.cycles) for name in CYCLES],
        "processor_seconds": round(os.times().children_user + os.times().children_system, 1),
        "machine": describe_machine(),
    }
    args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
