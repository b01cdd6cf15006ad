"""Tables on disk: CSV (also compressed) and Parquet, read whole or in batches.

Whatever is wrong with a file ends in a `TableError` of one sentence.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pyarrow.types as kinds

#: Columns of a message before the rest is only counted.
MOST_NAMES = 8
#: How a number may be written elsewhere -> what to do about it; the first that fits counts.
FOREIGN_NUMBERS = {
    r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?": "it has commas between thousands: write it without them",
    r"[+-]?\d*(?:[.\s']\d{3})*,\d+": "it has a decimal comma: write a point",
    r"[+-]?\d{1,3}(?:[\s'_]\d{3})+(?:\.\d*)?": "its thousands stand apart: write it without gaps",
}


class TableError(ValueError):
    """A file that cannot be used as a table; the message is one sentence for the user."""


def listing(names: Iterable[object]) -> str:
    """Names in quotes with commas; those beyond the first few are counted.

    Examples
    --------
    >>> listing(["a", "b"])
    "'a', 'b'"
    """
    quoted = [repr(str(name)) for name in names]
    rest = len(quoted) - MOST_NAMES
    return ", ".join(quoted[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


@contextmanager
def about(source: str) -> Iterator[None]:
    """A `TableError` from inside names the table it is about.

    Examples
    --------
    >>> with about("homes.csv"):
    ...     raise TableError("column 'size' holds 'x'.")
    Traceback (most recent call last):
    localconformal.io.tables.TableError: homes.csv: column 'size' holds 'x'.
    """
    try:
        yield
    except TableError as error:
        if source in str(error):
            raise
        raise TableError(f"{source}: {error}") from error


def why_no_number(text: str) -> str | None:
    """What keeps a number from being one to this program, if the text is one to people.

    Examples
    --------
    >>> why_no_number("1,5"), why_no_number("high")
    ('it has a decimal comma: write a point', None)
    """
    found = (why for form, why in FOREIGN_NUMBERS.items() if re.fullmatch(form, text.strip()))
    return next(found, None)


def check_columns(wanted: Iterable[str], present: list[str], source: str) -> None:
    """Every wanted column is there, or a `TableError` that suggests what was meant.

    Examples
    --------
    >>> check_columns(["prise"], ["price", "size"], "homes.csv")
    Traceback (most recent call last):
    localconformal.io.tables.TableError: homes.csv has no column 'prise'; did you mean 'price'?
    """
    # A set: a scan of the list for each of 100,000 names would take a minute.
    known = set(present)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return
    close = get_close_matches(missing[0], present, n=3, cutoff=0.6)
    folded = [name for name in present if name.strip().lower() == missing[0].strip().lower()]
    alike = list(dict.fromkeys([*folded, *close]))
    raise TableError(
        f"{source} has no column {listing(missing)}; "
        + (f"did you mean {listing(alike)}?" if alike else f"it has {listing(present)}.")
    )


#: What else a file called CSV may be separated by.
OTHER_DELIMITERS = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces", ":": "colons"}
#: Those that a name may have too: they count only if the first row has as many.
IN_NAMES = (" ", ":")
#: A header is looked for in so many bytes.
LONGEST_HEADER = 2**24

#: Suffix -> how its bytes are opened; None for Parquet, which Arrow opens itself.
FORMATS: dict[str, Any] = {
    ".csv": open,
    ".csv.gz": gzip.open,
    ".parquet": None,
    ".pq": None,
}


def format_of(path: Path) -> str:
    """The suffix that says how the file is read.

    Examples
    --------
    >>> format_of(Path("rows.CSV.gz"))
    '.csv.gz'
    """
    found = [suffix for suffix in FORMATS if path.name.lower().endswith(suffix)]
    if not found:
        raise TableError(
            f"{path} ends in {path.suffix or 'no suffix'!r}; one of {listing(FORMATS)} was "
            "expected: save the table as one of these."
        )
    return max(found, key=len)


def is_csv(path: Path) -> bool:
    """Whether the file is CSV rather than Parquet, by its suffix."""
    return FORMATS[format_of(path)] is not None


def check_file(path: Path) -> None:
    """The file is there, of a known format and not empty."""
    if not is_unicode(str(path)):
        raise TableError(f"{str(path)!r} is no name in UTF-8; rename the file.")
    if path.is_dir():
        raise TableError(f"{path} is a folder; a CSV or Parquet file was expected.")
    if not path.exists():
        raise TableError(f"{path} does not exist; check the path of the table.")
    format_of(path)
    if path.stat().st_size == 0:
        raise TableError(f"{path} is empty; a table with a header and rows was expected.")


def is_unicode(text: str) -> bool:
    """Whether a text has whole letters only; a file's name may have others."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def column_names(path: Path) -> list[str]:
    """Names of the columns in their order, each once."""
    check_file(path)
    with sentences(path):
        names = csv_names(path) if is_csv(path) else pq.read_schema(path).names
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(
            f"{path} has more than one column called {listing(repeated)}; rename them to be unique."
        )
    return list(names)


