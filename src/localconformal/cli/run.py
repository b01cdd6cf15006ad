"""``localconformal run``: from a table to checked intervals, a report and a model."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localconformal.cli.console import (
    METHOD_NAMES,
    Json,
    Level,
    Seed,
    Verbose,
    log_lines,
    prose,
    sayable,
    show,
    split_names,
    steps,
)
from localconformal.io.files import check_inputs_stay
from localconformal.text import say_level, say_number, say_share

if TYPE_CHECKING:
    from localconformal.audit import Audit
    from localconformal.workflow.running import Run, Task

Columns = list[str] | None
#: Bytes of a file whose size is told.
LARGE_FILE = 50_000_000


def run(
    data: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file, or a folder of Parquet files.", show_default=False
        ),
    ],
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)
    ],
    features: Annotated[
        Columns, typer.Option(help="Columns to predict from: a,b or repeated.", show_default="all")
    ] = None,
    groups: Annotated[
        Columns, typer.Option(help="Columns of groups to audit.", show_default=False)
    ] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column that names rows.", show_default=False)
    ] = None,
    model: Annotated[
        str, typer.Option(help="hgb, forest, linear, or a .skops file to fit anew.")
    ] = "hgb",
    level: Level = [0.9],  # noqa: B006
    method: Annotated[str, typer.Option(help=f"{METHOD_NAMES}.")] = "slcp",
    law: Annotated[
        str | None,
        typer.Option(help="auto, forest, ...", show_default="the method's"),
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="A table of new rows to predict too.", show_default=False)
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of rows to check on.")] = 0.2,
    time: Annotated[
        str | None,
        typer.Option(help="Column of times: check on the last rows.", show_default=False),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of the results; made if needed.", file_okay=False)
    ] = Path("localconformal-run"),
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Intervals for a table: fit, calibrate, check on held-out rows.

    Writes intervals (CSV and Parquet), report.html, model.skops and run.json. Bounds are the
    columns lower and upper; for several levels lower_0.9, upper_0.9 and so on, and the audit and
    the report are about the first.

    \b
    Example:  localconformal run homes.csv --target price --out homes
              localconformal run homes.csv -t price --groups region --new new.csv
    """
    from localconformal.io.files import check_folder
    from localconformal.io.models import skops_io
    from localconformal.io.tables import check_columns, column_names
    from localconformal.workflow.base_models import model_file
    from localconformal.workflow.model import Settings
    from localconformal.workflow.predicting import FilePrediction
    from localconformal.workflow.run_files import run_paths, write_run
    from localconformal.workflow.running import STEPS, Task, run_record

    check_numbers(level, test_size)
    # What the model will be saved with, before it is fitted.
    skops_io()
    check_folder(out)
    check_inputs_stay(run_paths(out, new=new is not None).values(), [data, new, model_file(model)])
    new_columns = [] if new is None else column_names(new)
    with log_lines(verbose), steps(len(STEPS)) as on_step:
        on_step(STEPS[0])
        columns = column_names(data)
        chosen, by = split_names(features, columns), split_names(groups, columns)
        settings = Settings(
            method=method,
            model=model,
            levels=tuple(dict.fromkeys(level)),
            law=law,
            features=tuple(chosen),
            groups=tuple(by),
            seed=seed,
        )
        task = Task(target, settings, identifier, test_size, time)

        def check_new(types: Mapping[str, str]) -> None:
            if new is not None:
                check_columns(types, new_columns, str(new))

        done = make_run(data, task, on_step, check_new)
        on_step(STEPS[3])
        prediction = None if new is None else FilePrediction(done.model, new)
        record = {
            "command": shlex.join(["localconformal", *sys.argv[1:]]),
            "data": {"file": data, "new": new},
            **run_record(done, task),
        }
        # All that can fail comes before the files.
        said, document = list(summary(record, done)), sayable(record)
        paths = write_run(done, out, document, prediction)
    notes = [] if prediction is None else prediction.notes()
    whole = {**document, "notes": notes, "files": sayable(paths)}
    show(whole, [*said, *map(prose, notes), "", *path_lines(paths)], as_json)


