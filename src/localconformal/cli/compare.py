"""``localconformal compare``: all methods on one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localconformal.cli import console
from localconformal.io.files import check_outputs, write_together
from localconformal.text import json_text, say_difference, say_level, say_number

if TYPE_CHECKING:
    from localconformal.tabular import Ranking

_ON_METHODS = "Methods are explained in docs/methods.md, and in Python by localconformal.methods()."


def compare(
    data: console.Data,
    target: console.Target,
    methods: Annotated[
        console.Columns, console.option(help=f"{console.METHOD_NAMES}. Default: all.")
    ] = None,
    features: console.Features = None,
    model: console.Model = "hgb",
    level: Annotated[float, typer.Option("--level", "-l", help="Share of rows to cover.")] = 0.9,
    support: console.Support = None,
    integer: console.Integer = False,
    sides: console.Sides = None,
    cv: console.Folds = None,
    test_size: console.TestSize = 0.2,
    repeats: Annotated[int, typer.Option(help="Random splits to average over.")] = 1,
    seed: console.Seed = 0,
    out: console.Out = Path("localconformal-compare"),
    as_json: console.Json = False,
) -> None:
    """Rank methods on one table: same rows, same base model.

    Running all methods takes a few minutes. Writes compare.csv, compare.json and report.html.

    Methods are explained in docs/methods.md, and in Python by localconformal.methods().

    \b
    Example:  localconformal compare homes.csv --target price --out compared
              localconformal compare homes.csv -t price --methods slcp,cqr,split
    """
    from localconformal.io.tables import read_table, table_columns, write_table
    from localconformal.tabular.compare import compare_methods
    from localconformal.tabular.model import model_file

    names = {"report": "report.html", "table": "compare.csv", "data": "compare.json"}
    files = {what: out / name for what, name in names.items()}
    check_outputs(files.values(), [data, model_file(model)])
    asked = console.split_names(methods, [])
    chosen = console.split_names(features, table_columns(data))
    table = read_table(data, columns=[target, *chosen] if chosen else None)
    found = compare_methods(
        table,
        target,
        asked,
        model=model,
        confidence_level=level,
        features=chosen,
        test_size=test_size,
        repeats=repeats,
        random_state=seed,
        support=console.ends_of(support),
        integer=integer,
        sides=sides,
        cv=console.folds_of(cv),
        source=str(data),
    )
    record = {"data": data, "target": target, "model": model, **found.record()}
    writers: tuple[Callable[[Path], object], ...] = (
        found.write_report,
        lambda part: write_table([found.frame()], part),
        lambda part: part.write_text(json_text(record), "utf-8"),
    )
    write_together(dict(zip(files.values(), writers, strict=True)))
    parts = [*found.notes, _standings_table(found), *ranking_lines(found), _ON_METHODS]
    console.show({**record, "files": files}, parts, as_json)


def _standings_table(found: Ranking) -> Any:
    """One line per method, best first; a coverage whose band misses the target is coloured."""
    from rich.text import Text

    level, first = found.confidence_level, found.trials[0]
    made, size = ("bounds", "bound") if found.is_one_sided else ("intervals", "length")
    rows = f"{first.n_fit:,} rows to fit and calibrate, {len(first.y):,} new rows"
    table = console.numbers_table(
        f"{say_level(level)} {made}: {rows}",
        f"{found.on_score} Seconds: to fit and calibrate.",
        *("method", "score", "above the best", "coverage, %", f"mean {size}", "seconds"),
    )
    for row in found.standings():
        share, low, high = (100 * row[f"coverage{end}"] for end in ("", "_lower", "_upper"))
        style = "red" if high < 100 * level else "yellow" if low > 100 * level else ""
        difference = [row[f"interval_score_difference{end}"] for end in ("", "_lower", "_upper")]
        # Neither the best nor an infinite score has a difference to show.
        is_told = not math.isnan(difference[1]) and math.isfinite(row["interval_score"])
        table.add_row(
            Text(row["method"], style="bold"),
            say_number(row["interval_score"]),
            say_difference(*difference) if is_told else "",
            Text(f"{share:.1f} [{low:.0f}, {high:.0f}]", style=style),
            say_number(row[f"mean_{size}"]),
            f"{row['fit_seconds']:.1f}",
        )
    return table


def ranking_lines(found: Ranking) -> Iterator[str]:
    """Which method is best, which are indistinguishable from it, and what failed."""
    best, *others = found.standings()
    finite = (row for row in others if math.isfinite(row["interval_score"]))
    alike = [row["method"] for row in finite if not row["interval_score_difference_lower"] > 0.0]
    if others:
        tail = f", not distinguishable from {', '.join(alike)}" if alike else ""
        yield f"Best by the interval score: {best['method']}{tail} (95 % confidence, same rows)."
    for name, why in found.failed.items():
        yield f"Failed: {name}: {why}"
