"""``localconformal datasets``: real data by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.cli.console import Json, show
from localconformal.cli.layout import empty_table
from localconformal.cli.overwriting import check_inputs_stay

LEGEND = (
    "* a stand-in for another data set of the papers: its figures are its own.\n"
    "Here: the file is on this machine (folder LOCALCONFORMAL_DATA, or the cache).\n"
    "More on one: localconformal datasets NAME; as a table: --out FILE"
)


def datasets(
    name: Annotated[
        str | None, typer.Argument(help="One data set, in detail.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write it there, as CSV or Parquet by the suffix.",
            dir_okay=False,
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List real data sets by name, or write one as a table.

    A file that is not on this machine is downloaded from its public source where there is one.

    \b
    Example:  localconformal datasets
              localconformal datasets concrete --out concrete.csv
    """
    from localconformal.datasets import DATASETS
    from localconformal.workflow.named_data import dataset_record, find_dataset

    if name is not None:
        record = dataset_record(find_dataset(name))
        if out is not None:
            record |= {"file": write(name, out), "present": True}
        show(record, detail(record), as_json)
        return
    if out is not None:
        raise ValueError(f"--out {out} came without a name; say which data set to write.")
    records = [dataset_record(entry) for entry in DATASETS.values()]
    show({"datasets": records}, [overview(records), LEGEND], as_json)


def write(name: str, out: Path) -> Path:
    """The data set as a file, whole or not there."""
    from localconformal.datasets import load_dataset
    from localconformal.datasets.files import find_file
    from localconformal.files import check_folder, write_whole
    from localconformal.tables import write_table
    from localconformal.tables.write import check_suffix
    from localconformal.workflow.named_data import dataset_table, find_dataset

    check_suffix(out)
    check_folder(out.parent)
    check_inputs_stay([out], [find_file(find_dataset(name).file)])
    table = dataset_table(load_dataset(name))
    return write_whole(out, lambda part: write_table([table], part))


def overview(records: list[dict[str, Any]]) -> Any:
    """All data sets as a rich table."""
    figures, texts = ("rows", "features"), ("target", "source", "here")
    table = empty_table(
        {"name": "left", **dict.fromkeys(figures, "right"), **dict.fromkeys(texts, "left")}
    )
    for record in records:
        table.add_row(
            record["name"] + ("*" if record["stand_in"] else ""),
            f"{record['rows']:,}",
            f"{record['features']:,}",
            record["target"],
            record["source"],
            "yes" if record["present"] else "no",
        )
    return table


def detail(record: Mapping[str, Any]) -> Iterator[str]:
    """One data set as lines."""
    yield f"{record['name']}: {record['rows']:,} rows, {record['features']:,} features"
    yield f"  target    {record['target']}"
    if record["groups"]:
        yield f"  groups    {', '.join(record['groups'])}"
    yield f"  source    {record['source']}"
    yield f"  here      {'yes' if record['present'] else 'no'}"
    if record["stand_in"]:
        yield f"  stand-in  {record['stand_in']}"
    if "file" in record:
        yield f"Table: {record['file']}"
