"""The benchmark as an experiment: a case is a data set, a seed and a method.

Rows are capped by a seeded subsample and cut 60/20/20 into training, calibration and test rows.
Every random choice comes from the names of the data set and the seed, never from loop order, so
any part of the benchmark can be run alone and stays paired with the rest.
"""

import signal
import threading
import time
import zlib
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from benchmarks.harness import Arm, Experiment, Output, Split, Task
from benchmarks.quality.datasets import load, take
from benchmarks.quality.methods import METHODS, TIME_LIMITS
from benchmarks.quality.objective import measure

#: Raised whenever splits, data sets or metrics change: records of other versions are not reused.
VERSION = 1
SHARES = (0.6, 0.2)
#: How the reason begins where a method was stopped.
UNFINISHED = "did not finish"


@dataclass(frozen=True)
class Setting:
    """What all records of a store share."""

    base: str
    max_rows: int
    only_runs: bool = False


def name_of(setting):
    """Of the store of a setting."""
    return f"quality_{setting.base}_{setting.max_rows}"


def seed_of(dataset, seed, purpose=""):
    """A 32-bit seed from names."""
    return zlib.crc32(f"{dataset}/{seed}/{purpose}".encode())


def split(rows, dataset, seed, max_rows):
    """At most ``max_rows`` rows, shuffled, 60/20/20."""
    order = np.random.default_rng(seed_of(dataset, seed, "split")).permutation(len(rows.y))
    order = order[:max_rows]
    cuts = np.round(np.cumsum(SHARES) * len(order)).astype(int)
    return Split(*(take(rows, part) for part in np.split(order, cuts)))


def task(case, setting):
    """One seed for all methods of a split: those with the same point model share it."""
    dataset, seed = case["dataset"], case["seed"]
    rows = load(dataset, seed_of(dataset, seed, "draw"), setting.max_rows)
    parts = split(rows, dataset, seed, setting.max_rows)
    return Task(case, setting, parts, None, seed_of(dataset, seed, "method") % 2**31, None)


class OutOfTime(BaseException):
    """No Exception, so that no package takes it for a failure of its own and goes on."""


@contextmanager
def time_limit(seconds):
    """Raise OutOfTime beyond so many seconds of the processor, busy or not; None: no limit."""

    def stop(number, frame):
        raise OutOfTime

    # A worker of a cluster runs tasks beside its main thread, the only one that has signals.
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def attempt(task, arm):
    """Metrics and times of a method; one that runs out of time has a row that says so."""
    limit = TIME_LIMITS.get(arm.method)
    try:
        with time_limit(limit):
            return [figures(task, arm)]
    except OutOfTime:
        return [{"method": arm.method, "failed": f"{UNFINISHED}: more than {limit:.0f} s"}]


def figures(task, arm):
    """Sizes, metrics and times."""
    parts = task.split
    start = time.perf_counter()
    fitted = arm.model(parts, task.preset.base, task.seed)
    middle = time.perf_counter()
    intervals = np.asarray(fitted.predict_interval(parts.test.X), dtype=float)
    end = time.perf_counter()
    return {
        "n_train": len(parts.train.y),
        "n_calibration": len(parts.calibration.y),
        "n_test": len(parts.test.y),
        "n_features": parts.train.X.shape[1],
        **measure(parts, intervals, task.seed),
        "fit_seconds": middle - start,
        "predict_seconds": end - middle,
    }


def quality(datasets=(), methods=(), seeds=0):
    """The experiment; the seed changes last, so that a killed run leaves a balanced table."""
    return Experiment(
        "Quality of the intervals",
        lambda setting: [
            {"dataset": dataset, "seed": seed, "method": method}
            for seed in range(seeds)
            for dataset in datasets
            for method in methods
        ],
        task,
        lambda task: [Arm(task.case["method"], METHODS[task.case["method"]])],
        lambda rows, setting: Output([]),
        attempt,
        version=VERSION,
    )
