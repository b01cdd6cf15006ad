"""Conditions on one column, said with as few digits as keep the same rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.columns import DURATION, MISSING, Column
from localconformal.columns import NUMBER, TIME
from localconformal.text import shorten

#: Seconds of the units in which a time is said, the coarsest first.
UNITS = {"D": 86_400, "h": 3_600, "m": 60, "s": 1}
#: Thousands stand apart from here on: below, a number may be a year.
LEAST_PARTED = 10_000


@dataclass(frozen=True)
class Condition:
    """low < value <= high, or a label that is or is not, or a missing value that is or is not.

    Attributes
    ----------
    feature : str
    text : str
        The condition in words.
    short : str
        The same without the name of the feature.
    low, high : float
        Of a number; infinite where there is no bound, or where it is not about a number.
    label : str or None
        Of a condition about a label.
    missing : bool
        Whether the condition is about missing values.
    negated : bool
        Whether the label, or the missing value, must not be there.
    """

    feature: str
    text: str
    short: str
    low: float = -math.inf
    high: float = math.inf
    label: str | None = None
    missing: bool = False
    negated: bool = False

    def holds(self, column: Column) -> NDArray[np.bool_]:
        """Which rows of the column fulfil the condition; a missing number fulfils no range."""
        codes = column.codes
        if self.missing:
            return (codes == MISSING) != self.negated
        if self.label is not None:
            known = self.label in column.labels
            code = column.labels.index(self.label) if known else MISSING - 1
            return (codes == code) != self.negated
        first, last = np.searchsorted(column.values, [self.low, self.high], side="right")
        return (codes >= first) & (codes < last)


def range_condition(column: Column, first: int, last: int) -> Condition:
    """That the value is the ``first`` to the ``last`` of the column's distinct ones."""
    values, final = column.values, len(column.values) - 1
    low = -math.inf if first == 0 else between(values[first - 1], values[first], column.kind)
    high = math.inf if last == final else between(values[last], values[last + 1], column.kind)
    feature, name = column.name, shorten(column.name)
    if first == last:
        value = say_value(values[first], column.kind)
        return Condition(feature, f"{name} = {value}", value, low, high)
    if first == 0 and last == final:
        return Condition(feature, f"{name} is known", "known", low, high)
    if first == 0 or last == final:
        sign, bound = ("<=", high) if first == 0 else (">", low)
        short = f"{sign} {say_value(bound, column.kind)}"
        return Condition(feature, f"{name} {short}", short, low, high)
    start, end = (say_value(bound, column.kind) for bound in (low, high))
    return Condition(feature, f"{start} < {name} <= {end}", f"{start} to {end}", low, high)


def label_condition(column: Column, code: int, negated: bool = False) -> Condition:
    """That the label is this one, or is not."""
    label, said = column.labels[code], shorten(column.labels[code])
    sign, short = ("!=", f"not {said}") if negated else ("=", said)
    text = f"{shorten(column.name)} {sign} {said}"
    return Condition(column.name, text, short, label=label, negated=negated)


def missing_condition(column: Column, negated: bool = False) -> Condition:
    """That the value is missing, or is not."""
    state = "known" if negated else "missing"
    text = f"{shorten(column.name)} is {state}"
    return Condition(column.name, text, state, missing=True, negated=negated)


def between(a: float, b: float, kind: str = NUMBER) -> float:
    """The number t with a <= t < b that takes the fewest digits to say.

    Examples
    --------
    >>> between(6.0, 7.0), between(0.31287, 0.33521), between(9.0, 12.0)
    (6.0, 0.32, 10.0)
    """
    if kind in (TIME, DURATION):
        return float(next(t for u in UNITS.values() if (t := math.ceil(a / u) * u) < b))
    a, b = float(a), float(b)
    largest, middle = max(abs(a), abs(b)), a / 2 + b / 2
    if largest > 1e300:
        # Rounded up it may be too large to be a number.
        return a
    start = -math.floor(math.log10(largest)) - 1
    # If a multiple of a step lies inside at all, then the nearest one to the middle does, or a.
    for digits in range(start, start + 20):
        for rounded in (round(middle, digits), round(a, digits)):
            if a <= rounded < b:
                return rounded
    return a


def say_value(value: float, kind: str) -> str:
    """The number in as few digits as name it, thousands apart; a time as a date.

    Examples
    --------
    >>> say_value(2011, "number"), say_value(293712.5, "number")
    ('2011', '293,712.5')
    """
    if kind == TIME:
        unit = next(unit for unit, size in UNITS.items() if value % size == 0)
        # A date with an hour alone reads as something else.
        time = np.datetime64(int(value), "s").astype(f"M8[{'m' if unit == 'h' else unit}]")
        return str(time).replace("T", " ")
    if kind == DURATION:
        return str(timedelta(seconds=value))
    text = say_exact(value)
    if abs(value) < LEAST_PARTED or "e" in text:
        return text
    thousands, point, rest = text.partition(".")
    return f"{int(thousands):,}{point}{rest}"


def say_exact(value: float) -> str:
    """A number in the shortest digits that read back as the same.

    Examples
    --------
    >>> say_exact(7.0), say_exact(0.25), say_exact(1e-9)
    ('7', '0.25', '1e-09')
    """
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(float(value))
