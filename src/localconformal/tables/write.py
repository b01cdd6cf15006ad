"""Tables to disk, batch by batch."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from localconformal.tables.errors import TableError, listing

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