def csv_names(path: Path) -> list[str]:
    """The names in a CSV file; one that is empty tells its position, from 0."""
    return [name or f"Unnamed: {position}" for position, name in enumerate(csv_header(path))]


def csv_header(path: Path) -> list[str]:
    """The first record of a CSV file."""
    with FORMATS[format_of(path)](path, "rb") as stream:
        beginning = stream.read(LONGEST_HEADER)
    text = beginning.decode("utf-8-sig", errors="strict" if len(beginning) < 4096 else "replace")
    records = csv.reader(io.StringIO(text, newline=""))
    header = next(records, [])
    if not any(name.strip() for name in header):
        raise TableError(f"{path} has no header; the names of the columns were expected first.")
    if any("\N{REPLACEMENT CHARACTER}" in name for name in header):
        raise TableError(not_utf8(path))
    if len(header) == 1:
        check_delimiter(path, header[0], next(records, None))
    return header


def check_delimiter(path: Path, header: str, first_row: list[str] | None) -> None:
    """A header without a comma is one name, as far as one can tell."""
    for delimiter, name in OTHER_DELIMITERS.items():
        count = header.strip().count(delimiter)
        is_name = delimiter in IN_NAMES and first_row is not None
        if count and not (is_name and ",".join(first_row or ()).strip().count(delimiter) != count):
            raise TableError(
                f"{path} seems to be separated by {name} ({short(header)} is one column); "
                "commas were expected: save it with commas, or as Parquet."
            )


def not_utf8(path: Path) -> str:
    """The sentence about other encodings."""
    return f"{path} is not UTF-8 text; save it with the encoding UTF-8, or as Parquet."


def short(text: str, width: int = 40) -> str:
    """A text from the file in quotes, cut."""
    return repr(text if len(text) <= width else f"{text[:width]}...")


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Whatever a reader says about the file becomes a `TableError` of one sentence."""
    try:
        yield
    except TableError:
        raise
    except UnicodeDecodeError as error:
        raise TableError(not_utf8(path)) from error
    except PermissionError as error:
        raise TableError(f"{path} may not be read; check its permissions.") from error
    except (OSError, EOFError, csv.Error, json.JSONDecodeError, pa.ArrowException) as error:
        raise TableError(what_happened(path, " ".join(str(error).split()))) from error


def what_happened(path: Path, message: str) -> str:
    """Arrow's message in the words of someone who has the file before them."""
    not_a_number = re.search(
        r"column #(\d+): (?:Row #(\d+): )?.*conversion error to double: invalid value '(.*)'",
        message,
    )
    if not_a_number:
        column, line, value = not_a_number.groups()
        # Arrow counts from 1, and the header as a row.
        row = f" (row {int(line) - 2}, counted from 0)" if line else ""
        return (
            f"{path} has the text {value!r} in column {csv_names(path)[int(column)]!r}{row}, where "
            f"numbers were expected; {why_no_number(value) or 'correct it or leave it empty'}."
        )
    if "invalid UTF8" in message:
        return not_utf8(path)
    if not is_csv(path):
        return f"{path} is not a whole Parquet file ({short(message, 120)}); write it again."
    return f"{path} cannot be read as CSV: {message.removeprefix('CSV parse error: ').rstrip('.')}."


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


WHOLE = r"^\s*[+-]?\d+\s*$"
NAMES_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
#: As numbers, 007 and +49 would be other names; only where no value is negative, for a code is not.
CODE = r"^\s*(0\d|\+)"
NEGATIVE = r"^\s*-"


