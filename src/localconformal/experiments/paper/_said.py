"""Verdicts on what the paper says in words: shorter, slower, much alike."""

from __future__ import annotations

import math

from localconformal.experiments.experiment import CANNOT, Line
from localconformal.experiments.summary import ONE_REPEAT, Mean, compared, within


def below(of: dict[str, str], ours: Mean | None, bound: float, said: str) -> Line:
    """A line for a claim that holds if our value is below the bound beyond its margin.

    ``said`` is the claim, such as "the paper says shorter".
    """
    return between(of, ours, -math.inf, bound, said)


def above(of: dict[str, str], ours: Mean | None, bound: float, said: str) -> Line:
    """The same for a claim that our value is above the bound."""
    return between(of, ours, bound, math.inf, said)


def alike(of: dict[str, str], ours: Mean | None, centre: float, allowed: float, said: str) -> Line:
    """A line for a claim that two things are much alike: ours is near the centre."""
    return between(of, ours, centre - allowed, centre + allowed, said)


def between(of: dict[str, str], ours: Mean | None, low: float, high: float, said: str) -> Line:
    """A line for a claim that our value lies between two bounds."""
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
