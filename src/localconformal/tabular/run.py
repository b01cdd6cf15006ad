"""From a table to checked intervals: hold out, prepare, fit, calibrate, audit."""

from __future__ import annotations

import math
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localconformal.audit import Audit, audit
from localconformal.audit.audit import Accuracy, accuracy
from localconformal.columns import name_of
from localconformal.composition import ONE_SIDE
from localconformal.io import tables
from localconformal.io.files import write_together
from localconformal.io.models import save_model
from localconformal.io.tables import TableError, write_table
from localconformal.metrics import coverage, coverage_band, interval_score, mean_length
from localconformal.metrics.intervals import mean_bound
from localconformal.preparation import as_pandas, in_time, read_target, text_among_numbers
from localconformal.progress import stage
from localconformal.quantiles import Array
from localconformal.report import write_report
from localconformal.rows import Index, take_rows
from localconformal.tabular import model as models
from localconformal.tabular.model import TableModel, Task, as_names, fit_task
from localconformal.text import json_text, listing, option, say_number, say_rows
from localconformal.versions import PACKAGES, versions

#: Fewest rows: in all, held out, and to fit.
_LEAST_ROWS, _LEAST_HELD, _LEAST_FITTED = 40, 5, 20
#: What is written -> name of the file; new rows only if there are some.
_FILES = {
    "intervals": "intervals.parquet",
    "intervals as CSV": "intervals.csv",
    "report": "report.html",
    "model": "model.skops",
    "new intervals": "new-intervals.parquet",
    "new intervals as CSV": "new-intervals.csv",
    "record": "run.json",
}
#: Held-out rows whose widths are explained, if asked for.
_EXPLAINED = 30
#: Predictions with a larger R2 on held-out rows are suspected of a leak.
_LEAK_R2 = 0.999
#: Hint on the page of a run if no groups were named.
GROUP_HINT = "name their columns as groups"


@dataclass(frozen=True, eq=False)
class Run:
    """A fitted model and how it did on the n held-out rows.

    For these rows, ``X`` (n, d) has the prepared features, with ``y`` (n,) and ``intervals``
    (n, 2, L); ``table`` has ``row`` (position in the input, from 0), the identifier, ``actual``,
    ``predicted`` and bounds; ``X`` and ``table`` are pandas frames. ``audit`` is at the first
    level, ``accuracy`` is about the point predictions, ``notes`` say what was done to the table,
    ``explained`` is `explain_width` of some of the rows, if asked for. With one side, the other
    end is infinite in ``intervals``, which are judged; in ``table`` it is the end of the support.
    """

    task: Task
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
    explained: Any = None

    def coverage(self) -> list[dict[str, Any]]:
        """By level: coverage of the held-out rows, the band it is in 95 % of the time, lengths.

        The band assumes continuous scores. It is None across folds, where the distribution of
        coverage is unknown, and for methods without a marginal guarantee. With one side, there is
        also the mean of the finite bounds.
        """
        promise = self.model.regressor.guarantee_
        promised = promise.marginal and promise.proven_level is None
        sizes = (self.rows["calibrate"], self.rows["hold out"])
        by_level = np.moveaxis(self.intervals, 2, 0)
        return [
            {
                "level": level,
                "coverage": float(coverage(self.y, bounds)),
                "band": list(coverage_band(*sizes, level)) if promised else None,
                "mean_length": float(mean_length(self.y, bounds)),
                "interval_score": float(interval_score(self.y, bounds, level)),
                **({} if (bound := mean_bound(bounds)) is None else {"mean_bound": bound}),
            }
            for level, bounds in zip(self.model.levels, by_level, strict=True)
        ]

    @property
    def made(self) -> str:
        """What was made: intervals, upper bounds or lower bounds."""
        return f"{self.task.sides} bounds" if self.task.sides in ONE_SIDE else "intervals"

    def record(self) -> dict[str, Any]:
        """Everything about the run except its rows, as in run.json."""
        guarantee = self.model.regressor.guarantee_
        fit = self.model.regressor.fit_report_["seconds"]
        return {
            "task": asdict(self.task),
            "rows": self.rows,
            "features": list(self.X.columns),
            "preparation": list(self.notes),
            "coverage": self.coverage(),
            "accuracy": asdict(self.accuracy),
            "failures": [asdict(failure) for failure in self.audit.failures()],
            "guarantee": {"text": str(guarantee).splitlines(), **asdict(guarantee)},
            "seconds": {**self.seconds, **{f"fit: {name}": value for name, value in fit.items()}},
            "versions": versions((*PACKAGES, "pandas", "pyarrow", "skops")),
        }


