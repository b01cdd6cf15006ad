"""Verdicts: near a printed number, or as the paper says in words: shorter, slower, much alike."""

from __future__ import annotations

from localconformal.experiments.experiment import CANNOT, NOT_REPRODUCED, REPRODUCED, Line
from localconformal.experiments.summary import TOLERANCES, Mean, compared

#: Tolerances that a margin may be wide; with a wider one any number would pass.
WIDEST = 2.0
ONE_REPEAT = "one repeat has no standard error"


def near(
    of: dict[str, str], paper: float | None, ours: Mean | None, kind: str, cannot: str = ""
) -> Line:
    """`compared`, without a verdict where our value is too uncertain for one."""
    if ours is not None and paper is not None and not cannot:
        share, amount = TOLERANCES[kind]
        if ours.error is None:
            cannot = ONE_REPEAT
        elif ours.margin > WIDEST * (share * abs(paper) + amount):
            cannot = f"too uncertain, by a 95 % margin of {ours.margin:.2f}"
    return compared(of, paper, ours, kind, cannot)


def below(of: dict[str, str], ours: Mean | None, bound: float, said: str) -> Line:
    """A line for a claim that holds if our value is below the bound beyond its margin.

    ``said`` is the claim, such as "the paper says shorter".
    """
    return _beyond(of, ours, -1.0, bound, said)


def above(of: dict[str, str], ours: Mean | None, bound: float, said: str) -> Line:
    """The same for a claim that our value is above the bound."""
    return _beyond(of, ours, 1.0, bound, said)


def _beyond(of: dict[str, str], ours: Mean | None, sign: float, bound: float, said: str) -> Line:
    if ours is None or ours.error is None:
        return unclear(of, ours)
    gap = sign * (ours.value - bound)
    clear = abs(gap) > ours.margin
    seen = "so here" if clear and gap > 0 else "the opposite here" if clear else "not clear"
    verdict = REPRODUCED if clear and gap > 0 else NOT_REPRODUCED
    return Line(
        of, None, ours.value, ours.error, verdict, f"{said}; {seen}, 95 % margin {ours.margin:.3f}"
    )


def alike(of: dict[str, str], ours: Mean | None, centre: float, within: float, said: str) -> Line:
    """A line for a claim that two things are much alike: ours is near the centre."""
    if ours is None or ours.error is None:
        return unclear(of, ours)
    allowed = within + ours.margin
    close = abs(ours.value - centre) <= allowed
    verdict = REPRODUCED if close else NOT_REPRODUCED
    reason = f"{said}; {ours.value - centre:+.3f}, {allowed:.3f} allowed"
    return Line(of, None, ours.value, ours.error, verdict, reason)


def within_factor(
    of: dict[str, str], paper: float | None, ours: Mean | None, factor: float
) -> Line:
    """A line for a ratio of seconds: reproduced if it is the paper's, give or take the factor."""
    if paper is None or ours is None:
        return compared(of, paper, ours, "length")
    ratio = ours.value / paper
    close = 1.0 / factor <= ratio <= factor
    reason = f"{ratio:.2f} times the paper's, {1 / factor:.2f} to {factor:.2f} allowed"
    return Line(of, paper, ours.value, ours.error, REPRODUCED if close else NOT_REPRODUCED, reason)


def unclear(of: dict[str, str], ours: Mean | None) -> Line:
    """A line without a verdict, for want of tasks or of repeats."""
    if ours is None:
        return compared(of, None, None, "length")
    return Line(of, None, ours.value, None, CANNOT, ONE_REPEAT)