def make_run(
    data: Path,
    task: Task,
    on_step: Callable[[str], None],
    on_columns: Callable[[Mapping[str, str]], None],
) -> Run:
    """Read the table and run on it."""
    from localconformal.io.tables import read_table
    from localconformal.workflow.running import run_table

    chosen, by = task.settings.features, task.settings.groups
    named = [] if task.identifier is None else [task.identifier]
    order = [] if task.time is None else [task.time]
    wanted = [task.target, *named, *order, *chosen, *by] if chosen else None
    table = read_table(data, columns=wanted, names=named)
    return run_table(table, task, source=str(data), on_step=on_step, on_columns=on_columns)


def check_numbers(levels: list[float], test_size: float) -> None:
    """Levels and shares that can be meant, before any work is done."""
    for name, value in [*(("--level", level) for level in levels), ("--test-size", test_size)]:
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} is {value:g}; a number inside (0, 1) was expected.")


def summary(record: Mapping[str, Any], done: Run) -> Iterator[Any]:
    """What a person wants to know, in a dozen lines; numbers in the record are as measured."""
    rows = record["rows"]
    yield (
        f"{rows['input']:,} rows: {rows['train']:,} to train, {rows['calibrate']:,} to calibrate, "
        f"{rows['hold out']:,} held out to check on."
    )
    yield from map(prose, record["preparation"])
    yield ""
    for row in record["coverage"]:
        yield coverage_line(row)
    levels = done.model.levels
    if len(levels) > 1:
        yield f"The audit and the report are about {say_level(levels[0])}, the first level."
    yield prose(done.accuracy.text)
    if done.accuracy.warning:
        yield prose(done.accuracy.warning)
    yield from map(prose, failure_lines(done.audit))
    if done.audit.groups:
        yield prose(group_line(done.audit))


def failure_lines(audit: Audit) -> Iterator[str]:
    """Where coverage is too low, and where it is too high, by more than chance."""
    failures = audit.failures()
    under = [failure for failure in failures if failure.is_under]
    over = [failure for failure in failures if not failure.is_under]
    if not under:
        yield "Where coverage fails: nowhere by more than chance."
    named = {"Where coverage fails": under, "Where coverage is higher than asked": over}
    for title, parts in named.items():
        if parts:
            count = "1 part" if len(parts) == 1 else f"{len(parts):,} parts"
            yield f"{title}: {count} of the data, see the report; the first: {parts[0].text}."


def group_line(audit: Audit) -> str:
    """How many groups are off, and the worst of them: of those covered too rarely, if any are."""
    count = len(audit.groups)
    off = [failure for failure in audit.failures() if failure.part == "groups"]
    if not off:
        return f"Groups: none of {count:,} is off by more than chance."
    worst = max(off, key=lambda failure: (failure.is_under, abs(failure.gap)))
    return (
        f"Groups: {len(off):,} of {count:,} off by more than chance, the worst {worst.text}: "
        f"{say_share(worst.coverage)} of {worst.n:,} rows covered."
    )


def coverage_line(row: Mapping[str, Any]) -> str:
    """Coverage at one level, with its band."""
    low, high = (100 * end for end in row["band"] or (0.0, 1.0))
    expected = f" (chance gives {low:.1f} to {high:.1f} %)" if row["band"] else ""
    return (
        f"{say_level(row['level'])} intervals cover {say_share(row['coverage'])} of rows held out"
        f"{expected}; mean length {say_number(row['mean_length'])}."
    )


def path_lines(paths: Mapping[str, Path]) -> Iterator[str]:
    """A line for each file."""
    for what, path in paths.items():
        size = path.stat().st_size
        large = f" ({size / 1e6:,.0f} MB)" if size > LARGE_FILE else ""
        yield f"{what[0].upper()}{what[1:] + ':':<21} {path}{large}"
