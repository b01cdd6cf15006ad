"""``localconformal demo``: what the library does, on data whose truth is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from localconformal.cli.console import Json, prose, show, steps


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder of the plot and the report.", file_okay=False)
    ] = Path("localconformal-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated data.", min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Compare SLCP, CQR and split conformal where the truth is known.

    Simulated data whose noise grows with x; a few seconds. Writes demo.png and report.html.

    \b
    Example:  localconformal demo --out my-demo
    """
    from localconformal.cli.demo_comparison import N_STEPS, compare
    from localconformal.cli.demo_rendering import conclusion, draw, record, table, write_page
    from localconformal.io.files import check_folder, write_together

    check_folder(out)
    with steps(N_STEPS + 1) as on_step:
        comparison = compare(seed, on_step=on_step)
        on_step("writing")
        plot, report = write_together(
            {
                out / "demo.png": partial(draw, comparison),
                out / "report.html": partial(write_page, comparison),
            }
        )
    show(
        {**record(comparison), "files": {"plot": plot, "report": report}},
        [
            table(comparison),
            prose(conclusion(comparison)),
            "",
            f"Plot:   {plot}",
            f"Report: {report}",
        ],
        as_json,
    )
