"""A table in batches of rows: files larger than memory, read with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv

from localconformal.tables.arrow import (
    ARROW_TYPES,
    NAME,
    convert_options,
    parse_options,
    read_options,
    to_pandas,
    told,
)
from localconformal.tables.errors import TableError, check_columns
from localconformal.tables.names import name_type
from localconformal.tables.parquet import parquet_batches
from localconformal.tables.source import column_names, csv_header, is_csv, sentences

DEFAULT_ROWS = 65_536


def table_batches(
    path: str | Path, types: Mapping[str, str], *, rows: int = DEFAULT_ROWS
) -> Iterator[pd.DataFrame]:
    """The named columns of a CSV or Parquet file, batch by batch, in the order of the file.

    The types are told, not found: a batch in which a column happens to be empty, or whole numbers
    only, has the types of all others. What is wrong with the head of the file is said at once,
    what is wrong further down when it is met.

    Parameters
    ----------
    path : str or Path
    types : column -> "number", "text", "time" or "name"
        "number" comes as float64, "text" as strings, "time" as the times that Parquet holds and
        else as strings to be parsed; all of them with missing values. "name" is the exception, a
        column to be copied: it comes in the type it has in a Parquet file, and of a CSV file, whose
        column is looked through first, as integers, floats or strings.
    rows : int, default=65536
        Of a batch; the last may have fewer.

    Yields
    ------
    pandas frame
        Its index is the position of each row in the file, from 0.

    Raises
    ------
    TableError

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("a,b\\n1,x\\n2,\\n3,z\\n")
    >>> [batch["a"].tolist() for batch in table_batches(path, {"a": "number"}, rows=2)]
    [[1.0, 2.0], [3.0]]
    """
    path = Path(path)
    names = column_names(path)
    check_columns(types, names, str(path))
    read = csv_batches(path, names, types) if is_csv(path) else parquet_batches(path, list(types))
    return frames(path, regroup(read, rows), types)


def frames(path: Path, tables: Iterator[Any], types: Mapping[str, str]) -> Iterator[pd.DataFrame]:
    """Each table as a frame with the numbers of its rows."""
    begun, exact = 0, [name for name, kind in types.items() if kind == NAME]
    with sentences(path):
        for table in tables:
            frame = to_pandas(as_told(table, types, path), path, exact)
            frame.index = pd.RangeIndex(begun, begun + len(frame))
            begun += len(frame)
            yield frame
    if begun == 0:
        raise TableError(f"{path} has a header and no rows; at least one row was expected.")


def csv_batches(path: Path, names: list[str], types: Mapping[str, str]) -> Iterator[Any]:
    """Record batches of a CSV file."""
    raw = dict(zip(names, csv_header(path), strict=True))
    stored = {
        raw[name]: csv_name_type(path, raw[name]) if kind == NAME else ARROW_TYPES[kind]
        for name, kind in types.items()
    }
    for batch in csv_blocks(path, stored):
        yield batch.rename_columns(list(types))


def csv_name_type(path: Path, raw: str) -> Any:
    """Arrow's type for the names of rows in this column, from all of its rows."""
    return name_type(block.column(0) for block in csv_blocks(path, {raw: pa.string()}))


def csv_blocks(path: Path, stored: Mapping[str, Any]) -> Iterator[Any]:
    """Record batches of the columns of a CSV file in these types of Arrow."""
    reader = pyarrow.csv.open_csv(
        path,
        read_options=read_options(use_threads=False),
        parse_options=parse_options(),
        convert_options=convert_options(list(stored), dict(stored)),
    )
    with reader:
        yield from reader


def regroup(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Tables of exactly ``rows`` rows, the last with what is left."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        while sum(len(one) for one in held) >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
    if sum(len(one) for one in held):
        yield pa.Table.from_batches(held)


def as_told(table: Any, types: Mapping[str, str], path: Path) -> Any:
    """Columns of Parquet, which have types of their own, in those that were told."""
    columns = [told(table.column(name), kind, name, path) for name, kind in types.items()]
    return pa.table(columns, names=list(types))