class KnownRows(NamedTuple):
    """The n rows of a table that have a target, y (n,), and their positions in it, from 0 (n,)."""

    table: Any
    y: Array
    positions: NDArray[np.intp]
    task: Task
    notes: tuple[str, ...]

    def split(self, seed: int) -> Sequence[Index]:
        """Rows to fit and rows held out."""
        # A different random stream from the split into training and calibration rows.
        return self.task.split(len(self.y), self.task.test_size, seed + 1)


def run_table(
    table: Any,
    target: str,
    *,
    method: str | None = None,
    model: Any = "default",
    confidence_level: float | Sequence[float] = 0.9,
    law: str | None = None,
    features: str | Sequence[str] = (),
    groups: str | Sequence[str] = (),
    identifier: str | None = None,
    test_size: float = 0.2,
    time: str | None = None,
    random_state: int = 0,
    support: tuple[float | None, float | None] | None = None,
    integer: bool = False,
    sides: str | None = None,
    cv: int | str | None = None,
    source: str = "The table",
    new: str | Path | None = None,
    explain: bool = False,
) -> Run:
    """Hold rows out, fit and calibrate on the others, audit on the held-out rows.

    Parameters
    ----------
    table, target, method, model, confidence_level, law, features, random_state
        As in `localconformal.tabular.fit_table_model`; the first level is audited.
    groups : str or sequence of str, default=()
        Columns whose labels are groups to audit and, for "mondrian" and "conditional", to calibrate
        within. With several columns and no method, the method is "conditional".
    identifier : str or None, default=None
        Column that identifies rows; not a feature.
    test_size : float, default=0.2
        Share of rows held out for the audit.
    time : str or None, default=None
        Column by which rows are split: the first rows train, the next calibrate, the last are held
        out. None: at random.
    support, integer, sides, cv
        As in `localconformal.tabular.fit_table_model`.
    source : str, default="The table"
        Name of the table in messages.
    new : str or Path, default=None
        A table to be predicted by `write_run`; that it has all columns is checked before the fit.
    explain : bool, default=False
        Whether to find out which features make intervals wide, for the report.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"size": np.arange(300.0), "price": np.arange(300.0) % 7})
    >>> done = run_table(table, "price", method="split", model="linear")
    >>> done.rows["hold out"], list(done.table)
    (60, ['row', 'actual', 'predicted', 'lower', 'upper'])
    """
    levels, named, by = models.as_levels(confidence_level), as_names(features), as_names(groups)
    seconds: dict[str, float] = {}
    with tables.about(source):
        table = as_pandas(table)
        identifier = identifier or table.index.name
        models.check_row_name(identifier, levels)
        options = (method, model, levels, law, named, by, random_state)
        task = Task(target, *options, identifier, test_size, time, support, integer, sides, cv)
        rows = known_rows(table, task, source)
        fit, held = rows.split(random_state)
        check_groups(take_rows(rows.table, held), by)
    with _timed(seconds, "fit and calibrate"):
        fitted = fit_task(take_rows(rows.table, fit), rows.y[fit], rows.task, new)
    done = _predict_and_audit(fitted, rows, held, len(table), seconds)
    if not explain:
        return done
    with _timed(seconds, "explain"):
        return replace(done, explained=_explained(fitted, rows, held))


