"""``localconformal demo``: what the library does, on data whose truth is known."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from localconformal.cli.demo_comparison import N_STEPS, compare
from localconformal.cli.demo_rendering import conclusion, draw, table
from localconformal.cli.files import write_whole
from localconformal.cli.progress import steps


def demo(
    out: Annotated[
        Path, typer.Option(help="Folder of the plot; made if needed.", file_okay=False)
    ] = Path("localconformal-demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulated data.", min=0)] = 0,
) -> None:
    """Compare SLCP, CQR and split conformal on simulated data with known quantiles."""
    console = Console()
    with steps(N_STEPS) as on_step:
        comparison = compare(seed, on_step=on_step)
    console.print(table(comparison))
    plot = write_whole(out / "demo.png", partial(draw, comparison))
    console.print(conclusion(comparison), highlight=False)
    # Not wrapped at the width of the terminal: a path is to be copied.
    console.print(f"Plot: {plot}", soft_wrap=True, highlight=False, markup=False)
