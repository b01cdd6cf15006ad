"""``localconformal bench``: how fast this machine is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localconformal.cli.console import Json, show, steps
from localconformal.cli.layout import empty_table
from localconformal.texts import say_number

if TYPE_CHECKING:
    from localconformal.workflow.speed import Timing


def bench(
    rows: Annotated[
        list[int] | None,
        typer.Option(help="Rows to learn from; repeatable.", show_default="1000, 5000 and 25000"),
    ] = None,
    features: Annotated[int, typer.Option(help="Columns of each row.")] = 10,
    as_json: Json = False,
) -> None:
    """Time SLCP on this machine, beside plain NumPy.

    Rows are simulated and the base model is a line: what is timed is the local law, its fit, the
    calibration on 1,000 rows, and each prediction; plain NumPy computes the same formula. It takes
    half a minute of processor time. For quality on a table, see compare.

    \b
    Example:  localconformal bench
              localconformal bench --rows 100000 --json
    """
    from localconformal.workflow.speed import SIZES, count_steps, describe_machine, time_laws

    sizes = tuple(rows or SIZES)
    with steps(count_steps(sizes)) as on_step:
        timings = time_laws(sizes, n_features=features, on_step=on_step)
    machine = describe_machine()
    document = {"machine": machine, "timings": [asdict(timing) for timing in timings]}
    show(document, [table(timings), footnote(machine)], as_json)


def table(timings: Sequence[Timing]) -> Any:
    """One line a law, by the number of rows."""
    figures = ("rows", "fit, s", "calibrate, s", "ns a prediction", "speed-up")
    made = empty_table({"law": "left", "engine": "left", **dict.fromkeys(figures, "right")})
    for timing, following in zip(timings, [*timings[1:], None], strict=True):
        made.add_row(
            timing.law,
            timing.engine,
            f"{timing.rows:,}",
            f"{timing.fit_seconds:.2f}",
            f"{timing.calibrate_seconds:.3f}",
            f"{timing.nanoseconds_per_prediction:,.0f}",
            f"{say_number(timing.times_faster)}x",
            end_section=following is None or following.rows != timing.rows,
        )
    return made


def footnote(machine: dict[str, Any]) -> str:
    """What the figures were measured on, and how to read them."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['cores']} cores, {machine['system']} {machine['machine']}, Python "
        f"{machine['python']}, {versions}.\n"
        'Engine "reference" is plain NumPy; on few rows the kernel law chooses it too.'
    )