def known_rows(table: Any, task: Task, source: str) -> KnownRows:
    """The rows that have a target, if there are enough for the parts of the task."""
    task = task.on_columns(table, source)
    y, is_known = read_target(table[task.target])
    known, notes = np.flatnonzero(is_known), []
    if missing := len(y) - len(known):
        notes = [f"{missing:,} of {len(y):,} rows were left out: no finite {task.target!r}."]
    odd = ((name, text_among_numbers(table[name])) for name in task.features)
    if named := listing(f"{name!r} ({one[0]!r} in row {one[1]:,})" for name, one in odd if one):
        notes.append(f"Text among numbers (rows are counted from 0): {named}.")
    if task.time is not None:
        known, on_time = _ordered(table[task.time], known)
        notes += on_time
    if len(known) < _LEAST_ROWS:
        least = f"at least {_LEAST_ROWS} to fit, calibrate and check"
        found = f"{len(known)} row(s) with a value of {task.target!r}"
        raise TableError(f"{source} has {found}; expected {least}.")
    held = math.ceil(task.test_size * len(known))
    if held < _LEAST_HELD or len(known) - held < _LEAST_FITTED:
        parts = f"holds {held:,} rows out and leaves {len(known) - held:,} to fit"
        least = f"at least {_LEAST_HELD} and {_LEAST_FITTED}: choose another test size"
        raise TableError(f"a test size of {task.test_size:g} {parts}; expected {least}.")
    rows = KnownRows(take_rows(table, known), y[known], known, task, tuple(notes))
    return rows._replace(notes=(*notes, _order_note(rows))) if task.time else rows


def check_groups(audited: Any, names: Sequence[str]) -> None:
    """Raise a `TableError` if by one of these columns most rows are alone in their group."""
    for name in names:
        sizes = Counter(models.cell_labels(audited, [name])).values()
        if 2 * sum(size == 1 for size in sizes) > len(audited):
            raise TableError(
                f"got column {name!r} as groups, with {len(sizes):,} values in {len(audited):,} "
                "audited rows; expected groups of several rows each: choose a column with fewer "
                "values."
            )


def _predict_and_audit(
    model: TableModel, rows: KnownRows, held: Index, n_input: int, seconds: dict[str, float]
) -> Run:
    tested, y, task = take_rows(rows.table, held), rows.y[held], rows.task
    with _timed(seconds, "predict"):
        X, lost = model.preparation.read(tested)
        made = model.predict_prepared(X, model.groups_of(tested))
    X = model.preparation.with_dates(X)
    bounds = made.drop(columns="predicted").to_numpy().reshape(len(made), -1, 2)
    intervals = task.judged(bounds.transpose(0, 2, 1))
    with _timed(seconds, "audit"):
        groups = {name: tested[name] for name in task.groups} or None
        options: dict[str, Any] = {"confidence_level": task.levels[0], "random_state": task.seed}
        y_pred = made["predicted"].to_numpy()
        found = audit(X, y, intervals[:, :, 0], groups, y_pred=y_pred, **options)
    days = model.preparation.day_columns.values()
    precise = accuracy(y, y_pred)
    notes = (*rows.notes, *task.notes(days, rows.y), *model.notes(lost), *_leak_notes(precise))
    made.insert(0, "actual", y)
    # Rows are identified by a column, or by an index that is more than a row number.
    is_named = tested.index.name is not None or tested.index.dtype.kind not in "iu"
    names = tested.get(task.identifier, tested.index if is_named else None)
    used = model.regressor.fit_report_["rows"]
    counts = {"input": n_input, "with a target": len(rows.y), "train": used["train"]}
    counts |= {"calibrate": used["calibration"], "hold out": len(held)}
    table = models.with_row_names(made, rows.positions[held], names)
    whole = replace(found, notes=(*notes, *found.notes))
    return Run(task, model, whole, X, y, intervals, table, counts, precise, notes, seconds)


def _explained(model: TableModel, rows: KnownRows, held: Index) -> Any:
    """`explain_width` of some held-out rows; the index is their position in the input."""
    some = held[np.linspace(0, len(held) - 1, min(len(held), _EXPLAINED)).astype(int)]
    X, beside, _ = model.read(take_rows(rows.table, some))
    found = model.regressor.explain_width(X, confidence_level=model.levels[0], **beside)
    return found.set_axis(rows.positions[some], axis=0)


