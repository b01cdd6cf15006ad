"""A folder of Parquet files as one table: a Dask frame, or a list of files with their rows.

Files follow each other by name, and a partition is a row group: what a writer meant to be read at
once. How many rows there are is read off the files' own accounts, not off the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from localconformal.distributed.computing import load
from localconformal.io.tables import (
    TableError,
    check_columns,
    column_names,
    index_name,
    sentences,
    to_pandas,
)

SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True)
class Piece:
    """A row group: where it is, and where in the table its rows begin."""

    path: Path
    group: int
    start: int
    rows: int


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names, those of a dot or _ left out."""
    if not path.is_dir():
        return [path]
    found = sorted(
        file
        for file in path.rglob("*")
        if file.suffix.lower() in SUFFIXES and not file.name.startswith((".", "_"))
    )
    if not found:
        raise TableError(
            f"{path} has no file that ends in {' or '.join(SUFFIXES)}; a folder of Parquet files "
            "was expected."
        )
    first = column_names(found[0])
    for file in found[1:]:
        check_columns(first, column_names(file), str(file))
    return found


def row_groups(path: Path) -> list[Piece]:
    """The row groups of a Parquet file, or of all those in a folder, that have rows."""
    sizes = []
    for file in parquet_files(path):
        with sentences(file):
            about = pq.read_metadata(file)
            sizes += [(file, i, about.row_group(i).num_rows) for i in range(about.num_row_groups)]
    starts = accumulate((rows for _, _, rows in sizes), initial=0)
    placed = zip(sizes, starts, strict=False)
    found = [Piece(file, group, start, rows) for (file, group, rows), start in placed if rows]
    if not found:
        raise TableError(f"{path} has no rows; at least one row was expected.")
    return found


def folder_columns(path: Path) -> list[str]:
    """Names of the columns, without an index that pandas stored."""
    first = parquet_files(path)[0]
    names = column_names(first)
    index = index_name(pq.read_schema(first))
    return [name for name in names if name != index]


def read_folder(path: str | Path, columns: Sequence[str] | None = None) -> Any:
    """The Parquet files of a folder as a Dask frame; the index is a row's position, from 0.

    Parameters
    ----------
    path : str or Path
        A folder, or one file.
    columns : list of str, default=None
        Those to read, in this order; None is all of them.

    Returns
    -------
    Dask frame, one partition a row group

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name, first in [("a", 0), ("b", 3)]:
    ...     rows = pd.DataFrame({"x": range(first, first + 3)})
    ...     rows.to_parquet(folder / f"{name}.parquet", index=False)
    >>> frame = read_folder(folder)
    >>> frame.npartitions, frame.divisions, int(frame["x"].sum().compute())
    (2, (0, 3, 5), 15)
    """
    path = Path(path)
    names = folder_columns(path)
    wanted = list(names if columns is None else dict.fromkeys(columns))
    check_columns(wanted, names, str(path))
    pieces = row_groups(path)
    last = pieces[-1]
    divisions = (*(piece.start for piece in pieces), last.start + last.rows - 1)
    return load("dask.dataframe").from_map(
        read_piece,
        pieces,
        columns=wanted,
        meta=read_piece(pieces[0], wanted).iloc[:0],
        divisions=divisions,
    )


def read_piece(piece: Piece, columns: list[str]) -> pd.DataFrame:
    """The rows of one row group, by position."""
    with sentences(piece.path), pq.ParquetFile(piece.path) as file:
        table = file.read_row_group(piece.group, columns=columns)
    frame = to_pandas(table.select(columns), piece.path)
    frame.index = pd.RangeIndex(piece.start, piece.start + piece.rows)
    return frame
