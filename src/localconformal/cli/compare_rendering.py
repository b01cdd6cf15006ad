"""A comparison of methods on a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from localconformal.cli.layout import empty_table
from localconformal.text import say_difference, say_level, say_number

if TYPE_CHECKING:
    from localconformal.workflow.comparison import TableComparison
    from localconformal.workflow.standings import Standing

HEADINGS = ("score", "more than the best's", "coverage, %", "length", "seconds")


def standings_table(found: TableComparison) -> Any:
    """One line a method, the best first."""
    table = empty_table({"method": "left", **dict.fromkeys(HEADINGS, "right")})
    table.title = (
        f"{say_level(found.confidence_level)} intervals: {found.first.n_fit:,} rows to fit and "
        f"calibrate, {len(found.first.y):,} new rows"
    )
    table.caption = "Score: mean length plus a price for every miss. Seconds: fit and calibrate."
    for standing in found.standings:
        table.add_row(*cells(standing, found.confidence_level))
    return table


def cells(standing: Standing, level: float) -> Iterator[Any]:
    """The texts of one line; a coverage whose band misses the target is coloured."""
    from rich.text import Text

    low, high = standing.coverage_lower, standing.coverage_upper
    style = "red" if high < level else "yellow" if low > level else ""
    yield standing.method
    yield say_number(standing.interval_score)
    yield difference(standing)
    yield Text(f"{100 * standing.coverage:.1f} [{100 * low:.0f}, {100 * high:.0f}]", style=style)
    yield say_number(standing.mean_length)
    yield f"{standing.fit_seconds:.1f}"


def difference(standing: Standing) -> str:
    """+0.12 [+0.10, +0.14], or nothing for the best and for infinite scores."""
    low, high = standing.interval_score_difference_lower, standing.interval_score_difference_upper
    if math.isnan(low) or math.isinf(standing.interval_score):
        return ""
    return say_difference(standing.interval_score_difference, low, high)


def conclusion(found: TableComparison) -> Iterator[str]:
    """Who is best and who cannot be told from it; then what failed."""
    best, *others = found.standings
    finite = [one for one in others if math.isfinite(one.interval_score)]
    alike = [one.method for one in finite if not one.interval_score_difference_lower > 0.0]
    if others:
        tail = f", not to be told apart from {', '.join(alike)}" if alike else ""
        yield f"Best by the interval score: {best.method}{tail} (95 % confidence, same rows)."
    for name, why in found.failed.items():
        yield f"Failed: {name}: {why}"
