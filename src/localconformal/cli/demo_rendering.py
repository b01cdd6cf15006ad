"""A comparison as a table, a picture, a page, a record and two sentences."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from localconformal.cli.demo_comparison import (
    CONFIDENCE_LEVEL,
    EDGES,
    N_TEST,
    N_TRAIN,
    ORACLE,
    SLCP,
    SPLIT,
)
from localconformal.text import say_level, say_number

if TYPE_CHECKING:
    from localconformal.cli.demo_comparison import Comparison

#: Regions hold about 1,000 test rows: a coverage further off than this is no accident.
TOLERANCE = 0.03
LEVEL = say_level(CONFIDENCE_LEVEL)


def table(comparison: Comparison) -> Table:
    """One row a method, the true quantiles last."""
    made = Table(
        title=f"{LEVEL} intervals: {N_TRAIN:,} rows to fit, {N_TEST:,} new rows",
        caption="Coverage in %, over all x and by region of x. Score: length plus misses.",
        box=SIMPLE_HEAD,
        collapse_padding=True,
    )
    made.add_column("", no_wrap=True)
    for header in ("coverage", "mean\nlength", "interval\nscore"):
        made.add_column(header, justify="right")
    for left, right in pairwise(EDGES):
        made.add_column(f"x in\n{left:g}-{right:g}", justify="right")
    for name, summary in comparison.summaries.items():
        made.add_row(
            Text(name, style="bold" if name == SLCP else "dim" if name == ORACLE else ""),
            f"{100 * summary.coverage:.1f}",
            say_number(summary.mean_length),
            say_number(summary.interval_score),
            *(_cell(share) for share in summary.by_region),
            end_section=name == SLCP,
        )
    return made


def _cell(share: float) -> Text:
    excess = share - CONFIDENCE_LEVEL
    style = "red" if excess < -TOLERANCE else "yellow" if excess > TOLERANCE else "green"
    return Text(f"{100 * share:.0f}", style=style)


def conclusion(comparison: Comparison) -> str:
    """What to see in the table, for someone who meets it for the first time."""
    split, slcp = comparison.summaries[SPLIT], comparison.summaries[SLCP]
    local, fixed, ideal = (
        say_number(comparison.summaries[name].mean_length) for name in (SLCP, SPLIT, ORACLE)
    )
    return (
        f"Every method covers about {LEVEL} of new rows on average; the regions "
        f"tell them apart. The noise grows with x: one width for all (split conformal) covers "
        f"{100 * split.by_region.max():.0f} % of one region and only "
        f"{100 * split.by_region.min():.0f} % of "
        f"another, while SLCP stays between {100 * slcp.by_region.min():.0f} and "
        f"{100 * slcp.by_region.max():.0f} % and has a mean length of {local}, not {fixed}. "
        f"Knowing the truth (last row) would give {ideal}."
    )


def draw(comparison: Comparison, path: Path) -> None:
    """The methods side by side, as a PNG file."""
    from matplotlib.figure import Figure

    from localconformal.plots import plot_comparison

    figure = Figure(figsize=(11, 5.4), layout="constrained")
    plot_comparison(
        comparison.X,
        comparison.y,
        comparison.intervals,
        EDGES,
        oracle=comparison.oracle,
        confidence_level=CONFIDENCE_LEVEL,
        title=f"The same {LEVEL} promise, three ways to keep it",
        figure=figure,
    )
    figure.savefig(path, dpi=100, pil_kwargs={"optimize": True})


def write_page(comparison: Comparison, path: Path) -> None:
    """The audit of SLCP with the other methods beside it, as one HTML page."""
    import pandas as pd

    from localconformal.audit import audit, compare
    from localconformal.report import write_report

    X, intervals = pd.DataFrame(comparison.X, columns=["x"]), comparison.intervals
    write_report(
        audit(X, comparison.y, intervals[SLCP], confidence_level=CONFIDENCE_LEVEL),
        path,
        model=comparison.models[SLCP],
        title="The demo: SLCP on simulated data whose noise grows with x",
        comparison=compare(intervals, X, comparison.y, confidence_level=CONFIDENCE_LEVEL),
        X=X,
        y=comparison.y,
        intervals=intervals[SLCP],
        y_pred=comparison.models[SLCP].predict(comparison.X),
        group_hint="",
    )


def record(comparison: Comparison) -> dict[str, Any]:
    """The table as plain data."""
    return {
        "confidence_level": CONFIDENCE_LEVEL,
        "rows": {"fit": N_TRAIN, "new": N_TEST},
        "edges_of_regions": EDGES.tolist(),
        "methods": {name: asdict(summary) for name, summary in comparison.summaries.items()},
        "conclusion": conclusion(comparison),
    }
