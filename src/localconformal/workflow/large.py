"""`run` on a folder of Parquet files: the same parts as in memory, on rows that stay on disk.

Each row is held out, calibrates or trains by its position. The preparation is learned from a
sample of training rows; rows held out come to this process, so there are at most `HELD_ROWS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from localconformal.distributed.computing import compute
from localconformal.distributed.parquet import read_folder, row_groups
from localconformal.distributed.positions import DRAW, SPLIT, uniforms
from localconformal.io.tables import TableError, about, listing
from localconformal.workflow.by_time import CALIBRATION_SHARE
from localconformal.workflow.columns import as_floats
from localconformal.workflow.folder_names import names_of_rows
from localconformal.workflow.model import (
    CELL_METHOD,
    TableModel,
    make_regressor,
)
from localconformal.workflow.preparation import Preparation, learn_preparation
from localconformal.workflow.row_names import check_row_name
from localconformal.workflow.running import (
    LEAST_HELD,
    LEAST_ROWS,
    STEPS,
    KnownRows,
    Run,
    Task,
    check_model,
    feature_names,
    timed,
)

#: Rows that are held out to check on, and rows that a preparation is learned from, at most.
HELD_ROWS, LEARNED_ROWS = 50_000, 50_000


@dataclass(frozen=True)
class Part:
    """Rows whose number lies in [low, high), with a target; a sample of them where share < 1."""

    target: str
    seed: int
    low: float
    high: float
    share: float = 1.0

    def __call__(self, frame: Any) -> Any:
        """Those rows of one partition, whose index is their position."""
        first = int(frame.index[0]) if len(frame) else 0
        split = uniforms(self.seed, SPLIT, first, len(frame))
        drawn = uniforms(self.seed, DRAW, first, len(frame)) < self.share
        known = np.isfinite(self.values(frame).to_numpy())
        return frame[(split >= self.low) & (split < self.high) & drawn & known]

    def values(self, frame: Any) -> Any:
        """The target of one partition, as floats."""
        return pd.Series(as_floats(frame[self.target], "the target", flags=False), frame.index)


def run_folder(
    path: Path,
    task: Task,
    *,
    on_step: Callable[[str], None] = lambda name: None,
    on_columns: Callable[[Mapping[str, str]], None] = lambda types: None,
) -> Run:
    """Hold rows out, fit and calibrate on the others, audit on those held out.

    Parameters
    ----------
    path : Path
        Folder of Parquet files, or one file.
    task : Task
    on_step, on_columns : callable
        As in `localconformal.workflow.running.run_table`.

    Returns
    -------
    Run
    """
    seconds: dict[str, float] = {}
    check_in_memory(task)
    check_row_name(task.identifier, task.settings.levels)
    frame, n = read_folder(path), sum(piece.rows for piece in row_groups(path))
    settings = replace(task.settings, features=feature_names(frame._meta, task, str(path)))
    frame = frame[wanted_columns(task, settings.features)]
    parts = make_parts(task, n)
    on_step(STEPS[1])
    with timed(seconds, "fit and calibrate"), about(str(path)):
        model, tested = fit_folder(frame, parts, replace(task, settings=settings), n, on_columns)
        if task.identifier is not None:
            names = names_of_rows(path, task.identifier, tested.index.to_numpy())
            tested = tested.assign(**{task.identifier: names})
    on_step(STEPS[2])
    rows = KnownRows(
        tested,
        parts.held.values(tested).to_numpy(),
        tested.index.to_numpy(),
        settings.features,
        notes(model, n, len(tested)),
    )
    checked = check_model(model, rows, np.arange(len(tested)), settings, n, seconds)
    known = n - missing_rows(model, n, len(tested))
    return replace(checked, rows={**checked.rows, "with a target": known})


def check_in_memory(task: Task) -> None:
    """Nothing is asked for that needs all rows in memory."""
    if task.settings.method == CELL_METHOD and task.settings.groups:
        raise ValueError(
            f"got the method mondrian with the groups {listing(task.settings.groups)} for a folder "
            "or a cluster; expected one file, as cells by group need a table in memory: give one, "
            "or leave --groups out."
        )
    if task.time is not None:
        raise ValueError(
            f"got --time {task.time} for a folder or a cluster; expected one file, as rows are put "
            "in order in memory: give one, or leave --time out."
        )


def fit_folder(
    frame: Any,
    parts: Parts,
    task: Task,
    n: int,
    on_columns: Callable[[Mapping[str, str]], None],
) -> tuple[TableModel, Any]:
    """The model, fitted and calibrated, and the rows held out."""
    settings = task.settings
    learned_from = replace(parts.training, share=LEARNED_ROWS / n)
    tested, sample = compute(
        frame.map_partitions(parts.held, meta=frame._meta),
        frame.map_partitions(learned_from, meta=frame._meta),
    )
    check_enough(tested, sample, task.target)
    preparation = learn_preparation(sample[list(settings.features)])
    model = TableModel(
        preparation,
        make_regressor(settings),
        tuple(settings.levels),
        target=task.target,
        identifier=task.identifier,
    )
    on_columns(model.stored_types)
    model.regressor.fit(*prepared(frame, parts.training, preparation, sample))
    model.regressor.conformalize(*prepared(frame, parts.calibration, preparation, sample))
    return model, tested


def wanted_columns(task: Task, features: tuple[str, ...]) -> list[str]:
    """Columns to read, each once; names of rows come later, of those held out alone."""
    return list(dict.fromkeys([task.target, *features, *task.settings.groups]))


class Parts(NamedTuple):
    """Rows held out, rows that calibrate and rows that train."""

    held: Part
    calibration: Part
    training: Part


def make_parts(task: Task, n: int) -> Parts:
    """The parts of n rows; of many, few are held out."""
    held = min(task.test_size, HELD_ROWS / n)
    calibrating = held + (1.0 - held) * CALIBRATION_SHARE
    bounds = ((0.0, held), (held, calibrating), (calibrating, 1.0))
    return Parts(*(Part(task.target, task.settings.seed, *pair) for pair in bounds))


def check_enough(tested: Any, sample: Any, target: str) -> None:
    """Enough rows have a target."""
    known = len(tested) + len(sample)
    if known < LEAST_ROWS or len(tested) < LEAST_HELD:
        raise TableError(
            f"{len(tested)} row(s) to check on and {len(sample)} to learn from have a value of "
            f"{target!r}; at least {LEAST_HELD}, and {LEAST_ROWS} together, were expected."
        )


@dataclass(frozen=True)
class Prepared:
    """The prepared features of one part."""

    part: Part
    preparation: Preparation

    def __call__(self, frame: Any) -> Any:
        """Of one partition."""
        return self.preparation.transform(self.part(frame))[0]


@dataclass(frozen=True)
class Responses:
    """The target of one part."""

    part: Part

    def __call__(self, frame: Any) -> Any:
        """Of one partition."""
        return self.part.values(self.part(frame))


def prepared(frame: Any, part: Part, preparation: Preparation, sample: Any) -> tuple[Any, Any]:
    """X and y of a part as Dask collections; rows of the sample say of what types."""
    like = preparation.transform(sample.iloc[:2])[0].iloc[:0]
    X = frame.map_partitions(Prepared(part, preparation), meta=like, enforce_metadata=False)
    y = frame.map_partitions(Responses(part), meta=(None, "f8"))
    return X, y


def missing_rows(model: TableModel, n: int, held: int) -> int:
    """Of n rows, those that play no part."""
    used = model.regressor.fit_report_["rows"]
    return int(n - held - used["train"] - used["calibration"])


def notes(model: TableModel, n: int, held: int) -> tuple[str, ...]:
    """Sentences on rows left out."""
    missing = missing_rows(model, n, held)
    if not missing:
        return ()
    return (f"{missing:,} of {n:,} rows have no finite {model.target!r}: left out.",)
