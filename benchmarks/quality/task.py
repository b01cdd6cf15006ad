"""One task: a method on a split of a data set. Whatever happens becomes a record."""

import json
import signal
import threading
import time
import traceback
import warnings
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from benchmarks.quality import protocol
from benchmarks.quality.datasets import load
from benchmarks.quality.methods import METHODS, TIME_LIMITS
from benchmarks.quality.objective import measure


class Task(NamedTuple):
    """What a record is about; two records with equal fields are the same figure."""

    version: int
    base: str
    max_rows: int
    dataset: str
    seed: int
    method: str


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


def selection_rows(fitted):
    """What auto compared, as a list of rows; None where there is nothing of the kind."""
    frame = getattr(fitted, "selection_", None)
    if frame is None:
        return None
    # pandas knows how to write its own numbers and missing values as JSON.
    return json.loads(frame.to_json(orient="records", default_handler=str))


def perform(task):
    """Metrics and times of one task, and what auto compared."""
    rows = load(task.dataset, task.seed, task.max_rows)
    split = protocol.split(rows, task.dataset, task.seed, task.max_rows)
    # One seed for all methods of a split: those with the same point model share it.
    seed = protocol.seed_of(task.dataset, task.seed, "method") % 2**31
    start = time.perf_counter()
    fitted = METHODS[task.method](split, task.base, seed)
    middle = time.perf_counter()
    intervals = np.asarray(fitted.predict_interval(split.test.X), dtype=float)
    end = time.perf_counter()
    sizes = {
        "n_train": len(split.train.y),
        "n_calibration": len(split.calibration.y),
        "n_test": len(split.test.y),
        "n_features": split.train.X.shape[1],
    }
    seconds = {"fit_seconds": middle - start, "predict_seconds": end - middle}
    found = {**sizes, **measure(split, intervals, seed), **seconds}
    return found, selection_rows(fitted)


def run(task):
    """The record of a task and the selection of auto; never raises but for the user."""
    limit = TIME_LIMITS.get(task.method)
    try:
        with warnings.catch_warnings(), time_limit(limit):
            warnings.simplefilter("ignore")
            found, selection = perform(task)
        return {**task._asdict(), "status": "done", **found}, selection
    except OutOfTime:
        return unfinished(task, f"more than {limit:.0f} s"), None
    except Exception as error:
        where = traceback.format_exc().strip().splitlines()[-3:]
        text = f"{type(error).__name__}: {error}"[:500]
        failed = {"status": "failed", "error": text, "where": [line.strip() for line in where]}
        return {**task._asdict(), **failed}, None


def unfinished(task, reason):
    return {**task._asdict(), "status": "did not finish", "error": reason}
