"""The file behind a table: its format and the names of its columns, or what is wrong with it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from localconformal.tables.errors import TableError, listing, why_no_number

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
