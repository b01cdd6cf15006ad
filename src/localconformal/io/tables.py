"""Tables on disk: CSV (also compressed), Parquet and folders of it, read whole or in batches.

Anything wrong with a file raises a `TableError` of one sentence.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from itertools import repeat
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pyarrow.types as kinds
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from pyarrow.fs import LocalFileSystem

from localconformal.columns import NUMBER, TIME
from localconformal.text import listing, one_line

DEFAULT_ROWS = 65_536
#: More columns are a matrix rather than a table of features; name those to use.
_MOST_COLUMNS = 2_000
#: Columns of a batch that are neither numbers nor times; a name is only copied.
TEXT, NAME = "text", "name"
#: Types for parsing CSV; a time is parsed later, with the learned format.
_CSV_TYPES = {NUMBER: pa.float64(), TEXT: pa.string(), TIME: pa.string(), NAME: pa.string()}

#: Suffix -> how its bytes are opened; None for Parquet, which Arrow opens itself.
_FORMATS: dict[str, Any] = {".csv": open, ".csv.gz": gzip.open, ".parquet": None, ".pq": None}
_WRITERS: dict[str, Any] = {".csv": pa.csv.CSVWriter, ".parquet": pq.ParquetWriter}

#: Other separators of files called CSV. The last two may also occur in names: they count only if
#: the first row has as many.
_OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces", ":": "colons"}
#: Other ways to write a number -> what to do about it; the first match counts.
_FOREIGN_NUMBERS = {
    r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?": "it has commas between thousands: remove them",
    r"[+-]?\d*(?:[.\s']\d{3})*,\d+": "it has a decimal comma: use a point",
    r"[+-]?\d{1,3}(?:[\s'_]\d{3})+(?:\.\d*)?": "it has gaps between thousands: remove them",
}
#: A spreadsheet runs text that begins like this as a formula; in some languages also with the wide
#: signs, and all of them also after blanks and invisible characters.
_FORMULA = re.compile(r"[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*[=+\-@＝＋－＠]|[\t\r\n]")


class TableError(ValueError):
    """A file that cannot be used as a table; the message is one sentence for the user."""


def read_table(
    path: str | Path, *, columns: Sequence[str] | None = None, names: Sequence[str] = ()
) -> pd.DataFrame:
    """A CSV (also ``.csv.gz``) or Parquet file, or a folder of Parquet files, as a pandas frame.

    Types of CSV columns are inferred from all their values: numbers, booleans, ISO times, text. An
    index stored by pandas is restored. Files of a folder are read in the order of their names.

    Parameters
    ----------
    path : str or Path
    columns : list of str, default=None
        Columns to read, in this order; None is all.
    names : list of str, default=()
        Columns that are only copied, such as names of rows: text in a CSV file, so 007 stays 007.

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
    path, present = Path(path), table_columns(path)
    wanted = list(present if columns is None else dict.fromkeys(columns))
    check_columns(wanted, present, str(path))
    if len(wanted) > _MOST_COLUMNS:
        most = f"at most {_MOST_COLUMNS:,}: name the features to use"
        raise TableError(f"{path} has {len(present):,} columns; expected {most}.")
    with _sentences(path):
        if _is_csv(path):
            raw = _raw_names(path)
            types = {raw[name]: pa.string() for name in names if name in wanted}
            options = _csv_options([raw[name] for name in wanted], types)
            read = pyarrow.csv.read_csv(path, **options).rename_columns(wanted)
            table = _to_pandas(read, path)
        else:
            table = _read_parquet(path, wanted, names)
    _check_any(len(table), path)
    return table


def _read_parquet(path: Path, wanted: list[str], names: Sequence[str]) -> pd.DataFrame:
    files = _parquet_files(path)
    # The column in which pandas stored the index, if there is one.
    about = pq.read_schema(files[0]).pandas_metadata
    stored = about.get("index_columns") if isinstance(about, dict) else None
    index = [name for name in stored or () if isinstance(name, str)]
    if len(index) != 1:
        return _to_pandas(_dataset(files).to_table(columns=wanted), path, names)
    own = [name for name in wanted if name not in index]
    frame = _to_pandas(_dataset(files).to_table(columns=own + index), path, names)
    is_nameless = index[0].startswith("__index_level_")
    return frame.set_index(index[0]).rename_axis(None if is_nameless else index[0])


