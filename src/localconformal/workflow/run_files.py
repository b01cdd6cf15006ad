"""The files of a run: intervals, report, model and run.json, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from localconformal.io.files import write_together
from localconformal.io.models import save_model
from localconformal.io.tables import write_table
from localconformal.report import write_report
from localconformal.workflow.auditing import GROUP_HINT
from localconformal.workflow.messages import json_text
from localconformal.workflow.predicting import FilePrediction
from localconformal.workflow.running import Run

#: What -> name of the file.
FILES = {
    "intervals": "intervals.parquet",
    "intervals as CSV": "intervals.csv",
    "report": "report.html",
    "model": "model.skops",
}
NEW_FILES = {
    "new intervals": "new-intervals.parquet",
    "new intervals as CSV": "new-intervals.csv",
}
RECORD = {"record": "run.json"}


def run_paths(folder: Path, *, new: bool) -> dict[str, Path]:
    """What is written -> where; with or without the intervals of new rows.

    Examples
    --------
    >>> run_paths(Path("homes"), new=False)["record"].name
    'run.json'
    """
    names = {**FILES, **(NEW_FILES if new else {}), **RECORD}
    return {what: folder / name for what, name in names.items()}


def write_run(
    run: Run,
    folder: Path,
    record: Mapping[str, Any],
    new: FilePrediction | None = None,
) -> dict[str, Path]:
    """Write everything, and return the paths by what they are.

    Parameters
    ----------
    run : Run
    folder : Path
        Made if needed; files of the same names are replaced.
    record : mapping
        What run.json says, plain data; the files are added.
    new : FilePrediction, default=None
        Rows to predict beside those held out.
    """
    seed = record["task"]["settings"]["seed"]
    paths = run_paths(folder, new=new is not None)
    files = {what: path.name for what, path in paths.items()}
    writers: dict[str, Callable[[Path], object]] = {
        "intervals": lambda part: write_table([run.table], part),
        "intervals as CSV": lambda part: write_table([run.table], part),
        "report": lambda part: write_run_report(run, part, seed),
        "model": lambda part: save_model(run.model, part),
        **({} if new is None else new_writers(new)),
        "record": lambda part: write_json({**record, "files": files}, part),
    }
    write_together({path: writers[what] for what, path in paths.items()})
    return paths


def new_writers(new: FilePrediction) -> dict[str, Callable[[Path], object]]:
    """Intervals of new rows: predicted once, into Parquet, and copied to CSV."""
    made: list[Path] = []

    def predict(part: Path) -> None:
        new.write(part)
        made.append(part)

    return {
        "new intervals": predict,
        "new intervals as CSV": lambda part: write_table(parquet_frames(made[0]), part),
    }


def parquet_frames(path: Path) -> Iterator[Any]:
    """The rows of a Parquet file, batch by batch."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield batch.to_pandas(types_mapper=pd.ArrowDtype)


def write_run_report(run: Run, path: Path, seed: int) -> None:
    """The audit of the rows held out, as a page."""
    target = run.model.target
    write_report(
        run.audit,
        path,
        model=run.model.regressor,
        title=f"Prediction intervals for {target}: how well do they cover?",
        X=run.X,
        y=run.y,
        intervals=run.intervals[:, :, 0],
        y_pred=run.table["predicted"].to_numpy(),
        random_state=seed,
        group_hint=GROUP_HINT,
    )


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """JSON for people: indented, UTF-8."""
    path.write_text(json_text(document) + "\n", encoding="utf-8")
