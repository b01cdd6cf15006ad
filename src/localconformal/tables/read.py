"""A whole table in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from localconformal.tables.arrow import (
    convert_options,
    parse_options,
    read_options,
    to_pandas,
)
from localconformal.tables.batches import csv_name_type
from localconformal.tables.errors import TableError, check_columns
from localconformal.tables.parquet import parquet_table
from localconformal.tables.source import column_names, csv_header, is_csv, sentences

#: More columns are no table of features but a matrix; those wanted are to be named.
MOST_COLUMNS = 2_000
#: Larger integers than 64 bits hold; as floats they lose digits.
TOO_LARGE = 2.0**63


def read_table(
    path: str | Path, *, columns: Sequence[str] | None = None, exact: Collection[str] = ()
) -> pd.DataFrame:
    """A CSV (also ``.csv.gz``) or Parquet file as a pandas frame.

    Types of CSV columns are found from all their values: numbers, booleans, ISO times, texts.
    Integers of more than 64 bits are texts. An index that pandas stored in a Parquet file is the
    index again.

    Parameters
    ----------
    path : str or Path
    columns : list of str, default=None
        Those to read, in this order; None is all of them.
    exact : collection of str, default=()
        Columns to be copied, such as names of rows. Integers stay integers where some are missing,
        and codes such as 007 in a CSV file stay texts; Parquet's types stay what they are.

    Returns
    -------
    pandas frame, at least one row and one column

    Raises
    ------
    TableError
        One sentence that says what is wrong with the file and what to do.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "homes.csv"
    >>> _ = path.write_text("size,price\\n50,210\\n80,\\n")
    >>> read_table(path)
       size  price
    0    50  210.0
    1    80    NaN
    """
    path = Path(path)
    names = column_names(path)
    wanted = list(names if columns is None else dict.fromkeys(columns))
    check_columns(wanted, names, str(path))
    if len(wanted) > MOST_COLUMNS:
        raise TableError(
            f"{path} has {len(names):,} columns; at most {MOST_COLUMNS:,} were expected: name "
            "those to use with --features."
        )
    with sentences(path):
        read = read_csv if is_csv(path) else read_parquet
        table = read(path, names, wanted, exact)
    if len(table) == 0:
        raise TableError(f"{path} has a header and no rows; at least one row was expected.")
    return table


def read_csv(
    path: Path, names: list[str], wanted: list[str], exact: Collection[str]
) -> pd.DataFrame:
    """The wanted columns; nameless ones go by their position."""
    raw = dict(zip(names, csv_header(path), strict=True))
    types = {name: csv_name_type(path, raw[name]) for name in exact if name in wanted}
    table = arrow_csv(path, raw, wanted, types)
    large = [name for name in wanted if name not in types and holds_large(table.column(name))]
    # Without names, Arrow would read every column.
    as_texts = dict.fromkeys(large, pa.string())
    written: Any = arrow_csv(path, raw, large, as_texts) if large else None
    for name in large:
        if is_integer_text(written.column(name)):
            table = table.set_column(wanted.index(name), name, written.column(name))
    return to_pandas(table, path, exact)


def arrow_csv(path: Path, raw: dict[str, str], wanted: list[str], types: Mapping[str, Any]) -> Any:
    """Arrow's table of the wanted columns, named as here; ``raw`` has their names in the file."""
    stored = {raw[name]: kind for name, kind in types.items()}
    table = pyarrow.csv.read_csv(
        path,
        read_options=read_options(),
        parse_options=parse_options(),
        convert_options=convert_options([raw[name] for name in wanted], stored),
    )
    return table.rename_columns(wanted)


def holds_large(column: Any) -> bool:
    """Whether the column has been read as floats and may hold integers that lost digits."""
    if not pa.types.is_float64(column.type):
        return False
    largest = pc.max(pc.if_else(pc.is_finite(column), pc.abs(column), 0.0)).as_py()
    return largest is not None and largest >= TOO_LARGE


def is_integer_text(column: Any) -> bool:
    """Whether all texts are digits alone."""
    return bool(pc.all(pc.match_substring_regex(column, r"^\s*[+-]?\d+\s*$")).as_py())


def read_parquet(
    path: Path, names: list[str], wanted: list[str], exact: Collection[str]
) -> pd.DataFrame:
    """The wanted columns, with the index that pandas stored."""
    index = index_name(pq.read_schema(path))
    own = [name for name in wanted if name != index] if index else wanted
    table = parquet_table(path, [*own, *([index] if index else [])])
    frame = to_pandas(table, path, exact)
    if index is None:
        return frame
    frame = frame.set_index(index)
    return frame.rename_axis(None if index.startswith("__index_level_") else index)


def index_name(schema: Any) -> str | None:
    """The column in which pandas stored the index, if there is one."""
    about = schema.pandas_metadata
    stored = about.get("index_columns") if isinstance(about, dict) else None
    named = [name for name in stored or () if isinstance(name, str)]
    return named[0] if len(named) == 1 else None
