"""``localconformal predict``: intervals for new rows, however many."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from localconformal.cli.console import Data, Json, argument, check_shares, show
from localconformal.io.files import check_outputs
from localconformal.text import say_rows

_as_run = functools.partial(typer.Option, show_default="as in the run")


def predict(
    model: Annotated[Path, argument(help="model.skops of a run.")],
    data: Data,
    level: Annotated[
        list[float] | None, _as_run("--level", "-l", help="Share to cover; repeatable.")
    ] = None,
    identifier: Annotated[str | None, _as_run("--id", help="Column that names rows.")] = None,
    out: Annotated[Path, typer.Option(help="A .csv or .parquet file.")] = Path("intervals.csv"),
    batch_rows: Annotated[int, typer.Option(help="Rows held in memory at a time.", min=1)] = 65_536,
    as_json: Json = False,
) -> None:
    """Predict new rows with the model of a run.

    Reads and writes in batches, so that files may be larger than memory. Rows keep their order;
    the column row has their position in the input, from 0. Bounds are lower and upper, for several
    levels lower_0.9, upper_0.9 and so on.

    \b
    Example:  localconformal predict homes/model.skops new.csv --out new-intervals.csv
              localconformal predict homes/model.skops new/ --out new-intervals.parquet
    """
    from localconformal.io.models import ModelFileError, load_model
    from localconformal.io.tables import check_suffix
    from localconformal.tabular.model import TableModel

    check_shares(level or [])
    check_suffix(out)
    check_outputs([out], [model, data])
    fitted = load_model(model)
    if not isinstance(fitted, TableModel):
        kind = type(fitted).__name__
        raise ModelFileError(f"{model} holds a {kind}; expected the model.skops of a run.")
    asked: dict[str, Any] = {"identifier": identifier, "batch_rows": batch_rows}
    done = fitted.predict_file(data, out, confidence_level=level or (), **asked)
    document = {"rows": done.rows, "file": out, "target": fitted.target, "notes": done.notes}
    said = [f"{say_rows(done.rows)} predicted.", *done.notes, f"Intervals: {out}"]
    show(document, said, as_json)