def table_batches(
    path: str | Path, types: Mapping[str, str], *, rows: int = DEFAULT_ROWS
) -> Iterator[pd.DataFrame]:
    """The named columns of a table, batch by batch in bounded memory, in the order of the rows.

    The index of a batch, a pandas frame, is the position of each row in the table, from 0.
    Types are given, not inferred, so all batches have the same.

    Parameters
    ----------
    path : str or Path
    types : column -> "number", "text", "time" or "name"
        "number" is read as float64, "text" as strings, "time" as times from Parquet and otherwise
        as strings to be parsed; "name" is only copied: strings from a CSV file, the original type
        from a Parquet file.
    rows : int, default=65536
        Rows per batch; the last may have fewer.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("a,b\\n1,x\\n2,\\n3,z\\n")
    >>> [batch["a"].tolist() for batch in table_batches(path, {"a": "number"}, rows=2)]
    [[1.0, 2.0], [3.0]]
    """
    path = Path(path)
    check_columns(types, table_columns(path), str(path))
    return _frames(path, _regrouped(_batches(path, types, rows), rows), types)


def _batches(path: Path, types: Mapping[str, str], rows: int) -> Iterator[Any]:
    if not _is_csv(path):
        files = _dataset(_parquet_files(path))
        yield from files.to_batches(columns=list(types), batch_size=rows, fragment_readahead=1)
        return
    raw = _raw_names(path)
    stored = {raw[name]: _CSV_TYPES[kind] for name, kind in types.items()}
    # Only with a single thread is the row of a wrong value known.
    options = _csv_options(list(stored), stored, use_threads=False)
    with pyarrow.csv.open_csv(path, **options) as reader:
        for batch in reader:
            yield batch.rename_columns(list(types))


