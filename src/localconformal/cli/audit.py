"""``localconformal audit``: where and for whom do intervals fail, whoever made them?"""

from __future__ import annotations

import functools
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.cli import console
from localconformal.cli.console import Columns, argument, split_names
from localconformal.io.files import check_outputs, write_together
from localconformal.progress import stage
from localconformal.text import json_text, say_level, say_rows

_column = functools.partial(typer.Option, metavar="COLUMN", show_default=False)


def audit(
    predictions: Annotated[Path, argument(help="A table of y, both bounds and features.")],
    y: Annotated[str, _column(help="Column of the observed values.")],
    lower: Annotated[str, _column(help="Column of the lower bounds.")],
    upper: Annotated[str, _column(help="Column of the upper bounds.")],
    groups: Annotated[Columns, _column(help="Column of group labels; repeatable.")] = None,
    features: Annotated[Columns, _column(help="Feature; repeatable. Default: all.")] = None,
    level: Annotated[
        float | None, console.option(help="Share of rows to cover. Default: 0.9.")
    ] = None,
    seed: console.Seed = 0,
    out: console.Out = Path("localconformal-audit"),
    as_json: console.Json = False,
) -> None:
    """Audit any intervals: where and for whom do they fail?

    Looks for parts of the rows that are covered too rarely; those covered too often are listed
    separately. The rows must be new to whatever made the intervals. Writes report.html and
    audit.json.

    \b
    Example:  localconformal audit predictions.csv --y price --lower low --upper high \\
                  --groups region --level 0.9 --out audited
    """
    from localconformal.audit import audit as find_failures
    from localconformal.audit.audit import audit_text
    from localconformal.report import write_report
    from localconformal.tabular.model import as_levels
    from localconformal.tabular.run import GROUP_HINT

    (target,) = as_levels(level, default=(0.9,))
    files = {"report": out / "report.html", "audit": out / "audit.json"}
    check_outputs(files.values(), [predictions])
    with stage("", 3) as on_step:
        on_step("reading")
        rows, by, notes = _read_rows(predictions, (y, lower, upper), groups, features)
        on_step("auditing")
        options: dict[str, Any] = {**rows, "random_state": seed}
        found = find_failures(**options, groups=by, confidence_level=target)
        on_step("writing")
        told = {"file": predictions, "y": y, "lower": lower, "upper": upper, "seed": seed}
        whole, failures = asdict(found), [asdict(failure) for failure in found.failures()]
        record = {"input": told, "summary": whole["summary"], "failures": failures}
        record |= {part: whole[part] for part in ("rules", "features", "groups", "sizes", "slab")}
        record["notes"] = [*notes, *found.notes]
        writers = (
            lambda part: write_report(found, part, **options, group_hint=GROUP_HINT),
            lambda part: part.write_text(json_text(record), "utf-8"),
        )
        write_together(dict(zip(files.values(), writers, strict=True)))
    said = [audit_text(found, rest=str(files["audit"])), *notes]
    if level is None:
        said.append(f"The target of {say_level(target)} is the default; change it with --level.")
    console.show({**record, "files": files}, said, as_json)


def _read_rows(
    path: Path, named: tuple[str, str, str], groups: Columns, features: Columns
) -> tuple[dict[str, Any], dict[str, Any] | None, list[str]]:
    """X (n, d), y (n,) and intervals (n, 2) of rows with no missing number; groups; notes."""
    import numpy as np

    from localconformal.io.tables import TableError, about, check_columns, read_table, table_columns
    from localconformal.preparation import as_floats, with_times
    from localconformal.tabular.run import check_groups

    columns, (y, lower, upper) = table_columns(path), named
    by, among = split_names(groups, columns), split_names(features, columns)
    check_columns([*named, *by, *among], columns, str(path))
    table = read_table(path, columns=[*named, *by, *among] if among else None)
    with about(str(path)):
        numbers = np.column_stack([as_floats(table[name], flags=False) for name in named])
        known = np.asarray(~np.isnan(numbers).any(axis=1))
        numbers, asked = numbers[known], f"{y!r}, {lower!r} and {upper!r}"
        if len(set(named)) < 3:
            raise TableError(f"y, lower and upper are {asked}; expected three different columns.")
        if len(numbers) == 0:
            raise TableError(f"no row has a number in each of {asked}; expected at least one.")
        if not np.isfinite(numbers[:, 0]).all():
            raise TableError(f"column {y!r} holds infinite values; expected finite numbers.")
        if (numbers[:, 1] > numbers[:, 2]).all():
            raise TableError(f"{lower!r} is above {upper!r} in every row; swap the two names.")
        kept = table[known].reset_index(drop=True)
        check_groups(kept, by)
    notes = []
    if left_out := len(known) - len(kept):
        some = "1 row was" if left_out == 1 else f"{left_out:,} of {say_rows(len(known))} were"
        notes.append(f"{some} left out: {y}, {lower} or {upper} is missing there.")
    # In the intervals.csv of a run, these are no features.
    is_run = {"row", "actual"} <= set(columns)
    own = re.compile(r"row|predicted|(lower|upper)_[\d.]+" if is_run else r"(?!)")
    others = [name for name in kept if name not in named and not own.fullmatch(name)]
    X = kept[list(dict.fromkeys(among)) or others]
    if not X.shape[1]:
        X = X.assign(row=np.arange(len(X)))
        notes.append("The table has no features: the audit goes by the order of its rows.")
    labels = {name: kept[name] for name in by} or None
    rows = {"X": with_times(X), "y": numbers[:, 0], "intervals": numbers[:, 1:]}
    return rows, labels, notes
