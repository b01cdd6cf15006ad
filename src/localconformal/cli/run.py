"""``localconformal run``: from a table to checked intervals, a report and a model."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.cli.console import (
    Data,
    Json,
    Level,
    Seed,
    prose,
    sayable,
    show,
    split_names,
    steps,
)

Columns = list[str] | None


def run(
    data: Data,
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
    method: Annotated[str, typer.Option(help="See: localconformal methods.")] = "slcp",
    law: Annotated[
        str | None,
        typer.Option(help="auto, forest, learned, kernel, ...", show_default="the method's"),
    ] = None,
    new: Annotated[
        Path | None, typer.Option(help="A table of new rows to predict too.", show_default=False)
    ] = None,
    test_size: Annotated[float, typer.Option(help="Share of rows held out to check on.")] = 0.2,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of the results; made if needed.", file_okay=False)
    ] = Path("localconformal-run"),
    as_json: Json = False,
) -> None:
    """Fit and calibrate on a table, check on rows held out, write it all down.

    Writes intervals (CSV and Parquet), report.html, model.skops and run.json.

    \b
    Example:  localconformal run homes.csv --target price --out homes
              localconformal run homes.csv -t price --groups region --new new.csv
    """
    from localconformal.tables import read_table
    from localconformal.workflow.model import Settings
    from localconformal.workflow.predicting import FilePrediction
    from localconformal.workflow.run_files import write_run
    from localconformal.workflow.running import STEPS, Task, run_record, run_table

    check_numbers(level, test_size)
    with steps(len(STEPS)) as on_step:
        on_step(STEPS[0])
        table = read_table(data)
        columns = list(table.columns)
        settings = Settings(
            method=method,
            model=model,
            levels=tuple(dict.fromkeys(level)),
            law=law,
            features=tuple(split_names(features, columns)),
            groups=tuple(split_names(groups, columns)),
            seed=seed,
        )
        task = Task(target, settings, identifier, test_size)
        done = run_table(table, task, source=str(data), on_step=on_step)
        on_step(STEPS[3])
        prediction = None if new is None else FilePrediction(done.model, new)
        record = sayable(
            {
                "command": shlex.join(["localconformal", *sys.argv[1:]]),
                "data": {"file": data, "new": new},
                **run_record(done, task),
            }
        )
        paths = write_run(done, out, record, prediction)
    notes = [] if prediction is None else prediction.notes()
    document = {**record, "notes": notes, "files": sayable(paths)}
    show(document, summary(document, done), as_json)


def check_numbers(levels: list[float], test_size: float) -> None:
    """Levels and shares that can be meant, before any work is done."""
    for name, value in [*(("--level", level) for level in levels), ("--test-size", test_size)]:
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} is {value:g}; a number inside (0, 1) was expected.")


def summary(document: dict[str, Any], done: Any) -> Iterator[Any]:
    """What a person wants to know, in a dozen lines."""
    rows = document["rows"]
    yield (
        f"{rows['input']:,} rows: {rows['train']:,} to train, {rows['calibrate']:,} to calibrate, "
        f"{rows['hold out']:,} held out to check on."
    )
    yield from map(prose, document["preparation"])
    yield ""
    for row in document["coverage"]:
        yield coverage_line(row)
    failures = done.audit.failures()
    yield prose(
        f"Where coverage fails: {len(failures)} part(s) of the data, see the report; the first: "
        f"{failures[0].text}."
        if failures
        else "Where coverage fails: nowhere by more than chance."
    )
    yield from map(prose, document["notes"])
    yield ""
    for what, path in document["files"].items():
        yield f"{what[0].upper()}{what[1:] + ':':<21} {path}"


def coverage_line(row: dict[str, Any]) -> str:
    """Coverage at one level, with its band."""
    band = row["band"]
    expected = f" (chance gives {band[0]:.1%} to {band[1]:.1%})" if band else ""
    return (
        f"{row['level']:.0%} intervals cover {row['coverage']:.1%} of rows held out{expected}; "
        f"mean length {row['mean_length']:.4g}."
    )
