"""The contract of an experiment, and what comes out of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localconformal.experiments.presets import Preset

#: What one task is about: names and numbers, which JSON can hold.
Case = dict[str, Any]
#: What a task found, a row for each method or the like: names and numbers.
Row = dict[str, Any]

REPRODUCED, NOT_REPRODUCED, CANNOT = "reproduced", "not reproduced", "cannot be compared"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, CANNOT)
#: How a reason begins where our own uncertainty is why nothing can be said.
NOT_CLEAR = "not clear"


@dataclass(frozen=True)
class Line:
    """One number of the paper beside ours.

    ``of`` says what it is (for instance model, method, quantity); ``error`` is the standard error
    of ours; ``reason`` is why the verdict is so, in one line.
    """

    of: dict[str, str]
    paper: float | None
    ours: float | None
    error: float | None
    verdict: str
    reason: str = ""


@dataclass(frozen=True)
class Output:
    """What an experiment says: lines beside the paper's, tables of its own, figures, notes."""

    lines: list[Line]
    #: Title -> rows; numbers that the paper does not print.
    tables: dict[str, list[Row]] = field(default_factory=dict)
    #: File name -> function that draws it into the path it is given.
    figures: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Parameters
    ----------
    title : str
    cases : callable
        Preset -> the tasks, each a dict of names and numbers. Tasks run in any order, in any
        process; a base model that several methods share belongs into one task with them.
    run : callable
        (case, preset) -> rows. A function of its arguments alone: seeds come from
        `localconformal.experiments.seeds.seed_of`. Numbers must be plain; NaN and infinities
        are stored as None.
    report : callable
        (rows of all finished tasks, preset) -> Output. Rows carry the fields of their case.
    version : int
        Raised when a change makes stored rows wrong: those of other versions are set aside.
    """

    title: str
    cases: Callable[[Preset], list[Case]]
    run: Callable[[Case, Preset], list[Row]]
    report: Callable[[list[Row], Preset], Output]
    version: int = 1
