"""Comparisons that speak for or against a claim, and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from localconformal.experiments.summary import Mean

FOR, AGAINST, UNCLEAR = "for it", "against it", "no clear difference"
HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
NOT_SHOWN, NOT_RUN, NOT_JUDGED = "not shown", "not run", "not judged"


@dataclass(frozen=True)
class Check:
    """One comparison: where, of what, our mean, and what it says about the claim."""

    where: str
    what: str
    ours: Mean
    outcome: str


@dataclass(frozen=True)
class Finding:
    """What the experiments say about a claim."""

    verdict: str
    sentences: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def less(where: str, what: str, ours: Mean | None, bound: float = 0.0) -> list[Check]:
    """The claim is that our value is below the bound; beyond its 95 % margin it is decided.

    Empty where there is no value.

    Examples
    --------
    >>> [check.outcome for check in less("here", "length", Mean(-1.0, 0.1, 5))]
    ['for it']
    """
    return [] if ours is None else [Check(where, what, ours, _side(bound - ours.value, ours))]


def more(where: str, what: str, ours: Mean | None, bound: float = 0.0) -> list[Check]:
    """The same for a claim that our value is above the bound."""
    return [] if ours is None else [Check(where, what, ours, _side(ours.value - bound, ours))]


def at_most(where: str, what: str, ours: Mean | None, most: float) -> list[Check]:
    """The claim is that our value does not exceed what may be tolerated.

    It speaks against the claim if it does, and is above 0 beyond its margin.
    """
    if ours is None:
        return []
    real = ours.error is not None and ours.value > ours.margin
    outcome = FOR if ours.value <= most else AGAINST if real else UNCLEAR
    return [Check(where, what, ours, outcome)]


def _side(distance: float, ours: Mean) -> str:
    if ours.error is None or abs(distance) <= ours.margin:
        return UNCLEAR
    return FOR if distance > 0 else AGAINST


def judge(checks: Iterable[Check]) -> str:
    """The verdict of all checks together: one against a claim is enough for "in part".

    Examples
    --------
    >>> judge([])
    'not run'
    >>> judge(less("a", "b", Mean(-1.0, 0.1, 5)) + less("c", "d", Mean(1.0, 0.1, 5)))
    'holds in part'
    """
    outcomes = {check.outcome for check in checks}
    if not outcomes:
        return NOT_RUN
    if outcomes == {FOR}:
        return HOLDS
    if FOR in outcomes:
        return PARTLY
    return FAILS if AGAINST in outcomes else NOT_SHOWN


def count(checks: list[Check]) -> dict[str, int]:
    """How many checks there are of each outcome."""
    outcomes = [check.outcome for check in checks]
    return {outcome: outcomes.count(outcome) for outcome in (FOR, AGAINST, UNCLEAR)}


def finding(checks: list[Check], sentences: Iterable[str | None]) -> Finding:
    """The verdict with its reasons; what has nothing to say is left out."""
    if not checks:
        return Finding(NOT_RUN)
    return Finding(judge(checks), list(filter(None, sentences)), checks)
