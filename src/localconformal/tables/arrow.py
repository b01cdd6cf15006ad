"""Arrow's columns as pandas columns: numbers, booleans, times and texts, and nothing else."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as kinds

from localconformal.tables.errors import TableError
from localconformal.tables.source import is_csv

#: Bytes that are parsed at once; a row must fit.
BLOCK_BYTES = 2**22
NUMBER, TEXT, TIME, NAME = "number", "text", "time", "name"
#: What CSV is parsed as; a time is parsed later, by the format that was learned, and the type of a
#: name depends on all of its column.
ARROW_TYPES = {NUMBER: pa.float64(), TEXT: pa.string(), TIME: pa.string()}


def parse_options() -> Any:
    """Quoted texts may have line breaks."""
    return pa.csv.ParseOptions(newlines_in_values=True)


def read_options(*, use_threads: bool = True) -> Any:
    """Blocks that hold wide rows; only a single thread can tell in which row a value is wrong."""
    return pa.csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=use_threads)


def convert_options(columns: list[str] | None, types: dict[str, Any] | None = None) -> Any:
    """The columns to read, with empty texts as missing; types where they are known."""
    return pa.csv.ConvertOptions(
        include_columns=columns or [], column_types=types, strings_can_be_null=True
    )


def to_pandas(table: Any, path: Path, exact: Collection[str] = ()) -> pd.DataFrame:
    """A pandas frame of the table; durations in seconds, times of the day as texts.

    Columns that are ``exact`` keep Arrow's type, which pandas would change: of integers where one
    is missing, for example, it makes floats.
    """
    columns = [
        as_it_is(column, field, path) if field.name in exact else readable(column, field, path)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]
    plain = pa.table(columns, names=table.column_names)
    frame = plain.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    for field in plain.schema:
        if field.name in exact and not kinds.is_string(field.type):
            frame[field.name] = pd.arrays.ArrowExtensionArray(plain.column(field.name))
    return frame


def as_it_is(column: Any, field: Any, path: Path) -> Any:
    """The column in its own type; what has none of numbers, flags and times is texts."""
    kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
    if kinds.is_nested(kind):
        raise unreadable(field, path)
    typed = kinds.is_primitive(kind) or kinds.is_decimal(kind)
    return told_type(column, kind if typed else pa.string(), TEXT, field.name, path)


def readable(column: Any, field: Any, path: Path) -> Any:
    """The column in a type that pandas has; a `TableError` for images, lists and the like."""
    kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
    if kinds.is_null(kind) or kinds.is_decimal(kind) or kinds.is_float16(kind):
        return column.cast(pa.float64())
    if kinds.is_duration(kind):
        seconds = column.cast(pa.duration("ns"), safe=False).cast(pa.int64())
        return pc.divide(seconds.cast(pa.float64()), 1e9)
    if kinds.is_date(kind):
        return column.cast(pa.timestamp("ms"))
    if kinds.is_time(kind):
        return column.cast(pa.string())
    if is_scalar(kind):
        return column
    if kinds.is_binary(kind) and is_csv(path):
        raise TableError(
            f"{path} is not UTF-8 text (column {field.name!r}); save it with the encoding UTF-8, "
            "or as Parquet."
        )
    raise unreadable(field, path)


def unreadable(field: Any, path: Path) -> TableError:
    """The sentence about a column that is none of a table."""
    return TableError(
        f"{path} has values of the type {field.type} in column {field.name!r}, which are neither "
        "numbers, times nor texts; name the columns to use with --features, and leave it out."
    )


def told(column: Any, kind: str, name: str, path: Path) -> Any:
    """One column in the type that was told; times stay times where Parquet has them."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == NAME or (kind == TIME and pa.types.is_temporal(column.type)):
        return column
    return told_type(column, ARROW_TYPES[kind], kind, name, path)


def told_type(column: Any, wanted: Any, kind: str, name: str, path: Path) -> Any:
    """The column in Arrow's type for what was told, or a `TableError`."""
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        raise TableError(
            f"{path} has values of the type {column.type} in column {name!r}, which cannot be read "
            f"as {kind}; convert the column as the model had it."
        ) from error


def is_scalar(kind: Any) -> bool:
    """Numbers, booleans, timestamps and texts."""
    tests = (
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_boolean,
        kinds.is_timestamp,
        kinds.is_string,
        kinds.is_large_string,
        kinds.is_string_view,
    )
    return any(test(kind) for test in tests)