def name_type(columns: Iterable[Any]) -> Any:
    """The Arrow type of names that were written as texts, from all the pieces of their column.

    Whole numbers are int64 and others float64. Texts are whatever else there is, whole numbers of
    more than 64 bits, and codes such as 007.

    Examples
    --------
    >>> [str(name_type([pa.array(["1", one])])) for one in ("-96", "-2.5", "007", "=a", str(2**64))]
    ['int64', 'double', 'string', 'string', 'string']
    """
    whole = fits = True
    code = negative = known = False
    for column in columns:
        if not every(column, NAMES_NUMBER):
            return pa.string()
        whole = whole and every(column, WHOLE)
        fits = fits and whole and is_int64(column)
        code, negative = code or some(column, CODE), negative or some(column, NEGATIVE)
        known = known or column.null_count < len(column)
    if not known or (code and not negative) or (whole and not fits):
        return pa.string()
    return pa.int64() if whole else pa.float64()


def every(column: Any, pattern: str) -> bool:
    """Whether all known texts match."""
    return bool(pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def some(column: Any, pattern: str) -> bool:
    """Whether a text matches."""
    return bool(pc.any(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def is_int64(column: Any) -> bool:
    """Whether 64 bits hold all these whole numbers."""
    digits = pc.replace_substring_regex(column, r"[\s+]", "")
    try:
        digits.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


#: Share of the memory that a table may take: it is copied at least once.
MOST_OF_MEMORY = 0.5
#: Where nothing tells how much memory there is.
USUAL_MEMORY = 2**34
#: What a container may use, as Linux says it.
CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def parquet_table(path: Path, columns: list[str]) -> Any:
    """The columns of a file as one table; a `TableError` if it would not fit in memory."""
    most, taken = memory_for_tables(), 0
    file, texts = open_file(path, columns)
    with file:
        batches = []
        for batch in file.iter_batches(columns=columns):
            taken += unpacked_bytes(batch)
            check_memory(path, taken, most)
            batches.append(batch)
        # Of a file without rows the columns are known all the same.
        whole = pa.Table.from_batches(batches) if batches else file.read(columns=columns)
    return unpacked(whole, texts)


def parquet_batches(path: Path, columns: list[str]) -> Iterator[Any]:
    """The columns of a file, batch by batch, each of which fits in memory."""
    most = memory_for_tables()
    file, texts = open_file(path, columns)
    with file:
        for batch in file.iter_batches(columns=columns):
            check_memory(path, unpacked_bytes(batch), most)
            yield from unpacked(pa.Table.from_batches([batch]), texts).to_batches()


def open_file(path: Path, columns: list[str]) -> tuple[Any, list[str]]:
    """The file, and which columns come as dictionaries: those of texts."""
    schema = pq.read_schema(path)
    texts = []
    for field in map(schema.field, columns):
        if kinds.is_nested(field.type) or kinds.is_fixed_size_binary(field.type):
            raise unreadable(field, path)
        texts += [field.name] if is_text(field.type) else []
    return pq.ParquetFile(path, read_dictionary=texts), texts


def is_text(kind: Any) -> bool:
    """Whether values are of any length."""
    return any(
        test(kind)
        for test in (
            kinds.is_string,
            kinds.is_large_string,
            kinds.is_binary,
            kinds.is_large_binary,
            kinds.is_string_view,
            kinds.is_binary_view,
        )
    )


def unpacked_bytes(batch: Any) -> int:
    """Bytes of a batch whose dictionaries have become texts, which are checked on the way.

    Examples
    --------
    >>> repeated = pa.array(["a long text"] * 1000).dictionary_encode()
    >>> unpacked_bytes(pa.record_batch([repeated], names=["a"])) >= 1000 * len("a long text")
    True
    """
    taken = 0
    for column in batch.columns:
        if kinds.is_dictionary(column.type) and is_text(column.type.value_type):
            # Arrow itself does not look whether texts are UTF-8, nor whether places exist.
            column.validate(full=True)
            column.dictionary.validate(full=True)
            taken += repeated_bytes(column)
        else:
            taken += column.nbytes
    return taken


def repeated_bytes(column: Any) -> int:
    """Bytes of the texts that a dictionary stands for."""
    lengths = pc.binary_length(column.dictionary).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0)


def unpacked(table: Any, texts: list[str]) -> Any:
    """The table with these columns, which came as dictionaries, as texts."""
    for name in texts:
        place = table.column_names.index(name)
        kind = table.schema.field(place).type.value_type
        binary = kinds.is_binary(kind) or kinds.is_large_binary(kind)
        # The large kinds have no limit of 2 GiB a piece.
        large = pa.large_binary() if binary else pa.large_string()
        table = table.set_column(place, name, table.column(place).cast(large))
    return table


def check_memory(path: Path, taken: int, most: int) -> None:
    """So many bytes are to be had, or a `TableError`."""
    if taken > most:
        raise TableError(
            f"{path} would take more than {most / 2**30:,.1f} GiB of memory as a table, half of "
            "what there is; name fewer columns with --features, or give fewer rows."
        )


def memory_for_tables() -> int:
    """Bytes that a table may take here."""
    try:
        limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    except (AttributeError, ValueError, OSError):
        limits = [USUAL_MEMORY]
    for place in map(Path, CONTAINER_LIMITS):
        said = place.read_text().strip() if place.is_file() else ""
        limits += [int(said)] if said.isdigit() else []
    return int(MOST_OF_MEMORY * min(limits))


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


#: A spreadsheet takes a text that begins so for a formula, and runs it; in some languages the wide
#: signs too.
FORMULA_SIGNS = frozenset("=+-@＝＋－＠")
#: What may stand before the sign, or do as well: blanks, and what is not seen.
BLANKS = re.compile(r"[\s\x00-\x1f\u200b-\u200f\u2060\ufeff]*")
WRITERS: dict[str, Any] = {".csv": pa.csv.CSVWriter, ".parquet": pq.ParquetWriter}


def check_suffix(path: Path) -> None:
    """The suffix of a file to be written is one of those that can be."""
    if path.suffix.lower() not in WRITERS:
        raise TableError(
            f"{path} ends in {path.suffix or 'no suffix'!r}; one of {listing(WRITERS)} was "
            "expected of a table to write."
        )


def write_table(frames: Iterable[pd.DataFrame], path: Path) -> int:
    """Write frames of the same columns below each other, CSV or Parquet by suffix; count the rows.

    The index is left out. In CSV, texts that a spreadsheet would run as a formula begin with an
    apostrophe; Parquet keeps them as they are.

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
    check_suffix(path)
    is_csv, rows = path.suffix.lower() == ".csv", 0
    file: Any = None
    schema: Any = None
    try:
        for frame in frames:
            shown = harmless_texts(frame) if is_csv else frame
            # The first batch decides the types.
            table = pa.Table.from_pandas(shown, schema, preserve_index=False)
            if file is None:
                schema = table.schema
                file = WRITERS[path.suffix.lower()](path, schema)
            file.write_table(table)
            rows += len(frame)
    finally:
        if file is not None:
            file.close()
    return rows


def harmless(text: Any) -> Any:
    r"""A text with an apostrophe before it if a spreadsheet would take it for a formula.

    Examples
    --------
    >>> harmless("=1+1"), harmless(" @A1"), harmless("a=b"), harmless("\tb"), harmless(-1.5)
    ("'=1+1", "' @A1", 'a=b', "'\tb", -1.5)
    """
    if not isinstance(text, str) or text[:1].isalnum():
        return text
    begins = text[BLANKS.match(text).end() :][:1]  # type: ignore[union-attr]
    return f"'{text}" if begins in FORMULA_SIGNS or text[:1] in ("\t", "\r", "\n") else text


def harmless_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with harmless names and texts; numbers keep their sign."""
    plain = frame.select_dtypes(exclude=["number", "bool", "datetime", "datetimetz"])
    texts = plain[[name for name in plain if may_hold_texts(plain[name].dtype)]]
    shown = frame.copy(deep=False)
    for name in texts:
        shown[name] = texts[name].map(harmless, na_action="ignore")
    return shown.rename(columns=harmless)


def may_hold_texts(dtype: Any) -> bool:
    """Whether a column that is none of NumPy's numbers has texts; types of Arrow tell."""
    if not isinstance(dtype, pd.ArrowDtype):
        return True
    kind = dtype.pyarrow_dtype
    return not (pa.types.is_primitive(kind) or pa.types.is_decimal(kind))
