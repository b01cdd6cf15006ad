"""Comparisons that say something for or against a claim, and the verdict they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import stdtr

from localconformal.experiments.summary import Mean

FOR, AGAINST, UNCLEAR = "for it", "against it", "no clear difference"
#: A comparison that would not be fair.
UNFAIR = "not counted"
HOLDS, PARTLY, FAILS = "holds", "holds in part", "does not hold"
NOT_SHOWN, NOT_RUN, NOT_JUDGED = "not shown", "not run", "not judged"
#: Chance that any comparison of a claim is decided where there is no difference.
ERROR = 0.05


@dataclass(frozen=True)
class Check:
    """One comparison: where, of what, our mean, and on which side of a bound the claim has it.

    ``below`` says that the claim is a value below the bound. ``barred`` are outcomes that the
    comparison cannot have since it would not be fair; ``what`` then says why.
    """

    where: str
    what: str
    ours: Mean
    bound: float
    below: bool
    barred: tuple[str, ...] = ()
    outcome: str = UNCLEAR

    @property
    def side(self) -> str:
        """What the value itself says, by chance or not."""
        found = FOR if (self.ours.value < self.bound) == self.below else AGAINST
        return UNFAIR if found in self.barred else found

    @property
    def chance(self) -> float:
        """Probability of a value so far from the bound, on either side, by chance (Student's t)."""
        distance = abs(self.ours.value - self.bound)
        if self.ours.error is None or distance == 0.0:
            return 1.0
        if self.ours.error == 0.0:
            return 0.0
        return float(2.0 * stdtr(self.ours.repeats - 1, -distance / self.ours.error))


@dataclass(frozen=True)
class Finding:
    """What the experiments say about a claim."""

    verdict: str
    sentences: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)


def less(
    where: str, what: str, ours: Mean | None, bound: float = 0.0, barred: tuple[str, ...] = ()
) -> list[Check]:
    """The claim is that our value is below the bound. Empty where there is no value.

    Examples
    --------
    >>> [check.outcome for check in decided(less("here", "length", Mean(-1.0, 0.1, 5)))]
    ['for it']
    """
    return [] if ours is None else [Check(where, what, ours, bound, True, barred)]


def more(where: str, what: str, ours: Mean | None, bound: float = 0.0) -> list[Check]:
    """The same for a claim that our value is above the bound."""
    return [] if ours is None else [Check(where, what, ours, bound, False)]


def decided(checks: Iterable[Check]) -> list[Check]:
    """The comparisons of a claim with their outcomes, by Holm's rule.

    The least probable by chance is decided first; with m comparisons, the k-th counts if it has a
    probability of at most 5 % / (m - k + 1), as have all before it. So the chance of any wrong
    decision within a claim is at most 5 %.
    """
    found = list(checks)
    order = np.argsort([check.chance for check in found], kind="stable")
    for place, at in enumerate(order):
        check = found[at]
        if check.chance > ERROR / (len(found) - place):
            break
        found[at] = replace(check, outcome=check.side)
    return found


def judge(checks: list[Check], superlative: bool = False) -> str:
    """The verdict of decided checks together.

    A claim holds if all are for it, and in part if most are. It does not hold if as many are
    against it as for it; a superlative, which says that nothing is better, not if any is.

    Examples
    --------
    >>> judge([])
    'not run'
    >>> mixed = [*less("a", "b", Mean(-1.0, 0.1, 5)), *less("c", "d", Mean(-2.0, 0.1, 5)),
    ...          *less("e", "f", Mean(1.0, 0.1, 5))]
    >>> judge(decided(mixed)), judge(decided(mixed), superlative=True)
    ('holds in part', 'does not hold')
    """
    if not checks:
        return NOT_RUN
    counts = count(checks)
    fair = len(checks) - counts[UNFAIR]
    if counts[FOR] == fair > 0:
        return HOLDS
    if counts[AGAINST] and (superlative or counts[AGAINST] >= counts[FOR]):
        return FAILS
    return PARTLY if counts[FOR] > fair / 2 else NOT_SHOWN


def count(checks: list[Check]) -> dict[str, int]:
    """How many checks there are of each outcome."""
    outcomes = [check.outcome for check in checks]
    return {outcome: outcomes.count(outcome) for outcome in (FOR, AGAINST, UNCLEAR, UNFAIR)}


def finding(
    checks: Iterable[Check], sentences: Iterable[str | None], superlative: bool = False
) -> Finding:
    """The verdict with its reasons; what has nothing to say is left out."""
    known = decided(checks)
    if not known:
        return Finding(NOT_RUN)
    return Finding(judge(known, superlative), list(filter(None, sentences)), known)
