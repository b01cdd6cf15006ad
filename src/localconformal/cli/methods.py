"""``localconformal methods``: what there is to choose from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from localconformal.cli.console import Json, show
from localconformal.cli.layout import empty_table

COST = "cost beyond the model's"
#: Heading of a line -> key of a method's record.
LINES = {
    "estimator": "estimator",
    "promise": "guarantee",
    "cost": "cost",
    "for": "when",
    "reference": "reference",
    "note": "note",
}


def methods(
    name: Annotated[
        str | None, typer.Argument(help="One method, in detail.", show_default=False)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods: promise, cost, and what each is for.

    \b
    Example:  localconformal methods
              localconformal methods cqr
    """
    from localconformal.workflow.methods import find_method, method_record, named_methods

    if name is not None:
        record = method_record(find_method(name))
        show(record, detail(record), as_json)
        return
    records = [method_record(method) for method in named_methods()]
    hint = "More on one: localconformal methods NAME"
    show({"methods": records}, [overview(records), hint], as_json)


def overview(records: list[dict[str, Any]]) -> Any:
    """All methods as a rich table."""
    table = empty_table({"name": "left", "promise": "left", COST: "left", "for": "left"})
    for record in records:
        table.add_row(record["name"], record["guarantee"], record["cost"], record["when"])
    return table


def detail(record: Mapping[str, Any]) -> Iterator[Any]:
    """One method as lines."""
    yield f"{record['name']}: {record['method']}"
    for heading, key in LINES.items():
        if record[key]:
            yield f"  {heading:<10} {record[key]}"
    for paragraph in record["summary"]:
        yield ""
        yield from wrapped(paragraph)
    yield ""
    parameters = ", ".join(f"{name}={value}" for name, value in record["parameters"].items())
    yield from wrapped(f"Parameters: {parameters}")
    yield ""
    yield f"On a table: localconformal run DATA.csv --target y --method {record['name']} --out DIR"
    yield f"In Python:  from localconformal import {record['estimator']}"


def wrapped(text: str) -> list[str]:
    """Lines of a width that reads well, words whole."""
    import textwrap

    return textwrap.wrap(text, width=90, break_long_words=False, break_on_hyphens=False)
