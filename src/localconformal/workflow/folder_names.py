"""The names of some rows of a folder of Parquet files, in the type they have there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from localconformal.distributed.computing import compute, task
from localconformal.distributed.parquet import Piece, row_groups
from localconformal.io.tables import TableError, as_it_is, sentences, to_pandas


def names_of_rows(path: Path, name: str, positions: NDArray[np.integer[Any]]) -> Any:
    """The column of names at these positions, which ascend, as an array of pandas.

    A Dask frame has pandas' types, in which an integer beside a missing value is a float; so names
    are read from the files, and only of the rows that are wanted.
    """
    tasks = [
        task(names_of_piece, piece, name, wanted)
        for piece in row_groups(path)
        if len(wanted := within(piece, positions))
    ]
    try:
        whole = pa.concat_tables(compute(*tasks), promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TableError(
            f"{path} has files whose types of column {name!r} differ; names of rows of one type "
            "were expected: convert the column."
        ) from error
    return to_pandas(whole, path, exact=[name])[name].array


def within(piece: Piece, positions: NDArray[np.integer[Any]]) -> NDArray[np.integer[Any]]:
    """Those of the positions that lie in a row group, counted from its first row."""
    first, last = np.searchsorted(positions, [piece.start, piece.start + piece.rows])
    return positions[first:last] - piece.start


def names_of_piece(piece: Piece, name: str, rows: NDArray[np.integer[Any]]) -> Any:
    """The names of these rows of a row group, as a table of Arrow."""
    with sentences(piece.path), pq.ParquetFile(piece.path) as file:
        table = file.read_row_group(piece.group, columns=[name]).take(rows)
    column = as_it_is(table.column(name), table.schema.field(name), piece.path)
    return pa.table([column], names=[name])
