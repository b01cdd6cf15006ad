"""What the paper prints and says, beside what we found: one rule for every verdict.

A number has bounds: the paper's value and a tolerance, or what a sentence of the paper amounts to.
If our whole 95 % interval lies within them it is reproduced, if none of it does it is not, and
otherwise it is undecided. A difference between methods is judged by its value like any number; its
direction is a line of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.harness import (
    CANNOT,
    EQUAL,
    NOT_REPRODUCED,
    OURS,
    REPRODUCED,
    UNDECIDED,
    Line,
    Row,
)
from benchmarks.tables import Mean, in_per_cent, log_ratio, over_repeats


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
#: is in per cent. Two methods on the same rows, or one with two settings, differ by a "change", in
#: per cent of the length: base models and units cancel, so that it may be off by less.
TOLERANCES = {
    "length": (0.1, 0.0),
    "coverage": (0.0, 1.0),
    "correlation": (0.0, 0.1),
    "change": (0.0, 5.0),
    "relative": (0.05, 0.0),
}
#: A change that matters to nobody: of the length, in per cent, and of a distance from the level, in
#: points of coverage.
NEGLIGIBLE, NEGLIGIBLE_GAP = 1.0, 0.5
LOG_RATIO = "100 log ratio of lengths"
#: Begins a note on data sets that are left out of a line.
WITHOUT = "without "
NO_VALUE, ONE_REPEAT = "not run: there is no value of ours", "one repeat has no standard error"
SHARED_ROWS = (
    "Repeats are splits of the same data sets and share rows, so that their standard errors tell "
    "what another split would change, and are too small for what other data would."
)


def within(ours: Mean, low: float, high: float, seen: str) -> tuple[str, str]:
    """Verdict and reason: where our 95 % interval lies.

    Examples
    --------
    >>> [within(Mean(value, 0.1, 5), 0.0, 1.0, "")[0] for value in (0.5, 2.0, 1.1)]
    ['reproduced', 'not reproduced', 'undecided']
    """
    if ours.error is None:
        return UNDECIDED, ONE_REPEAT
    bottom, top = ours.value - ours.margin, ours.value + ours.margin
    if low <= bottom and top <= high:
        return REPRODUCED, seen
    return (NOT_REPRODUCED if top < low or high < bottom else UNDECIDED), seen


def compared(
    of: dict[str, str], paper: float | None, ours: Mean | None, kind: str, cannot: str = ""
) -> Line:
    """A line whose verdict is how near our value is to the paper's.

    ``kind`` is a row of `TOLERANCES`; ``cannot`` says why the two cannot be compared, if so.
    """
    value, error = (None, None) if ours is None else ours[:2]
    if paper is None and not cannot:
        return Line(of, None, value, error, OURS, "the paper prints no value")
    if ours is None or paper is None or cannot:
        return Line(of, paper, value, error, CANNOT, cannot or NO_VALUE)
    share, amount = TOLERANCES[kind]
    allowed, gap = share * abs(paper) + amount, ours.value - paper
    seen = f"{gap:+.2f} from the paper's, {allowed:.2f} allowed, 95 % margin {ours.margin:.2f}"
    verdict = within(ours, paper - allowed, paper + allowed, seen)
    return Line(of, paper, value, error, *verdict)


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


def change_lines(
    of: dict[str, str], paper: float | None, ours: Mean | None, cannot: str = ""
) -> list[Line]:
    """A change of the length in per cent: its value, and its direction where the paper has one."""
    value = compared(of, paper, ours, "change", cannot)
    if not paper:
        return [value]
    word, *bounds = ("longer", 0.0, math.inf) if paper > 0 else ("shorter", -math.inf, 0.0)
    way, said = {**of, "quantity": directed(of["quantity"], word)}, f"the paper has it {word}"
    return [value, between(way, ours, *bounds, said, NEGLIGIBLE, cannot)]


def directed(quantity: str, word: str) -> str:
    """What the line is called that asks for the direction of a change, "longer" or "shorter"."""
    return f"{quantity}: {word}"


def length_difference(
    of: dict[str, str],
    rows: list[Row],
    first: str,
    second: str,
    paper: Sequence[float | None],
    cannot: str = "",
) -> list[Line]:
    """By how much one method is longer than another on the same rows, beside the paper's two."""
    a, b = paper
    gap = None if a is None or b is None else round(100.0 * math.log(a / b), 1)
    of = {**of, "method": f"{first} / {second}", "quantity": LOG_RATIO}
    return change_lines(of, gap, log_ratio(rows, first, second), cannot)


def below(
    of: dict[str, str],
    ours: Mean | None,
    bound: float,
    said: str,
    negligible: float = 0.0,
    cannot: str = "",
) -> Line:
    """A line for a claim, such as "the paper says shorter", that our value is below the bound."""
    return between(of, ours, -math.inf, bound, said, negligible, cannot)


def between(
    of: dict[str, str],
    ours: Mean | None,
    low: float,
    high: float,
    said: str,
    negligible: float = 0.0,
    cannot: str = "",
) -> Line:
    """A line for a claim that our value lies between two bounds, beyond its margin.

    Where that is undecided and our whole interval is within ``negligible`` of 0, the verdict is
    "no difference".
    """
    if ours is None or cannot:
        return compared(of, None, ours, "change", cannot or NO_VALUE)
    bounds = " and ".join(
        f"{word} {bound:.3f}"
        for word, bound in (("above", low), ("below", high))
        if math.isfinite(bound)
    )
    seen = f"{said}, that is {bounds}; 95 % margin {ours.margin:.3f}"
    verdict, reason = within(ours, low, high, seen)
    is_near = ours.error is not None and abs(ours.value) + ours.margin <= negligible
    if verdict == UNDECIDED and is_near:
        verdict, reason = EQUAL, f"{seen}, all of it within {negligible:g} of 0"
    return Line(of, None, ours.value, ours.error, verdict, reason)


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
