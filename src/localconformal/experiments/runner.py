"""Run the tasks of an experiment that have no record yet, and report on all of them."""

from __future__ import annotations

import json
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from localconformal.experiments.experiment import CANNOT, Case, Experiment, Line, Output, Row
from localconformal.experiments.presets import Preset
from localconformal.experiments.registry import load_experiment
from localconformal.experiments.store import Store

#: Seconds between two looks at whether the run that a worker belongs to still lives.
LOOK_EVERY = 1.0


class Progress:
    """Told how a run goes on; the methods of this one do nothing."""

    def start(self, experiment: str, waiting: int, total: int) -> None:
        """So many of all tasks have no record yet."""

    def done(self, case: Case, error: str | None) -> None:
        """A task is in the store; or it, or some of its methods, failed."""

    def say(self, sentence: str) -> None:
        """Something that the user should know."""


def run_experiment(
    name: str, preset: Preset, folder: Path, n_jobs: int = 1, progress: Progress | None = None
) -> Output:
    """Run what is missing of an experiment and report.

    Parameters
    ----------
    name : str
    preset : Preset
    folder : Path
        Holds the store, ``<name>.jsonl``; a run that was killed goes on from it.
    n_jobs : int, default=1
        Tasks at a time, in joblib's backend: ``joblib.parallel_config("dask")`` around the call
        runs them on a cluster.
    progress : Progress, default=None

    Returns
    -------
    Output
    """
    experiment, told = load_experiment(name), progress or Progress()
    about = {"experiment": name, "version": experiment.version, "preset": asdict(preset)}
    store = Store(folder / f"{name}.jsonl", about, told.say)
    cases = experiment.cases(preset)
    known = finished(store.records)
    waiting = [case for case in cases if key(case) not in known]
    told.start(name, len(waiting), len(cases))
    for record in execute(name, waiting, preset, n_jobs):
        # A task that failed runs again next time: the cause may have been mended.
        if record["error"] is None:
            store.append(record)
        problem = record["error"] or failed_methods(record["rows"])
        if problem is not None:
            told.say(f"{name} {describe(record['case'])} failed: {problem}")
        told.done(record["case"], problem)
    return report(experiment, cases, store.records, preset)


def failed_methods(rows: list[Row]) -> str | None:
    """Which methods of a finished task failed, and why; None where none did.

    Examples
    --------
    >>> failed_methods([{"method": "LVD", "failed": "ValueError: few rows"}, {"method": "SLCP"}])
    'LVD: ValueError: few rows'
    """
    return "; ".join(f"{row['method']}: {row['failed']}" for row in rows if "failed" in row) or None


def report(
    experiment: Experiment, cases: list[Case], records: list[dict[str, Any]], preset: Preset
) -> Output:
    """The output of the finished tasks among these cases, in the order of the cases."""
    known = finished(records)
    rows = [
        {**case, **row} for case in cases if key(case) in known for row in known[key(case)]["rows"]
    ]
    output = experiment.report(rows, preset)
    missing = sum(key(case) not in known for case in cases)
    notes = [f"{missing} of {len(cases)} tasks did not finish, and are left out."]
    lines = [withheld(line) for line in output.lines] if preset.only_runs else output.lines
    return replace(output, lines=lines, notes=[*output.notes, *(notes if missing else [])])


def withheld(line: Line) -> Line:
    """The line without a verdict: a run this small has none to give."""
    reason = line.reason if line.verdict == CANNOT else "this preset only checks that all runs"
    return replace(line, verdict=CANNOT, reason=reason)


def key(case: Case) -> str:
    """The case as text: equal cases have equal keys."""
    return json.dumps(case, sort_keys=True)


def describe(case: Case) -> str:
    """The case in few words."""
    return " ".join(str(value) for value in case.values())


def finished(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Key of a case -> its newest record."""
    return {key(record["case"]): record for record in records}


def execute(
    name: str, cases: Iterable[Case], preset: Preset, n_jobs: int
) -> Iterator[dict[str, Any]]:
    """Records of the cases, in the order in which they end."""
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
    yield from pool(delayed(perform)(name, case, preset, os.getpid()) for case in cases)


def perform(name: str, case: Case, preset: Preset, caller: int) -> dict[str, Any]:
    """One task. Whatever happens becomes a record."""
    follow(caller)
    start = time.perf_counter()
    rows: list[Row] = []
    error = None
    try:
        # A task keeps to its process: what it does in parallel must not go back to a cluster.
        with warnings.catch_warnings(), parallel_config("threading"):
            warnings.simplefilter("ignore")
            rows = [plain_row(row) for row in load_experiment(name).run(case, preset)]
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    return {"case": case, "rows": rows, "seconds": time.perf_counter() - start, "error": error}


def plain_row(row: Row) -> Row:
    """Numbers as JSON has them: no NumPy types, None for NaN and infinities."""
    return {name: plain(value) for name, value in row.items()}


def plain(value: Any) -> Any:
    """A number, text, None or list of them as JSON has it."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


_followed: set[int] = set()


def follow(caller: int, leave: Callable[[int], Any] = os._exit) -> None:
    """End this process when the one that started it for the run is gone.

    A run that is killed cannot stop its workers, which would go on and then wait.
    """
    if os.getppid() != caller or caller in _followed:
        return
    _followed.add(caller)

    def watch() -> None:
        while os.getppid() == caller:
            time.sleep(LOOK_EVERY)
        leave(1)

    threading.Thread(target=watch, daemon=True).start()
