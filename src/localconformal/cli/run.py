"""``localconformal run``: checked intervals for a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localconformal.cli import console
from localconformal.io.files import check_outputs
from localconformal.progress import stage
from localconformal.text import say_band, say_level, say_number, say_share

if TYPE_CHECKING:
    from localconformal.audit import Audit
    from localconformal.tabular.run import Run


def run(
    data: console.Data,
    target: console.Target,
    features: console.Features = None,
    groups: Annotated[
        console.Columns,
        console.option(help="Columns of groups to audit; with several, each is covered."),
    ] = None,
    identifier: Annotated[
        str | None, console.option("--id", help="Column that identifies rows.")
    ] = None,
    model: console.Model = "default",
    level: Annotated[
        list[float], typer.Option("--level", "-l", help="Share of rows to cover; repeatable.")
    ] = [0.9],  # noqa: B006
    method: Annotated[
        str | None,
        typer.Option(
            help=f"{console.METHOD_NAMES}.", show_default="slcp; conditional for several groups"
        ),
    ] = None,
    law: Annotated[
        str | None, console.option(help="auto, forest, kernel, ... Default: the method's.")
    ] = None,
    new: Annotated[Path | None, console.option(help="A table of new rows to predict.")] = None,
    support: console.Support = None,
    integer: console.Integer = False,
    sides: console.Sides = None,
    cv: console.Folds = None,
    test_size: console.TestSize = 0.2,
    time: Annotated[
        str | None, console.option(help="Column of times; the last rows are held out.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Report which features make intervals wide.")
    ] = False,
    seed: console.Seed = 0,
    out: console.Out = Path("localconformal-run"),
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print each stage.")] = False,
    as_json: console.Json = False,
) -> None:
    """Make intervals for a table: fit, calibrate, check on held-out rows.

    Writes intervals (CSV and Parquet), report.html, model.skops and run.json. Bounds are the
    columns lower and upper; with several levels, lower_0.9, upper_0.9 and so on, and the audit and
    the report use the first level.

    \b
    Example:  localconformal run homes.csv --target price --out homes
              localconformal run homes.csv -t price --groups region --new new.csv
    """
    from localconformal.io.models import skops_io
    from localconformal.io.tables import read_table, table_columns
    from localconformal.tabular.model import model_file
    from localconformal.tabular.run import run_paths, run_table, write_run

    # Fail before the fit if the model could not be saved.
    skops_io()
    # Including the intervals of new rows: those of an earlier run are removed.
    check_outputs(run_paths(out, new=True).values(), [data, new, model_file(model)])
    with console.log_lines() if verbose else nullcontext():
        columns = table_columns(data)
        chosen, by = console.split_names(features, columns), console.split_names(groups, columns)
        others = [name for name in (identifier, time) if name is not None]
        wanted = [target, *others, *chosen, *by] if chosen else None
        with stage("read"):
            table = read_table(data, columns=wanted, names=[identifier] if identifier else ())
        done = run_table(
            table,
            target,
            method=method,
            model=model,
            confidence_level=level,
            law=law,
            features=chosen,
            groups=by,
            identifier=identifier,
            test_size=test_size,
            time=time,
            random_state=seed,
            support=console.ends_of(support),
            integer=integer,
            sides=sides,
            cv=console.folds_of(cv),
            source=str(data),
            new=new,
            explain=explain,
        )
        command = shlex.join(["localconformal", *sys.argv[1:]])
        about_run = {"command": command, "data": {"file": data, "new": new}}
        # Everything that can fail comes before the files are written.
        said = list(_summary(done))
        paths, notes = write_run(done, out, new=new, about_run=about_run)
    document = {**about_run, **done.record(), "notes": notes, "files": paths}
    console.show(document, [*said, *map(console.prose, notes), ""], as_json)


def _summary(done: Run) -> Iterator[Any]:
    n, _, train, calibrate, held = (f"{count:,}" for count in done.rows.values())
    parts = f"{train} to train, {calibrate} to calibrate"
    if done.task.cv is not None:
        parts = f"{train} to train and calibrate"
    yield f"{n} rows: {parts}, {held} held out for checking."
    yield from map(console.prose, done.notes)
    yield ""
    for row in done.coverage():
        expected = f" (expected {say_band(*row['band'])} %)" if row["band"] else ""
        covered = f"{done.made} cover {say_share(row['coverage'])} of held-out rows{expected}"
        length = f"mean length {say_number(row['mean_length'])}"
        if "mean_bound" in row:
            length = f"mean bound {say_number(row['mean_bound'])}"
        yield f"{say_level(row['level'])} {covered}; {length}."
    levels = done.model.levels
    if len(levels) > 1:
        yield f"The audit and the report use {say_level(levels[0])}, the first level."
    said = (done.accuracy.text, done.accuracy.warning, *_audit_lines(done.audit))
    yield from map(console.prose, filter(None, said))


def _audit_lines(audit: Audit) -> Iterator[str]:
    from localconformal.audit.audit import part_verdict

    titles = {True: "Where coverage fails", False: "Where coverage exceeds the target"}
    for is_under, title in titles.items():
        parts = [failure for failure in audit.failures() if failure.is_under == is_under]
        many = "1 part" if len(parts) == 1 else f"{len(parts):,} parts"
        if parts:
            yield f"{title}: {many} of the data, see the report; the first: {parts[0].text}."
        elif is_under:
            yield f"{title}: nowhere by more than chance."
    if audit.groups:
        yield f"Groups: {part_verdict(audit, 'groups')}."
