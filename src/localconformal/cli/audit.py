"""``localconformal audit``: for whom do anyone's intervals fail?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.cli.console import Json, Seed, show, split_names, steps, to_json
from localconformal.io.files import check_inputs_stay
from localconformal.text import say_level

DEFAULT_LEVEL = 0.9


def audit(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="A CSV or Parquet file with y, both bounds and features.", show_default=False
        ),
    ],
    y: Annotated[
        str,
        typer.Option(help="Column of the observed values.", metavar="COLUMN", show_default=False),
    ],
    lower: Annotated[
        str, typer.Option(help="Column of the lower bounds.", metavar="COLUMN", show_default=False)
    ],
    upper: Annotated[
        str, typer.Option(help="Column of the upper bounds.", metavar="COLUMN", show_default=False)
    ],
    groups: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of group labels; repeatable.", metavar="COLUMN", show_default=False
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to look for failures in; repeatable.",
            metavar="COLUMN",
            show_default="all the others",
        ),
    ] = None,
    level: Annotated[
        float | None,
        typer.Option(
            help="Share of rows the intervals were made to cover.", show_default=str(DEFAULT_LEVEL)
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
    from localconformal.audit.sentences import audit_text
    from localconformal.io.files import check_folder, write_together
    from localconformal.io.tables import column_names, read_table
    from localconformal.report import write_report
    from localconformal.workflow.auditing import GROUP_HINT, audit_record, audit_table

    target = DEFAULT_LEVEL if level is None else level
    check_folder(out)
    page, data = out / "report.html", out / "audit.json"
    check_inputs_stay([page, data], [predictions])
    with steps(3) as on_step:
        on_step("reading")
        columns = column_names(predictions)
        by, among = split_names(groups, columns), split_names(features, columns)
        rows = read_table(predictions, columns=[y, lower, upper, *by, *among] if among else None)
        on_step("auditing")
        found = audit_table(
            rows,
            y=y,
            lower=lower,
            upper=upper,
            groups=by,
            features=among,
            confidence_level=target,
            random_state=seed,
            source=str(predictions),
        )
        on_step("writing")
        record: dict[str, Any] = {
            "input": {"file": predictions, "y": y, "lower": lower, "upper": upper, "seed": seed},
            **audit_record(found),
        }
        report, written = write_together(
            {
                page: lambda part: write_report(
                    found.audit,
                    part,
                    X=found.X,
                    y=found.y,
                    intervals=found.intervals,
                    random_state=seed,
                    group_hint=GROUP_HINT,
                ),
                data: lambda part: part.write_text(to_json(record), "utf-8"),
            }
        )
    said = [audit_text(found.audit, rest=str(written)), *found.notes]
    if level is None:
        said.append(f"The target of {say_level(target)} is the default; --level sets another.")
    document = {**record, "files": {"report": report, "audit": written}}
    show(document, [*said, f"Report: {report}", f"Data:   {written}"], as_json)
