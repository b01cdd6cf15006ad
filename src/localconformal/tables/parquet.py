"""Parquet in amounts that fit in memory.

A Parquet file of a few kilobytes can hold a text of megabytes once, and a million rows that repeat
it. So texts come as dictionaries, which stay as small as they are in the file; how much they would
be as texts is counted before they become texts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from localconformal.tables.arrow import unreadable
from localconformal.tables.errors import TableError

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
