"""Intervals for the rows of a folder of Parquet files: numbered ones in their order, on Dask."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from localconformal.distributed.computing import compute, held, task
from localconformal.distributed.parquet import row_groups
from localconformal.io.files import UnwritableError
from localconformal.io.tables import DEFAULT_ROWS, WRITERS, TableError, check_columns, column_names
from localconformal.workflow.columns import lost_notes
from localconformal.workflow.model import TableModel
from localconformal.workflow.predicting import FilePrediction


@dataclass
class FolderPrediction:
    """Intervals of the files of a folder, each into one of the same name.

    Attributes
    ----------
    model : TableModel
    path : Path
        Folder of Parquet files, or one file.
    levels, identifier, batch_rows
        As in `FilePrediction`; a worker holds ``batch_rows`` rows at a time.
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

    def write(self, folder: Path) -> Path:
        """All files into a folder that is there when all of them are whole, or not at all.

        Workers write the files themselves: the folder must be one that all of them see.
        """
        check_new_folder(folder)
        files = self.starts()
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        try:
            model = held(self.model)
            asked = self.levels, self.identifier, self.batch_rows
            tasks = [
                task(predict_file, model, file, *asked, start, part / f"{number:06d}.parquet")
                for number, (file, start) in enumerate(files.items())
            ]
            done = compute(*tasks)
            part.chmod(0o755)
            part.replace(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        for rows, lost in done:
            self.rows += rows
            self.lost.update(lost)
        return folder

    def starts(self) -> dict[Path, int]:
        """Files that have rows -> position of the first; their columns are checked first."""
        starts: dict[Path, int] = {}
        for piece in row_groups(self.path):
            starts.setdefault(piece.path, piece.start)
        for file in starts:
            job = FilePrediction(self.model, file, self.levels, self.identifier)
            check_columns(job.columns(), column_names(file), str(file))
        return starts

    def notes(self) -> list[str]:
        """Sentences on values that could not be used."""
        return lost_notes(self.model.preparation.readers, self.lost)


def predict_file(
    model: TableModel,
    file: Path,
    levels: Sequence[float],
    identifier: str | None,
    batch_rows: int,
    start: int,
    made: Path,
) -> tuple[int, Counter[str]]:
    """One file, batch by batch; how many rows, and what was lost."""
    job = FilePrediction(model, file, levels, identifier, batch_rows, start)
    job.write(made)
    return job.rows, job.lost


def check_new_folder(folder: Path) -> None:
    """The name of a folder that is not there yet."""
    if folder.suffix.lower() in WRITERS:
        raise TableError(
            f"--out is {folder} and the data a folder; the name of a folder to be made was "
            "expected, such as --out intervals."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UnwritableError(f"Cannot write to {folder}: it is there already; name another.")
