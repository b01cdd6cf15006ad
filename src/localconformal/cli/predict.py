"""``localconformal predict`` and ``explain``: new rows, with the model of a run."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localconformal.cli import console
from localconformal.io.files import check_outputs
from localconformal.text import say_number, say_rows

if TYPE_CHECKING:
    from localconformal.tabular import TableModel

_as_run = functools.partial(typer.Option, show_default="as in the run")
_Model = Annotated[Path, console.argument(help="The model.skops of a run.")]
_Identifier = Annotated[str | None, _as_run("--id", help="Column that identifies rows.")]
_Out = Annotated[Path, typer.Option(help="A .csv or .parquet file.")]
_BatchRows = Annotated[int, typer.Option(help="Rows held in memory at a time.", min=1)]
#: Features whose parts are printed.
_MOST_PRINTED = 5


def predict(
    model: _Model,
    data: console.Data,
    level: Annotated[
        list[float] | None, _as_run("--level", "-l", help="Share of rows to cover; repeatable.")
    ] = None,
    identifier: _Identifier = None,
    out: _Out = Path("intervals.csv"),
    batch_rows: _BatchRows = 65_536,
    as_json: console.Json = False,
) -> None:
    """Predict new rows with the model of a run.

    Reads and writes in batches, so files may be larger than memory. Rows keep their order; the
    column row is their position in the input, from 0. Bounds are the columns lower and upper; with
    several levels, lower_0.9, upper_0.9 and so on.

    \b
    Example:  localconformal predict homes/model.skops new.csv --out new-intervals.csv
              localconformal predict homes/model.skops new/ --out new-intervals.parquet
    """
    fitted = _read_model(model, data, out)
    asked: dict[str, Any] = {"identifier": identifier, "batch_rows": batch_rows}
    done = fitted.predict_file(data, out, confidence_level=level or (), **asked)
    document = {"rows": done.rows, "file": out, "target": fitted.target, "notes": done.notes}
    said = [f"{say_rows(done.rows)} predicted.", *done.notes, f"Intervals: {out}"]
    console.show(document, said, as_json)


def explain(
    model: _Model,
    data: console.Data,
    level: Annotated[float | None, _as_run("--level", "-l", help="Share of rows to cover.")] = None,
    identifier: _Identifier = None,
    out: _Out = Path("widths.csv"),
    batch_rows: _BatchRows = 65_536,
    as_json: console.Json = False,
) -> None:
    """Explain why intervals are wide, with the model of a run.

    Writes one line per row: what each feature adds to the width of the interval, or takes from it
    (Shapley values). The column base is the mean width of some training rows; base and the
    features add up to width. A few dozen rows take about a second.

    \b
    Example:  localconformal explain homes/model.skops new.csv --out new-widths.csv
    """
    fitted = _read_model(model, data, out)
    asked: dict[str, Any] = {"identifier": identifier, "batch_rows": batch_rows}
    done = fitted.explain_file(data, out, confidence_level=level, **asked)
    largest = sorted(done.sizes, key=lambda name: -done.sizes[name])[:_MOST_PRINTED]
    named = ", ".join(f"{name} ({say_number(done.sizes[name])})" for name in largest)
    document = {"rows": done.rows, "file": out, "target": fitted.target, "notes": done.notes}
    document["mean_sizes"] = done.sizes
    told = f"Features that change the width most, and by how much on average: {named}."
    said = [f"{say_rows(done.rows)} explained.", console.prose(told), *done.notes, f"Widths: {out}"]
    console.show(document, said, as_json)


def _read_model(path: Path, data: Path, out: Path) -> TableModel:
    """The model of a run, if what it makes of the data can be written."""
    from localconformal.io.models import ModelFileError, load_model
    from localconformal.io.tables import check_suffix
    from localconformal.tabular.model import TableModel

    check_suffix(out)
    check_outputs([out], [path, data])
    fitted = load_model(path)
    if not isinstance(fitted, TableModel):
        kind = type(fitted).__name__
        raise ModelFileError(f"{path} holds a {kind}; expected the model.skops of a run.")
    return fitted
