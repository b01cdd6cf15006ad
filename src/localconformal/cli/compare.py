"""``localconformal compare``: all methods on one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localconformal.cli.compare_rendering import conclusion, standings_table
from localconformal.cli.console import (
    METHOD_NAMES,
    Data,
    Json,
    Seed,
    show,
    split_names,
    steps,
    to_json,
)
from localconformal.cli.run import Columns, check_numbers
from localconformal.io.files import check_inputs_stay

FILES = ("report.html", "compare.csv", "compare.json")


def compare(
    data: Data,
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)
    ],
    methods: Annotated[
        Columns,
        typer.Option(help=f"{METHOD_NAMES}; a,b or repeated.", show_default="all"),
    ] = None,
    features: Annotated[
        Columns, typer.Option(help="Columns to predict from: a,b or repeated.", show_default="all")
    ] = None,
    model: Annotated[
        str, typer.Option(help="hgb, forest, linear, or a .skops file to fit anew.")
    ] = "hgb",
    level: Annotated[
        float, typer.Option("--level", "-l", help="Share of rows to cover, inside (0, 1).")
    ] = 0.9,
    test_size: Annotated[float, typer.Option(help="Share of rows held out to test on.")] = 0.2,
    repeats: Annotated[int, typer.Option(help="Random splits to average over.")] = 1,
    seed: Seed = 0,
    out: Annotated[
        Path, typer.Option(help="Folder of the results; made if needed.", file_okay=False)
    ] = Path("localconformal-compare"),
    as_json: Json = False,
) -> None:
    """Rank methods on one table: same rows, same base model.

    All methods take some minutes. Writes compare.csv, compare.json and report.html.

    \b
    Example:  localconformal compare homes.csv --target price --out compared
              localconformal compare homes.csv -t price --methods slcp,cqr,split
    """
    from localconformal.io.files import check_folder, write_together
    from localconformal.io.tables import column_names, read_table, write_table
    from localconformal.workflow.base_models import model_file
    from localconformal.workflow.comparison import compare_table, count_steps
    from localconformal.workflow.comparison_output import (
        comparison_frame,
        comparison_record,
        write_comparison_page,
    )
    from localconformal.workflow.model import Settings
    from localconformal.workflow.running import Task

    check_numbers([level], test_size)
    check_folder(out)
    page, ranking, numbers = (out / name for name in FILES)
    check_inputs_stay([page, ranking, numbers], [data, model_file(model)])
    names = split_names(methods, [])
    chosen = tuple(split_names(features, column_names(data)))
    table = read_table(data, columns=[target, *chosen] if chosen else None)
    settings = Settings(model=model, levels=(level,), features=chosen, seed=seed)
    task = Task(target, settings, test_size=test_size)
    with steps(count_steps(names, repeats)) as on_step:
        found = compare_table(
            table, task, names, repeats=repeats, source=str(data), on_step=on_step
        )
    record = {"data": data, "target": target, "model": model, **comparison_record(found)}
    paths = write_together(
        {
            page: lambda part: write_comparison_page(found, part, random_state=seed),
            ranking: lambda part: write_table([comparison_frame(found)], part),
            numbers: lambda part: part.write_text(to_json(record), "utf-8"),
        }
    )
    files = dict(zip(("report", "table", "data"), paths, strict=True))
    said = [f"{name.capitalize() + ':':<8} {path}" for name, path in files.items()]
    parts = [*found.notes, standings_table(found), *conclusion(found), *said]
    show({**record, "files": files}, parts, as_json)
