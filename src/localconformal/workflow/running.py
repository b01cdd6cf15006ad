"""From a table to intervals that were checked: split, prepare, fit, calibrate, audit."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit import Audit, audit
from localconformal.metrics import coverage, coverage_band, interval_score, mean_length
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.splitting import split_rows
from localconformal.tables import TableError
from localconformal.tables.errors import check_columns, listing
from localconformal.workflow.model import Settings, TableModel, fit_table_model
from localconformal.workflow.target import read_target

#: Fewer rows leave too little to fit, calibrate and check on.
LEAST_ROWS = 40
STEPS = ("reading", "fitting and calibrating", "auditing", "writing")
PACKAGES = (
    "localconformal",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "pandas",
    "pyarrow",
    "skops",
)


@dataclass(frozen=True)
class Task:
    """What to make of a table.

    Attributes
    ----------
    target : str
    settings : Settings
        Its features and groups too: none named is every column but the target and the identifier.
    identifier : str or None
        Column that names rows; no feature.
    test_size : float
        Share of rows held out for the audit.
    """

    target: str
    settings: Settings
    identifier: str | None = None
    test_size: float = 0.2


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted model and how it did on rows held out.

    Attributes
    ----------
    model : TableModel
    audit : Audit
        At the first level; its notes begin with what was done to the table.
    X : pandas frame of shape (n, d)
        Prepared features of the rows held out.
    y : array of shape (n,)
    intervals : array of shape (n, 2, L)
    table : pandas frame
        A row for each one held out: ``row`` (its position in the input, from 0), the identifier,
        ``actual``, ``predicted``, bounds.
    rows : dict of part -> number of rows
    notes : tuple of str
        What was done to the table.
    seconds : dict of stage -> seconds
    """

    model: TableModel
    audit: Audit
    X: Any
    y: Array
    intervals: Array
    table: Any
    rows: dict[str, int]
    notes: tuple[str, ...]
    seconds: dict[str, float]


def run_table(
    table: Any,
    task: Task,
    *,
    source: str = "The table",
    on_step: Callable[[str], None] = lambda name: None,
) -> Run:
    """Hold rows out, fit and calibrate on the others, audit on those held out.

    Parameters
    ----------
    table : pandas frame
    task : Task
    source : str, default="The table"
        What messages call the table.
    on_step : callable
        Called with the name of each step as it begins.

    Returns
    -------
    Run
    """
    seconds: dict[str, float] = {}
    features = feature_names(table, task, source)
    target = read_target(table[task.target])
    known = np.flatnonzero(target.known)
    if len(known) < LEAST_ROWS:
        raise TableError(
            f"{source} has {len(known)} row(s) with a value of {task.target!r}; at least "
            f"{LEAST_ROWS} were expected to fit, calibrate and check on."
        )
    y = target.values[known]
    # Another stream of numbers than the split into training and calibration rows.
    fit, held = split_rows(len(known), task.test_size, task.settings.seed + 1)
    settings = replace(task.settings, features=features)
    on_step(STEPS[1])
    with timed(seconds, "fit and calibrate"):
        model = fit_table_model(take_rows(table, known[fit]), y[fit], settings)
    model = replace(model, target=task.target, identifier=task.identifier or table.index.name)
    on_step(STEPS[2])
    tested = take_rows(table, known[held])
    with timed(seconds, "predict"):
        X, _ = model.preparation.transform(tested)
        made, _ = model.predict(tested)
    intervals = bounds_of(made)
    with timed(seconds, "audit"):
        found = audit_held_out(tested, X, y[held], intervals[:, :, 0], made, settings)
    notes = (*target.notes(task.target), *model.preparation.notes)
    made.insert(0, "actual", y[held])
    return Run(
        model=model,
        audit=replace(found, notes=(*notes, *found.notes)),
        X=X,
        y=y[held],
        intervals=intervals,
        table=with_row_ids(made, tested, known[held], task.identifier),
        rows=row_counts(len(table), len(known), model, len(held)),
        notes=notes,
        seconds=seconds,
    )


