"""From rows to means with standard errors, and from those to verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from localconformal.experiments.experiment import (
    CANNOT,
    NOT_CLEAR,
    NOT_REPRODUCED,
    REPRODUCED,
    Line,
    Row,
)
from localconformal.metrics import coverage_band

#: How far ours may be from the paper's: a share of the paper's value, and a plain amount. Coverage
#: is in per cent.
TOLERANCES = {
    "length": (0.1, 0.0),
    "coverage": (0.0, 1.0),
    "correlation": (0.0, 0.1),
}
ONE_REPEAT = "one repeat has no standard error"


class Mean(NamedTuple):
    """A mean, its standard error (None for one repeat), and how many repeats are behind it."""

    value: float
    error: float | None
    repeats: int

    @property
    def margin(self) -> float:
        """Half of the 95 % interval of Student's t; 0 for one repeat, which has no error."""
        if self.error is None:
            return 0.0
        return float(stdtrit(self.repeats - 1, 0.975)) * self.error


def select(rows: Iterable[Row], **fields: Any) -> list[Row]:
    """Rows with these fields."""
    return [row for row in rows if all(row.get(name) == value for name, value in fields.items())]


def over_repeats(rows: Iterable[Row], value: str | Callable[[Row], Any]) -> Mean | None:
    """Mean over data sets within each repeat, then over repeats, whose spread is the error.

    Repeats that lack a data set that others have are left out, so that all means are over the
    same sets; rows without the value do not count. None where no repeat has them all.

    Examples
    --------
    >>> rows = [{"repeat": r, "dataset": d, "length": r + d} for r in (0, 1) for d in (1, 2)]
    >>> over_repeats(rows, "length")
    Mean(value=2.0, error=0.5, repeats=2)
    """
    get = value if callable(value) else lambda row: row.get(value)
    by_repeat: dict[Any, dict[Any, float]] = {}
    for row in rows:
        found = get(row)
        if found is not None:
            by_repeat.setdefault(row["repeat"], {})[row.get("dataset")] = float(found)
    every = {name for sets in by_repeat.values() for name in sets}
    whole = [np.mean(list(sets.values())) for sets in by_repeat.values() if sets.keys() == every]
    if not whole:
        return None
    error = float(np.std(whole, ddof=1) / np.sqrt(len(whole))) if len(whole) > 1 else None
    return Mean(float(np.mean(whole)), error, len(whole))


def in_per_cent(share: Mean | None) -> Mean | None:
    """A mean of shares, times 100."""
    if share is None:
        return None
    error = None if share.error is None else 100.0 * share.error
    return Mean(100.0 * share.value, error, share.repeats)


def below_bands(rows: Iterable[Row], level: float) -> list[Row]:
    """For each method, in how many cells coverage lies below its Beta-binomial band.

    A cell is one method on one split. By chance one in 40 is below its own 95 % band; the strict
    band divides the 5 % by the method's number of cells, so that none should be below it.
    """
    cells: dict[str, list[Row]] = {}
    for row in rows:
        if row.get("coverage") is not None and "n_calibration" in row:
            cells.setdefault(row["method"], []).append(row)
    return [
        {
            "method": method,
            "cells": len(mine),
            "mean coverage": float(np.mean([row["coverage"] for row in mine])),
            "below 95 % band": count_below(mine, level, 0.95),
            "above": count_below(mine, level, 0.95, above=True),
            "below strict band": count_below(mine, level, 1.0 - 0.05 / len(mine)),
        }
        for method, mine in cells.items()
    ]


def count_below(cells: list[Row], level: float, probability: float, above: bool = False) -> int:
    """Cells whose coverage is below (or above) the band of this probability."""
    count = 0
    for row in cells:
        low, high = coverage_band(row["n_calibration"], row["n_test"], level, probability)
        count += row["coverage"] > high if above else row["coverage"] < low
    return count


def paired(rows: Iterable[Row], first: str, second: str, value: str) -> list[Row]:
    """Rows of the difference first - second of two methods, wherever both have a value."""
    known: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        place = (row.get("dataset"), row.get("model"), row["repeat"])
        known.setdefault(place, {})[row["method"]] = row
    found = []
    for both in known.values():
        a, b = (both.get(name, {}).get(value) for name in (first, second))
        if a is not None and b is not None:
            found.append({**both[first], "difference": a - b})
    return found


def within(ours: Mean, low: float, high: float, seen: str) -> tuple[str, str]:
    """Verdict and reason, one rule for all: where our 95 % interval lies.

    Reproduced if all of it is within the bounds, not reproduced if none of it is; otherwise
    nothing can be said, and the reason begins with "not clear".

    Examples
    --------
    >>> [within(Mean(value, 0.1, 5), 0.0, 1.0, "")[0] for value in (0.5, 2.0, 1.1)]
    ['reproduced', 'not reproduced', 'cannot be compared']
    """
    if ours.error is None:
        return CANNOT, ONE_REPEAT
    bottom, top = ours.value - ours.margin, ours.value + ours.margin
    if low <= bottom and top <= high:
        return REPRODUCED, seen
    if top < low or high < bottom:
        return NOT_REPRODUCED, seen
    return CANNOT, f"{NOT_CLEAR}: {seen}"


def compared(
    of: dict[str, str], paper: float | None, ours: Mean | None, kind: str, cannot: str = ""
) -> Line:
    """A line whose verdict is how near our value is to the paper's.

    ``kind`` is a row of `TOLERANCES`; ``cannot`` says why the two cannot be compared, if so.
    """
    if ours is None:
        return Line(of, paper, None, None, CANNOT, cannot or "there is no value of ours")
    if cannot or paper is None:
        reason = cannot or "the paper prints no value"
        return Line(of, paper, ours.value, ours.error, CANNOT, reason)
    share, amount = TOLERANCES[kind]
    allowed, gap = share * abs(paper) + amount, ours.value - paper
    seen = f"{gap:+.2f} from the paper's, {allowed:.2f} allowed, 95 % margin {ours.margin:.2f}"
    verdict = within(ours, paper - allowed, paper + allowed, seen)
    return Line(of, paper, ours.value, ours.error, *verdict)


def same_direction(
    of: dict[str, str], paper: float | None, ours: Mean | None, cannot: str = ""
) -> Line:
    """A line whose verdict is whether a difference has the paper's sign, beyond its margin."""
    if ours is None or cannot or paper is None:
        return compared(of, paper, ours, "length", cannot)
    same = "the same" if ours.value * paper > 0 else "the opposite"
    seen = f"{same} sign, 95 % margin {ours.margin:.2f}"
    bounds = (0.0, np.inf) if paper > 0 else (-np.inf, 0.0)
    return Line(of, paper, ours.value, ours.error, *within(ours, *bounds, seen))
