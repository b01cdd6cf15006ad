"""Verdicts on what the paper says in words: shorter, slower, much alike."""

from __future__ import annotations

from localconformal.experiments.experiment import CANNOT, NOT_REPRODUCED, REPRODUCED, Line
from localconformal.experiments.summary import ONE_REPEAT, Mean, compared, judged


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
    gap = ours.value - centre
    seen = f"{said}; {gap:+.3f}, {within:.3f} allowed, 95 % margin {ours.margin:.3f}"
    return Line(of, None, ours.value, ours.error, *judged(ours, gap, within, seen))


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
