"""``localconformal predict``: intervals for new rows, however many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from localconformal.cli.console import Cluster, Json, counting, on_cluster, show
from localconformal.cli.run import check_numbers
from localconformal.io.files import check_inputs_stay

if TYPE_CHECKING:
    from localconformal.workflow.predicting_folder import FolderPrediction


def predict(
    model: Annotated[Path, typer.Argument(help="model.skops of a run.", show_default=False)],
    data: Annotated[
        Path,
        typer.Argument(
            help="New rows: a CSV or Parquet file, or a folder of Parquet files.",
            show_default=False,
        ),
    ],
    level: Annotated[
        list[float] | None,
        typer.Option(
            "--level", "-l", help="Share to cover; repeatable.", show_default="as in the run"
        ),
    ] = None,
    identifier: Annotated[
        str | None,
        typer.Option("--id", help="Column that names rows.", show_default="as in the run"),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="File to write: .csv or .parquet; a new folder for a folder.")
    ] = Path("intervals.csv"),
    batch_rows: Annotated[int, typer.Option(help="Rows held in memory at a time.", min=1)] = 65_536,
    cluster: Cluster = None,
    as_json: Json = False,
) -> None:
    """Predict new rows with the model of a run.

    Reads and writes in batches, so that files may be larger than memory. Rows keep their order;
    the column row has their position in the input, from 0. Bounds are lower and upper, for several
    levels lower_0.9, upper_0.9 and so on.

    For a folder of Parquet files a folder of numbered ones is written, in their order. With
    --cluster the workers read and write them: both folders must be ones that they see.

    \b
    Example:  localconformal predict homes/model.skops new.csv --out new-intervals.csv
              localconformal predict homes/model.skops new/ --out new-intervals
    """
    from localconformal.io.files import check_folder, write_whole
    from localconformal.io.models import ModelFileError, load_model, reading_model
    from localconformal.io.tables import check_suffix
    from localconformal.workflow.model import TableModel
    from localconformal.workflow.predicting import FilePrediction

    check_numbers(level or [], 0.5)
    large = data.is_dir() or cluster is not None
    if not large:
        check_suffix(out)
    check_folder(out.parent)
    check_inputs_stay([out], [model, data])
    fitted = load_model(model)
    if not isinstance(fitted, TableModel):
        raise ModelFileError(
            f"{model} holds a {type(fitted).__name__}; the model.skops of a run was expected."
        )
    task: FilePrediction | FolderPrediction
    with on_cluster(large, cluster), counting("predicting") as on_rows, reading_model(model):
        if large:
            from localconformal.workflow.predicting_folder import FolderPrediction

            task = FolderPrediction(fitted, data, level or (), identifier, batch_rows)
            path = task.write(out)
        else:
            task = file = FilePrediction(fitted, data, level or (), identifier, batch_rows)
            path = write_whole(out, lambda part: file.write(part, on_rows))
    document = {"rows": task.rows, "file": path, "target": fitted.target, "notes": task.notes()}
    rows = "1 row" if task.rows == 1 else f"{task.rows:,} rows"
    sentences = [f"{rows} predicted.", *task.notes(), f"Intervals: {path}"]
    show(document, sentences, as_json)
