"""Intervals for the rows of a file, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

from localconformal.io.tables import (
    DEFAULT_ROWS,
    NAME,
    about,
    check_columns,
    column_names,
    table_batches,
    write_table,
)
from localconformal.workflow.columns import lost_notes
from localconformal.workflow.model import TableModel
from localconformal.workflow.row_names import check_row_name


@dataclass
class FilePrediction:
    """Intervals of a file as they are made: batches, and what is to be known afterwards.

    Attributes
    ----------
    model : TableModel
    path : Path
        Of the table.
    levels : sequence of float
        None asked for is the model's own.
    identifier : str or None
        Column that names rows; None is the model's, where the file has it.
    batch_rows : int
    rows : int
        Predicted so far.
    lost : Counter of column -> values that could not be used
    """

    model: TableModel
    path: Path
    levels: Sequence[float] = ()
    identifier: str | None = None
    batch_rows: int = DEFAULT_ROWS
    rows: int = 0
    lost: Counter[str] = field(default_factory=Counter)

    def columns(self) -> list[str]:
        """Columns to read."""
        identifier = self.name_of_rows()
        named = [] if identifier is None else [identifier]
        return [*named, *self.model.stored_types]

    def name_of_rows(self) -> str | None:
        """The identifier asked for, or the model's where the file has it."""
        own = self.model.identifier
        if self.identifier is not None or own is None:
            return self.identifier
        return own if own in column_names(self.path) else None

    def batches(self) -> Iterator[Any]:
        """Frames of ``row`` (from 0), the identifier, ``predicted`` and bounds."""
        identifier = self.name_of_rows()
        check_row_name(identifier, self.levels or self.model.levels)
        check_columns(self.columns(), column_names(self.path), str(self.path))
        tables = table_batches(self.path, self.model.stored_types, rows=self.batch_rows)
        for table, names in zip(tables, self.names(identifier), strict=False):
            with about(str(self.path)):
                X, lost = self.model.preparation.transform(table)
                made = self.model.predict_prepared(X, table, self.levels)
            if identifier is not None:
                made.insert(0, identifier, names[identifier])
            made.insert(0, "row", table.index.to_numpy())
            self.rows += len(made)
            self.lost.update(lost)
            yield made

    def names(self, identifier: str | None) -> Iterator[Any]:
        """Frames of the names beside `batches`: a feature that names rows too is read as both."""
        if identifier is None:
            return repeat(None)
        return table_batches(self.path, {identifier: NAME}, rows=self.batch_rows)

    def write(self, path: Path, on_rows: Callable[[int], None] = lambda count: None) -> None:
        """All rows, into one file; its suffix says the format."""
        write_table(announced(self.batches(), on_rows), path)

    def notes(self) -> list[str]:
        """Sentences on values that could not be used."""
        return lost_notes(self.model.preparation.readers, self.lost)


def announced(frames: Iterator[Any], on_rows: Callable[[int], None]) -> Iterator[Any]:
    """The same frames, with a call for each."""
    for frame in frames:
        on_rows(len(frame))
        yield frame