def _regrouped(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Tables of exactly ``rows`` rows, the last with the remainder, whatever the batch sizes."""
    held: list[Any] = []
    for batch in batches:
        held.append(batch)
        while sum(map(len, held)) >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
    if sum(map(len, held)):
        yield pa.Table.from_batches(held)


def _frames(path: Path, tables: Iterator[Any], types: Mapping[str, str]) -> Iterator[pd.DataFrame]:
    begun, names = 0, [name for name, kind in types.items() if kind == NAME]
    with _sentences(path):
        for table in tables:
            columns = [_told(table.column(name), kind, name, path) for name, kind in types.items()]
            frame = _to_pandas(pa.table(columns, names=list(types)), path, names)
            frame.index = pd.RangeIndex(begun, begun + len(frame))
            begun += len(frame)
            yield frame
    _check_any(begun, path)


def _told(column: Any, kind: str, name: str, path: Path) -> Any:
    """A column in the given type; times from Parquet stay times."""
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind == NAME or (kind == TIME and kinds.is_temporal(column.type)):
        return column
    if kind == NUMBER and kinds.is_duration(column.type):
        return _seconds(column)
    try:
        return column.cast(_CSV_TYPES[kind])
    except pa.ArrowException as error:
        values = f"values of type {column.type} in column {name!r}, which cannot be read"
        remedy = "convert the column to the type that the model was fitted on"
        raise TableError(f"{path} has {values} as {kind}; {remedy}.") from error


def _to_pandas(table: Any, path: Path, names: Sequence[str] = ()) -> pd.DataFrame:
    """A pandas frame of the table; durations in seconds, times of day as text."""
    # Arrow itself does not check that text is UTF-8.
    table.validate(full=True)
    columns = map(_readable, table.columns, table.schema, repeat(path))
    plain = pa.table(list(columns), names=table.column_names)
    frame = plain.to_pandas(types_mapper={pa.bool_(): pd.BooleanDtype()}.get)
    for name in set(names).intersection(table.column_names):
        kind = table.column(name).type
        if kinds.is_primitive(kind) or kinds.is_decimal(kind):
            # pandas would turn integers with a missing value into floats.
            frame[name] = pd.arrays.ArrowExtensionArray(table.column(name))
    return frame


def _readable(column: Any, field: Any, path: Path) -> Any:
    """The column in a type that pandas supports; a `TableError` for images, lists and so on."""
    kind = field.type.value_type if kinds.is_dictionary(field.type) else field.type
    if kinds.is_null(kind) or kinds.is_decimal(kind) or kinds.is_float16(kind):
        return column.cast(pa.float64())
    if kinds.is_duration(kind):
        return _seconds(column)
    if kinds.is_date(kind):
        return column.cast(pa.timestamp("ms"))
    if kinds.is_time(kind):
        return column.cast(pa.string())
    texts = (kinds.is_string, kinds.is_large_string, kinds.is_string_view)
    if kinds.is_primitive(kind) or any(is_kind(kind) for is_kind in texts):
        return column
    if kinds.is_binary(kind) and _is_csv(path):
        raise TableError(_not_utf8(path, f" (column {field.name!r})"))
    values = f"values of type {field.type} in column {field.name!r}"
    remedy = "name the features to use, without this column"
    raise TableError(f"{path} has {values}; expected numbers, times or text: {remedy}.")


def _seconds(column: Any) -> Any:
    nanoseconds = column.cast(pa.duration("ns"), safe=False).cast(pa.int64())
    return pc.divide(nanoseconds.cast(pa.float64()), 1e9)


def table_columns(path: str | Path) -> list[str]:
    """Column names of a file or a folder of Parquet files, in order, each once."""
    path = Path(path)
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise TableError(f"{str(path)!r} is not a valid UTF-8 name; rename the file.")
    if not path.exists():
        raise TableError(f"{path} does not exist; check the path of the table.")
    if not path.is_dir() and check_suffix(path, _FORMATS) and path.stat().st_size == 0:
        raise TableError(f"{path} is empty; expected a table with a header and rows.")
    if _is_csv(path):
        with _sentences(path):
            return list(_raw_names(path))
    names: list[str] = []
    for file in _parquet_files(path):
        with _sentences(file):
            found = _unique(pq.read_schema(file).names, file)
        names = names or found
        check_columns(names, found, str(file))
    return names


def _unique(names: Sequence[str], path: Path) -> list[str]:
    if repeated := [repr(name) for name, count in Counter(names).items() if count > 1]:
        many = f"more than one column called {listing(repeated)}"
        raise TableError(f"{path} has {many}; make the names unique.")
    return list(names)


def check_columns(wanted: Iterable[str], present: list[str], source: str) -> None:
    """Raise a `TableError` if a wanted column is missing, with a suggestion."""
    # A set: scanning the list for each of 100,000 names would take a minute.
    known = set(present)
    if not (missing := [name for name in wanted if name not in known]):
        return
    close = get_close_matches(missing[0], present, n=3, cutoff=0.6)
    folded = [name for name in present if name.strip().lower() == missing[0].strip().lower()]
    alike = listing(map(repr, dict.fromkeys([*folded, *close])))
    has = listing(map(repr, present)) or "no columns"
    hint = f"did you mean {alike}?" if alike else f"it has {has}."
    raise TableError(f"{source} has no column {listing(map(repr, missing))}; {hint}")


def check_suffix(path: Path, known: Iterable[str] = ()) -> str:
    """The suffix of a file, which must be known; by default, one of those that can be written."""
    known = list(known or _WRITERS)
    # No suffix is the end of another.
    for suffix in known:
        if path.name.lower().endswith(suffix):
            return suffix
    wanted = f"one of {listing(map(repr, known))}: save the table as one of these"
    raise TableError(f"{path} ends in {path.suffix or 'no suffix'!r}; expected {wanted}.")


def _is_csv(path: Path) -> bool:
    """Whether the file is CSV rather than Parquet, by its suffix; folders hold Parquet."""
    return not path.is_dir() and _FORMATS[check_suffix(path, _FORMATS)] is not None


def _parquet_files(path: Path) -> list[Path]:
    """The file, or those of a folder sorted by name; not those that begin with a dot or _."""
    if not path.is_dir():
        return [path]
    suffixes = tuple(suffix for suffix, opener in _FORMATS.items() if opener is None)
    named = (file for file in path.rglob("*") if not file.name.startswith((".", "_")))
    found = sorted(file for file in named if file.suffix.lower() in suffixes)
    if not found:
        none = f"no file ending in {' or '.join(suffixes)}"
        raise TableError(f"{path} has {none}; expected a folder of Parquet files.")
    return found


def _dataset(files: list[Path]) -> Any:
    """Parquet files as one table, with types that fit the values of all of them."""
    schema = pa.unify_schemas(list(map(pq.read_schema, files)), promote_options="permissive")
    # Without buffering whole row groups, which may be as large as memory.
    streamed = {"pre_buffer": False, "use_buffered_stream": True}
    scanned = pyarrow.dataset.ParquetFragmentScanOptions(**streamed)
    form = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=scanned)
    paths, system = list(map(str, files)), LocalFileSystem()
    return pyarrow.dataset.dataset(paths, schema=schema, format=form, filesystem=system)


def _csv_options(columns: list[str], types: dict[str, Any], *, use_threads: bool = True) -> Any:
    """How CSV is read: quoted text may have line breaks, and empty text is missing."""
    chosen = {"include_columns": columns, "column_types": types}
    return {
        # Bytes parsed at once; a row must fit.
        "read_options": pa.csv.ReadOptions(block_size=2**22, use_threads=use_threads),
        "parse_options": pa.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pa.csv.ConvertOptions(**chosen, strings_can_be_null=True),
    }


def _raw_names(path: Path) -> dict[str, str]:
    """Name of each column of a CSV file -> name in the file; unnamed ones get their position."""
    with _FORMATS[check_suffix(path, _FORMATS)](path, "rb") as stream:
        beginning = stream.read(2**24)
    decoded = beginning.decode("utf-8-sig", errors="strict" if len(beginning) < 4096 else "replace")
    records = csv.reader(io.StringIO(decoded, newline=""))
    header = next(records, [])
    if not any(name.strip() for name in header):
        raise TableError(f"{path} has no header; expected the names of the columns first.")
    if any("\N{REPLACEMENT CHARACTER}" in name for name in header):
        raise TableError(_not_utf8(path))
    # A header without a comma looks like a single name.
    first_row, others = (next(records, None), _OTHER_DELIMITERS) if len(header) == 1 else (None, {})
    for delimiter, name in others.items():
        count = header[0].strip().count(delimiter)
        may_be_name = delimiter in " :" and first_row is not None
        in_row = ",".join(first_row or ()).strip().count(delimiter)
        if count and (count == in_row or not may_be_name):
            one = f"{one_line(header[0], 40)!r} is one column"
            remedy = "save it with commas, or as Parquet"
            raise TableError(f"{path} seems to be separated by {name} ({one}); {remedy}.")
    names = [name or f"Unnamed: {position}" for position, name in enumerate(header)]
    return dict(zip(_unique(names, path), header, strict=True))


@contextmanager
def about(source: str) -> Iterator[None]:
    """Add the name of the table to a `TableError` from inside."""
    try:
        yield
    except TableError as error:
        if source in str(error):
            raise
        raise TableError(f"{source}: {error}") from error


def why_no_number(written: str) -> str | None:
    """Why a text that people read as a number is not one to this program, if so."""
    forms = _FOREIGN_NUMBERS.items()
    return next((why for form, why in forms if re.fullmatch(form, written.strip())), None)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turn any error of a reader into a `TableError` of one sentence."""
    try:
        yield
    except TableError:
        raise
    except UnicodeDecodeError as error:
        raise TableError(_not_utf8(path)) from error
    except PermissionError as error:
        raise TableError(f"{path} cannot be read; check its permissions.") from error
    except (OSError, EOFError, csv.Error, json.JSONDecodeError, pa.ArrowException) as error:
        raise TableError(_what_happened(path, " ".join(str(error).split()))) from error


def _what_happened(path: Path, message: str) -> str:
    """Arrow's message in words that make sense to the owner of the file."""
    form = r"column #(\d+): (?:Row #(\d+): )?.*conversion error to double: invalid value '(.*)'"
    if not_a_number := re.search(form, message):
        column, line, value = not_a_number.groups()
        # Arrow counts from 1, including the header.
        row = f" (row {int(line) - 2}, counted from 0)" if line else ""
        name = list(_raw_names(path))[int(column)]
        remedy = why_no_number(value) or "correct it or leave it empty"
        found = f"{path} has the text {value!r} in column {name!r}{row}"
        return f"{found}; expected numbers: {remedy}."
    if "invalid UTF8" in message:
        return _not_utf8(path)
    said = f"({one_line(message, 120)!r})"
    if path.is_dir():
        return f"{path} cannot be read as one table {said}; write all files with the same columns."
    if not _is_csv(path):
        return f"{path} is not a complete Parquet file {said}; write it again."
    return f"{path} cannot be read as CSV: {message.removeprefix('CSV parse error: ').rstrip('.')}."


def _not_utf8(path: Path, where: str = "") -> str:
    return f"{path} is not UTF-8 text{where}; save it with the encoding UTF-8, or as Parquet."


def _check_any(rows: int, path: Path) -> None:
    if rows == 0:
        raise TableError(f"{path} has a header but no rows; expected at least one row.")


def write_table(frames: Iterable[pd.DataFrame], path: Path) -> int:
    """Write frames with the same columns to one file, CSV or Parquet by suffix; count the rows.

    The index is left out. In CSV, text that a spreadsheet would run as a formula gets a leading
    apostrophe; Parquet keeps it as it is.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "rows.csv"
    >>> write_table([pd.DataFrame({"id": ["=1+1", "b"], "lower": [-1.5, 2.0]})], path)
    2
    >>> print(path.read_text())
    "id","lower"
    "'=1+1",-1.5
    "b",2
    """
    suffix, rows = check_suffix(path), 0
    file: Any = None
    schema: Any = None
    with ExitStack() as opened:
        for frame in frames:
            shown = _with_harmless_texts(frame) if suffix == ".csv" else frame
            # The first batch determines the types.
            table = pa.Table.from_pandas(shown, schema, preserve_index=False)
            if file is None:
                schema = table.schema
                file = opened.enter_context(_WRITERS[suffix](path, schema))
            file.write_table(table)
            rows += len(frame)
    return rows


def harmless(cell: Any) -> Any:
    """The text, with a leading apostrophe if a spreadsheet would take it for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _with_harmless_texts(frame: pd.DataFrame) -> pd.DataFrame:
    shown = frame.copy(deep=False)
    for name, column in frame.items():
        if not (is_numeric_dtype(column) or is_datetime64_any_dtype(column)):
            shown[name] = column.map(harmless, na_action="ignore")
    return shown.rename(columns=harmless)