def _leak_notes(found: Accuracy) -> Iterator[str]:
    if found.r2 > _LEAK_R2:
        yield (
            "The predictions are almost exact: does a feature contain the target, or is it known "
            f"only afterwards? Leave such columns out with {option('features=', '--features')}."
        )


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = clock.perf_counter()
    with stage(name):
        yield
    seconds[name] = clock.perf_counter() - start


def _ordered(column: Any, known: Index) -> tuple[Index, list[str]]:
    """These rows in order of time, without those that have none; and notes."""
    times, notes = in_time(column.iloc[known])
    # Missing times sort last.
    order = np.argsort(times, kind="stable")[: np.count_nonzero(~np.isnan(times))]
    if missing := len(times) - len(order):
        were = "was" if missing == 1 else "were"
        notes.append(f"{say_rows(missing)} {were} left out: no time in {column.name!r}.")
    if len(np.unique(times[order])) == 1:
        remedy = "choose another column to split by"
        raise TableError(f"column {column.name!r} holds the same time in all rows; {remedy}.")
    return known[order], notes


def _order_note(rows: KnownRows) -> str:
    column = rows.table[rows.task.time]
    fit, held = rows.split(0)
    train, calibration = rows.task.split(len(fit), models.CALIBRATION_SHARE, 0)
    last = [
        say_number(float(time)) if isinstance(time, Real) and float(time) % 1 else name_of(time)
        for time in (column.iloc[part[-1]] for part in (train, calibration, held))
    ]
    shared = " Some rows of equal time are in different parts." if len(set(last)) < 3 else ""
    return (
        f"Rows are split in the order of {column.name!r}: those up to {last[0]} train, then those "
        f"up to {last[1]} calibrate, and the last, up to {last[2]}, are held out.{shared} The "
        "guarantee assumes exchangeable rows; the held-out rows show how well it holds over time."
    )


def run_paths(folder: str | Path, *, new: bool) -> dict[str, Path]:
    """What is written -> its path; with or without the intervals of new rows."""
    chosen = (what for what in _FILES if new or not what.startswith("new "))
    return {what: Path(folder) / _FILES[what] for what in chosen}


def write_run(
    run: Run,
    folder: str | Path,
    *,
    new: str | Path | None = None,
    about_run: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Write intervals, report, model and run.json into a folder, all of them or none.

    Files of the same names are replaced, and intervals of new rows left by another run are removed.
    ``new`` is a table of new rows to predict as well; ``about_run`` goes first into run.json.
    Returns the path of each file, and notes on values of the new rows that could not be used.
    """
    paths = run_paths(folder, new=new is not None)
    files = {what: path.name for what, path in paths.items()}
    record = {**(about_run or {}), **run.record(), "files": files}
    made: list[models.Predicted] = []
    titled = "Prediction intervals" if run.made == "intervals" else run.made.capitalize()

    def report(part: Path) -> None:
        write_report(
            run.audit,
            part,
            X=run.X,
            y=run.y,
            intervals=run.intervals[:, :, 0],
            model=run.model.regressor,
            title=f"{titled} for {run.model.target}: how well do they cover?",
            y_pred=run.table["predicted"].to_numpy(),
            explained=run.explained,
            random_state=run.task.seed,
            group_hint=GROUP_HINT,
        )

    def copied(part: Path) -> None:
        # Predicted only once, into Parquet; copy those rows.
        source = made[0].path
        types = dict.fromkeys(tables.table_columns(source), tables.NAME)
        write_table(tables.table_batches(source, types), part)

    writers: dict[str, Callable[[Path], object]] = {
        "intervals": lambda part: write_table([run.table], part),
        "intervals as CSV": lambda part: write_table([run.table], part),
        "report": report,
        "model": lambda part: save_model(run.model, part),
        "new intervals": lambda part: made.append(run.model.predict_file(str(new), part)),
        "new intervals as CSV": copied,
        "record": lambda part: part.write_text(json_text(record) + "\n", encoding="utf-8"),
    }
    others = set(run_paths(folder, new=True).values()).difference(paths.values())
    with stage("write"):
        write_together({path: writers[what] for what, path in paths.items()}, remove=others)
    return paths, made[0].notes if made else ()
