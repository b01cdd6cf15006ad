"""The benchmark as an experiment: a case is a data set, a seed and a method.

Rows are all of them or a seeded subsample, cut 60/20/20 into training, calibration and test rows.
Every random choice comes from the names of the data set and the seed, never from loop order, so
any part of the benchmark can be run alone and stays paired with the rest.
"""

import os
import pickle
import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.harness import Arm, Experiment, Output, Split, Task, timed
from benchmarks.quality import THREADS
from benchmarks.quality.datasets import load, take
from benchmarks.quality.methods import METHODS
from benchmarks.quality.objective import measure

#: Raised whenever splits, data sets or metrics change: records of other versions are not reused.
VERSION = 2
SHARES = (0.6, 0.2)


@dataclass(frozen=True)
class Setting:
    """What all records of a store share: the cap of rows, None for all of them, and threads."""

    max_rows: int | None
    threads: int = THREADS
    only_runs: bool = False


def name_of(setting):
    """Of the store of a setting."""
    return f"quality_{setting.max_rows or 'all'}"


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


@cache
def warm(method):
    """Import and compile what a method needs, once for a process, before a clock runs."""
    parts = split(load("sim1", 0, 300), "sim1", 0, 300)
    METHODS[method](parts, 0).predict_interval(parts.test.X)


def figures(task, arm):
    """Sizes, metrics, both times and bytes on disk."""
    parts = task.split
    warm(arm.method)
    fitted, fit = timed(lambda: arm.model(parts, task.seed))
    # A prediction may take milliseconds: the least of three.
    asked = [timed(lambda: fitted.predict_interval(parts.test.X)) for _ in range(3)]
    predict = np.min([seconds for _, seconds in asked], axis=0)
    return {
        "n_train": len(parts.train.y),
        "n_calibration": len(parts.calibration.y),
        "n_test": len(parts.test.y),
        "n_features": parts.train.X.shape[1],
        **measure(parts, np.asarray(asked[0][0], dtype=float), task.seed),
        "fit_seconds": fit[0],
        "fit_processor_seconds": fit[1],
        "predict_seconds": predict[0],
        "predict_processor_seconds": predict[1],
        "pickle_bytes": len(pickle.dumps(fitted.model)),
        # A busy machine distorts even processor time.
        "load_average": os.getloadavg()[0],
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
        lambda task, arm: [figures(task, arm)],
        version=VERSION,
    )
