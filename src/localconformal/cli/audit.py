"""``localconformal audit``: for whom do anyone's intervals fail?"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from localconformal.cli.console import Columns, Json, Seed, check_shares, show, split_names, steps
from localconformal.io.files import check_outputs, write_together
from localconformal.text import json_text, say_level, say_rows

if TYPE_CHECKING:
    from localconformal.audit import Audit

_DEFAULT_LEVEL = 0.9
_column = functools.partial(typer.Option, metavar="COLUMN", show_default=False)


def audit(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file, or a folder of Parquet files, with y, both bounds and "
            "features.",
            show_default=False,
        ),
    ],
    y: Annotated[str, _column(help="Column of the observed values.")],
    lower: Annotated[str, _column(help="Column of the lower bounds.")],
    upper: Annotated[str, _column(help="Column of the upper bounds.")],
    groups: Annotated[Columns, _column(help="Column of group labels; repeatable.")] = None,
    features: Annotated[
        Columns,
        _column(help="Column to look for failures in; repeatable.", show_default="all the others"),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            help="Share of rows the intervals were made to cover.", show_default=str(_DEFAULT_LEVEL)
        ),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of report.html and audit.json.", file_okay=False)
    ] = Path("localconformal-audit"),
    as_json: Json = False,
) -> None:
    """Audit anyone's intervals: where, for whom do they fail?

    Parts of the rows that are covered too rarely fail; those covered too often are told
    apart. The rows must be new to whatever made the intervals.

    \b
    Example:  localconformal audit predictions.csv --y price --lower low --upper high \\
                  --groups region --level 0.9 --out audited
    """
    from localconformal.audit import audit as find_failures
    from localconformal.audit.audit import audit_text
    from localconformal.report import write_report
    from localconformal.tabular.run import GROUP_HINT

    target = _DEFAULT_LEVEL if level is None else level
    check_shares([target])
    page, data = out / "report.html", out / "audit.json"
    check_outputs([page, data], [predictions])
    with steps(3) as on_step:
        on_step("reading")
        rows = _read_rows(predictions, (y, lower, upper), groups, features)
        on_step("auditing")
        options: dict[str, Any] = {"confidence_level": target, "random_state": seed}
        found = find_failures(rows.X, rows.y, rows.intervals, rows.groups, **options)
        on_step("writing")
        told = {"file": predictions, "y": y, "lower": lower, "upper": upper, "seed": seed}
        record = {"input": told, **_record(found, rows.notes)}
        report, written = write_together(
            {
                page: lambda part: write_report(
                    found,
                    part,
                    X=rows.X,
                    y=rows.y,
                    intervals=rows.intervals,
                    random_state=seed,
                    group_hint=GROUP_HINT,
                ),
                data: lambda part: part.write_text(json_text(record), "utf-8"),
            }
        )
    said = [audit_text(found, rest=str(written)), *rows.notes]
    if level is None:
        said.append(f"The target of {say_level(target)} is the default; --level sets another.")
    document = {**record, "files": {"report": report, "audit": written}}
    show(document, [*said, f"Report: {report}", f"Data:   {written}"], as_json)


class _AuditRows(NamedTuple):
    """What is audited: features (n, d), y (n,), bounds (n, 2), labels by group, what to know."""

    X: Any
    y: Any
    intervals: Any
    groups: dict[str, Any] | None
    notes: list[str]


def _read_rows(
    path: Path, named: tuple[str, str, str], groups: Columns, features: Columns
) -> _AuditRows:
    """The rows with numbers in y, lower and upper; names are checked before the file is read."""
    import numpy as np

    from localconformal.io.tables import about, check_columns, read_table, table_columns
    from localconformal.preparation import as_floats, with_times

    columns = table_columns(path)
    by, among = split_names(groups, columns), split_names(features, columns)
    check_columns([*named, *by, *among], columns, str(path))
    table = read_table(path, columns=[*named, *by, *among] if among else None)
    with about(str(path)):
        numbers = np.column_stack([as_floats(table[name], flags=False) for name in named])
        known = np.asarray(~np.isnan(numbers).any(axis=1))
        _check_numbers(numbers[known], *named)
    kept, numbers = table[known].reset_index(drop=True), numbers[known]
    notes = []
    if left_out := len(known) - len(kept):
        rows = "1 row was" if left_out == 1 else f"{left_out:,} of {say_rows(len(known))} were"
        notes.append(f"{rows} left out: {', '.join(named)} are not all known there.")
    X = kept[list(dict.fromkeys(among))] if among else kept.drop(columns=list(named))
    if not X.shape[1]:
        X = X.assign(row=np.arange(len(X)))
        notes.append(
            "The table has no other column: failures are looked for along the order of its rows."
        )
    labels = {name: kept[name] for name in by} or None
    return _AuditRows(with_times(X), numbers[:, 0], numbers[:, 1:], labels, notes)


def _check_numbers(numbers: Any, y: str, lower: str, upper: str) -> None:
    """y, lower and upper (n, 3) can be meant, or one sentence; bounds may be infinite."""
    import numpy as np

    from localconformal.io.tables import TableError

    if len({y, lower, upper}) < 3:
        raise TableError(
            f"y, lower and upper are {y!r}, {lower!r} and {upper!r}; expected three different "
            "columns."
        )
    if len(numbers) == 0:
        raise TableError(
            f"no row has a number in each of {y!r}, {lower!r} and {upper!r}; expected at least one."
        )
    if not np.isfinite(numbers[:, 0]).all():
        raise TableError(f"column {y!r} holds infinite values; expected finite numbers.")
    if (numbers[:, 1] > numbers[:, 2]).all():
        raise TableError(
            f"{lower!r} is above {upper!r} in every row; expected the lower bounds in {lower!r}: "
            "swap the two names."
        )


def _record(found: Audit, notes: Sequence[str]) -> dict[str, Any]:
    """The audit as plain data: everything of `Audit`, significant failures apart."""
    whole = asdict(found)
    return {
        "summary": whole["summary"],
        "failures": [asdict(failure) for failure in found.failures()],
        **{part: whole[part] for part in ("rules", "features", "groups", "sizes", "slab")},
        "notes": [*notes, *whole["notes"]],
    }
