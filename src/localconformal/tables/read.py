"""A whole table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv
import pyarrow.parquet as pq

from localconformal.tables.arrow import convert_options, parse_options, read_options, to_pandas
from localconformal.tables.errors import TableError, check_columns
from localconformal.tables.source import column_names, csv_header, is_csv, sentences

#: More columns are no table of features but a matrix; those wanted are to be named.
MOST_COLUMNS = 2_000


def read_table(path: str | Path, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """A CSV (also ``.csv.gz``) or Parquet file as a pandas frame.

    Types of CSV columns are found from all their values: numbers, booleans, ISO times, texts.
    An index that pandas stored in a Parquet file is the index again.

    Parameters
    ----------
    path : str or Path
    columns : list of str, default=None
        Those to read, in this order; None is all of them.

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
            "those to use."
        )
    with sentences(path):
        table = read_csv(path, names, wanted) if is_csv(path) else read_parquet(path, wanted)
    if len(table) == 0:
        raise TableError(f"{path} has a header and no rows; at least one row was expected.")
    return table


def read_csv(path: Path, names: list[str], wanted: list[str]) -> pd.DataFrame:
    """The wanted columns; nameless ones go by their position."""
    raw = dict(zip(names, csv_header(path), strict=True))
    table = pyarrow.csv.read_csv(
        path,
        read_options=read_options(),
        parse_options=parse_options(),
        convert_options=convert_options([raw[name] for name in wanted]),
    )
    return to_pandas(table.rename_columns(wanted), path)


def read_parquet(path: Path, wanted: list[str]) -> pd.DataFrame:
    """The wanted columns, with the index that pandas stored."""
    file = pq.ParquetFile(path)
    index = index_name(file.schema_arrow)
    own = [name for name in wanted if name != index] if index else wanted
    frame = to_pandas(file.read(columns=[*own, *([index] if index else [])]), path)
    if index is None:
        return frame
    frame = frame.set_index(index)
    return frame.rename_axis(None if index.startswith("__index_level_") else index)


def index_name(schema: Any) -> str | None:
    """The column in which pandas stored the index, if there is one."""
    stored = (schema.pandas_metadata or {}).get("index_columns", [])
    named = [name for name in stored if isinstance(name, str)]
    return named[0] if len(named) == 1 else None
