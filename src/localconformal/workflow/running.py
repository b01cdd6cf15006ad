"""From a table to intervals that were checked: split, prepare, fit, calibrate, audit."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from localconformal.audit import Audit, audit
from localconformal.audit.accuracy import Accuracy, accuracy
from localconformal.io.tables import TableError, about, check_columns, listing
from localconformal.metrics import coverage, coverage_band, interval_score, mean_length
from localconformal.models import take_rows
from localconformal.quantiles import Array
from localconformal.splitting import Rows, split_rows
from localconformal.workflow.by_time import in_time, order_note, random_notes, split_in_order
from localconformal.workflow.columns import Reader, TimeReader
from localconformal.workflow.model import Settings, TableModel, fit_table_model
from localconformal.workflow.row_names import check_row_name, with_row_ids
from localconformal.workflow.target import read_target

#: Fewer rows leave too little to fit, calibrate and check on.
LEAST_ROWS = 40
#: The same of the parts, whatever share is held out.
LEAST_HELD, LEAST_FITTED = 5, 20
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
    time : str or None
        Column by which rows are split: the last are held out, those before them calibrate, the
        first train. None: at random.
    """

    target: str
    settings: Settings
    identifier: str | None = None
    test_size: float = 0.2
    time: str | None = None

    def split(self, n: int, seed: int) -> tuple[Rows, Rows]:
        """Of n known rows, those to fit and those held out."""
        if self.time is not None:
            return split_in_order(n, self.test_size)
        # Another stream of numbers than the split into training and calibration rows.
        return split_rows(n, self.test_size, seed + 1)


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
    accuracy : Accuracy
        Of the point predictions of the rows held out.
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
    accuracy: Accuracy
    notes: tuple[str, ...]
    seconds: dict[str, float]


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The rows of a table that have a target.

    Attributes
    ----------
    table : pandas frame of n rows
    y : array of shape (n,)
    positions : array of shape (n,)
        In the input, from 0.
    features : tuple of str
    notes : tuple of str
        On rows left out, and on the order of rows.
    in_order : bool
        Whether rows are in the order of time, and are to be split so.
    """

    table: Any
    y: Array
    positions: NDArray[np.intp]
    features: tuple[str, ...]
    notes: tuple[str, ...]
    in_order: bool = False


def run_table(
    table: Any,
    task: Task,
    *,
    source: str = "The table",
    on_step: Callable[[str], None] = lambda name: None,
    on_columns: Callable[[Mapping[str, str]], None] = lambda types: None,
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
    on_columns : callable
        Called with the columns that later rows must have, and their types, before the fit.

    Returns
    -------
    Run
    """
    seconds: dict[str, float] = {}
    with about(source):
        check_row_name(task.identifier or table.index.name, task.settings.levels)
        rows = known_rows(table, task, source)
    fit, held = task.split(len(rows.y), task.settings.seed)
    settings = replace(task.settings, features=rows.features)
    on_step(STEPS[1])
    with timed(seconds, "fit and calibrate"):
        model = fit_table_model(
            take_rows(rows.table, fit), rows.y[fit], settings, on_columns, in_order=rows.in_order
        )
    model = replace(model, target=task.target, identifier=task.identifier or table.index.name)
    on_step(STEPS[2])
    return check_model(model, rows, held, settings, len(table), seconds)


def known_rows(table: Any, task: Task, source: str) -> KnownRows:
    """The rows that have a target, if they are enough for the parts that the task wants."""
    features = feature_names(table, task, source)
    target = read_target(table[task.target])
    known, notes = np.flatnonzero(target.known), target.notes(task.target)
    if task.time is not None:
        known, said = in_time(table[task.time], known)
        notes = (*notes, *said)
    if len(known) < LEAST_ROWS:
        raise TableError(
            f"{source} has {len(known)} row(s) with a value of {task.target!r}; at least "
            f"{LEAST_ROWS} were expected to fit, calibrate and check on."
        )
    held = math.ceil(task.test_size * len(known))
    if held < LEAST_HELD or len(known) - held < LEAST_FITTED:
        raise TableError(
            f"a test size of {task.test_size:g} holds {held:,} of {len(known):,} rows out and "
            f"leaves {len(known) - held:,} to fit; at least {LEAST_HELD} and {LEAST_FITTED} were "
            "expected: choose another --test-size."
        )
    rows = take_rows(table, known)
    if task.time is not None:
        notes = (*notes, order_note(rows[task.time], task.test_size))
    return KnownRows(
        rows, target.values[known], known, features, notes, in_order=task.time is not None
    )


def check_model(
    model: TableModel,
    rows: KnownRows,
    held: NDArray[np.intp],
    settings: Settings,
    n_input: int,
    seconds: dict[str, float],
) -> Run:
    """Predict and audit the rows held out."""
    tested, y = take_rows(rows.table, held), rows.y[held]
    with timed(seconds, "predict"):
        X, lost = model.preparation.transform(tested)
        made = model.predict_prepared(X, tested)
    X = for_people(X, model.preparation.readers)
    intervals = bounds_of(made)
    with timed(seconds, "audit"):
        found = audit_held_out(tested, X, y, intervals[:, :, 0], made, settings)
    assumed = () if rows.in_order else random_notes(model.preparation.readers)
    notes = (*rows.notes, *assumed, *settings.notes(), *model.notes(lost))
    made.insert(0, "actual", y)
    return Run(
        model=model,
        audit=replace(found, notes=(*notes, *found.notes)),
        X=X,
        y=y,
        intervals=intervals,
        table=with_row_ids(made, tested, rows.positions[held], model.identifier),
        rows=row_counts(n_input, len(rows.y), model, len(held)),
        accuracy=accuracy(y, made["predicted"]),
        notes=notes,
        seconds=seconds,
    )


def for_people(X: Any, readers: Iterable[Reader]) -> Any:
    """Prepared features with times instead of days since 1970: audits speak of dates then."""
    names = {
        f"{reader.name}.days": reader.name
        for reader in readers
        if isinstance(reader, TimeReader) and "days" in reader.parts
    }
    times = {days: pd.to_datetime(X[days], unit="D") for days in names}
    return X.assign(**times).rename(columns=names)


def feature_names(table: Any, task: Task, source: str) -> tuple[str, ...]:
    """The columns the model sees; all that were named must be there."""
    present = list(table.columns)
    groups, named = task.settings.groups, task.settings.features
    identifier = [] if task.identifier in (None, table.index.name) else [task.identifier]
    others = [name for name in (*identifier, task.time) if name is not None]
    check_columns([task.target, *named, *groups, *others], present, source)
    if task.time == task.target:
        raise TableError(f"rows cannot be split by {task.target!r}, the target: name another time.")
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
        "accuracy": asdict(run.accuracy),
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
