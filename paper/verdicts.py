"""What the paper prints and says, beside what we found."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import CANNOT, NOT_CLEAR, NOT_REPRODUCED, REPRODUCED, Line, Row
from benchmarks.tables import Mean, difference, in_per_cent, over_repeats


@cache
def printed() -> dict[str, Any]:
    """Every number of the paper, by table.

    Lengths are means with the response divided by the mean of its absolute value; coverage is
    in per cent, to reach 90.

    Examples
    --------
    >>> printed()["table1"]["ridge"]["SLCP"]
    [2.12, 90.82, 0.45]
    """
    text = (Path(__file__).parent / "expected.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


#: How far ours may be from the paper's: a share of the paper's value, and a plain amount. Coverage
#: is in per cent.
TOLERANCES = {"length": (0.1, 0.0), "coverage": (0.0, 1.0), "correlation": (0.0, 0.1)}
ONE_REPEAT = "one repeat has no standard error"


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


def length_and_coverage(
    of: dict[str, str],
    rows: list[Row],
    paper: Sequence[float | None] = (None, None),
    cannot: str = "",
    cannot_cover: str = "",
    length: str = "length",
) -> list[Line]:
    """Two lines, the paper's pair beside the means of these rows."""
    ours, share = over_repeats(rows, "length"), over_repeats(rows, "coverage")
    of_share = {**of, "quantity": "coverage, %"}
    return [
        compared({**of, "quantity": length}, paper[0], ours, "length", cannot),
        compared(of_share, paper[1], in_per_cent(share), "coverage", cannot_cover),
    ]


def same_direction(
    of: dict[str, str], paper: float | None, ours: Mean | None, cannot: str = ""
) -> Line:
    """A line whose verdict is whether a difference has the paper's sign, beyond its margin."""
    if ours is None or cannot or paper is None:
        return compared(of, paper, ours, "length", cannot)
    same = "the same" if ours.value * paper > 0 else "the opposite"
    seen = f"{same} sign, 95 % margin {ours.margin:.2f}"
    bounds = (0.0, math.inf) if paper > 0 else (-math.inf, 0.0)
    return Line(of, paper, ours.value, ours.error, *within(ours, *bounds, seen))


def length_difference(
    of: dict[str, str], rows: list[Row], first: str, second: str, paper: Sequence[float | None]
) -> Line:
    """Which of two methods is shorter on the same rows, beside the paper's two lengths."""
    ours, (a, b) = difference(rows, first, second, "length"), paper
    gap = None if a is None or b is None else round(a - b, 10)
    of, cannot = {**of, "method": f"{first} - {second}"}, ""
    # A difference of 0 has no sign.
    if gap == 0.0:
        gap, cannot = None, "the paper prints the same length for both"
    return same_direction(of, gap, ours, cannot)


def below(of: dict[str, str], ours: Mean | None, bound: float, said: str) -> Line:
    """A line for a claim, such as "the paper says shorter", that our value is below the bound."""
    return between(of, ours, -math.inf, bound, said)


def between(of: dict[str, str], ours: Mean | None, low: float, high: float, said: str) -> Line:
    """A line for a claim that our value lies between two bounds, beyond its margin."""
    if ours is None:
        return compared(of, None, None, "length")
    if ours.error is None:
        return Line(of, None, ours.value, None, CANNOT, ONE_REPEAT)
    bounds = " and ".join(
        f"{word} {bound:.3f}"
        for word, bound in (("above", low), ("below", high))
        if math.isfinite(bound)
    )
    seen = f"{said}, that is {bounds}; 95 % margin {ours.margin:.3f}"
    return Line(of, None, ours.value, ours.error, *within(ours, low, high, seen))


def within_factor(
    of: dict[str, str], paper: float | None, ours: Mean | None, factor: float
) -> Line:
    """A line for a ratio of seconds: reproduced if it is the paper's, give or take the factor."""
    if paper is None or ours is None:
        return compared(of, paper, ours, "length")
    seen = (
        f"{ours.value / paper:.2f} times the paper's, {1 / factor:.2f} to {factor:.2f} allowed, "
        f"95 % margin {ours.margin / paper:.2f}"
    )
    verdict = within(ours, paper / factor, paper * factor, seen)
    return Line(of, paper, ours.value, ours.error, *verdict)
