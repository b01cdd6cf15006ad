"""An experiment of quick tasks whose rows depend on names alone; it logs each run of a task."""

import os

from benchmarks.harness import Arm, Experiment, Output, Preset, Task, seed_of
from benchmarks.tables import over_repeats
from paper.verdicts import compared

TINY = Preset("tiny", 4, 4, 60, ("yacht",), 60, 60, 1)


def cases(preset):
    return [{"dataset": d, "repeat": r} for r in range(preset.repeats) for d in "abc"]


def task(case, preset):
    name = f"{case['dataset']}{case['repeat']}"
    with open(os.environ["QUICK_LOG"], "a") as log:
        log.write(f"{name}\n")
    if name == os.environ.get("QUICK_FAILS"):
        raise ValueError("not today")
    return Task(case, preset, None, None, seed_of(*case.values()), None)


def attempt(task, arm):
    return [{"length": task.seed / 2**31, "none": float("nan")}]


def report(rows, preset):
    return Output([compared({"quantity": "length"}, 0.5, over_repeats(rows, "length"), "length")])


QUICK = Experiment("Quick", cases, task, lambda task: [Arm("only", None)], report, attempt)