def feature_names(table: Any, task: Task, source: str) -> tuple[str, ...]:
    """The columns the model sees; all that were named must be there."""
    present = list(table.columns)
    groups, named = task.settings.groups, task.settings.features
    identifier = [] if task.identifier in (None, table.index.name) else [task.identifier]
    check_columns([task.target, *named, *groups, *map(str, identifier)], present, source)
    apart = {task.target, *identifier}
    spoilt = [name for name in named if name in apart]
    if spoilt:
        raise TableError(
            f"{listing(spoilt)} came among the features; the target and the identifier cannot be "
            "features: leave them out."
        )
    features = tuple(named or (name for name in present if name not in apart))
    if not features:
        raise TableError(f"{source} has no column beside {task.target!r}; features were expected.")
    return features


def audit_held_out(
    table: Any, X: Any, y: Array, intervals: Array, made: Any, settings: Settings
) -> Audit:
    """The audit at the first level, by the groups named and over prepared features."""
    groups = {name: table[name] for name in settings.groups} or None
    return audit(
        X,
        y,
        intervals,
        groups,
        confidence_level=settings.levels[0],
        y_pred=made["predicted"].to_numpy(),
        random_state=settings.seed,
    )


def bounds_of(made: Any) -> Array:
    """Bounds (n, 2, L) of what `TableModel.predict` made."""
    bounds = made.drop(columns="predicted").to_numpy()
    return np.asarray(bounds.reshape(len(made), -1, 2).transpose(0, 2, 1))


def with_row_ids(made: Any, table: Any, rows: NDArray[np.intp], identifier: str | None) -> Any:
    """The frame with the position of each row in the input, and its name, before the rest."""
    named = made.reset_index(drop=True)
    if identifier is not None and identifier in table.columns:
        named.insert(0, identifier, table[identifier].to_numpy())
    elif table.index.name is not None or table.index.dtype.kind not in "iu":
        named.insert(0, table.index.name or "index", table.index.to_numpy())
    named.insert(0, "row", rows)
    return named


def row_counts(given: int, known: int, model: TableModel, held: int) -> dict[str, int]:
    """Rows by what they were used for."""
    used = model.regressor.fit_report_["rows"]
    return {
        "input": given,
        "with a target": known,
        "train": used["train"],
        "calibrate": used["calibration"],
        "hold out": held,
    }


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Wall time of a stage, into ``seconds``."""
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def coverage_rows(run: Run) -> list[dict[str, Any]]:
    """By level: coverage of the rows held out, the band it lies in 95 % of the time, size.

    The band is that of split conformal prediction with continuous scores; None where the method
    promises nothing on average.
    """
    promised = run.model.regressor.guarantee_.marginal
    sizes = (run.rows["calibrate"], run.rows["hold out"])
    rows = []
    for position, level in enumerate(run.model.levels):
        bounds = run.intervals[:, :, position]
        rows.append(
            {
                "level": level,
                "coverage": float(coverage(run.y, bounds)),
                "band": list(coverage_band(*sizes, level)) if promised else None,
                "mean_length": float(mean_length(run.y, bounds)),
                "interval_score": float(interval_score(run.y, bounds, level)),
            }
        )
    return rows


def run_record(run: Run, task: Task) -> dict[str, Any]:
    """The run as plain data, for run.json."""
    guarantee = run.model.regressor.guarantee_
    report = run.model.regressor.fit_report_
    return {
        "task": asdict(task),
        "rows": run.rows,
        "features": list(run.X.columns),
        "preparation": list(run.notes),
        "coverage": coverage_rows(run),
        "failures": [asdict(failure) for failure in run.audit.failures()],
        "guarantee": {"text": str(guarantee).splitlines(), **asdict(guarantee)},
        "seconds": {**run.seconds, **{f"fit: {k}": v for k, v in report["seconds"].items()}},
        "versions": {"python": platform.python_version(), **dict(versions(PACKAGES))},
    }


def versions(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Of the packages that are installed."""
    for package in packages:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue
