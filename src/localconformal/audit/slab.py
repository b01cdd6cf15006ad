"""Which rows the worst slab holds, in the units of its columns."""

from __future__ import annotations

import numpy as np

from localconformal.audit.columns import Column
from localconformal.audit.conditions import (
    label_condition,
    missing_condition,
    say_value,
)
from localconformal.columns import LABEL, NUMBER
from localconformal.metrics import WorstSlab
from localconformal.text import listing, shorten

#: Columns named of a direction.
MOST_NAMED = 3
#: By how much a value may be off its place, in standard deviations.
ROUNDING = 1e-9


def say_slab(slab: WorstSlab, columns: list[Column]) -> str:
    """The rows of the slab: a range or a label where it is along one of these columns."""
    used = np.flatnonzero(slab.direction)
    if not columns:
        return "all rows"
    if len(used) > 1:
        order = used[np.argsort(-np.abs(slab.direction[used]), kind="stable")]
        names = [shorten(slab.columns[j]) for j in order[:MOST_NAMED]]
        return f"a range of a weighted sum of {len(used)} columns, above all {listing(names)}"
    j = int(used[0])
    column = columns[slab.source[j]]
    text = (say_label if column.kind == LABEL else say_range)(slab, j, column)
    # What is not known stands at the mean.
    if column.n_missing and slab.low <= 0.0 <= slab.high:
        return f"{text} or missing" if text else missing_condition(column).text
    return text


def say_range(slab: WorstSlab, j: int, column: Column) -> str:
    """The least and the largest of the column's values in the slab; nothing if there are none."""
    scale = slab.scale[j] or 1.0
    points = (column.values - slab.center[j]) / scale
    inside = column.values[(points >= slab.low - ROUNDING) & (points <= slab.high + ROUNDING)]
    if len(inside) == 0:
        return ""
    kind = column.kind
    low, high = (say_value(rounded(float(value), kind), kind) for value in inside[[0, -1]])
    name = shorten(column.name)
    return f"{name} = {low}" if low == high else f"{name} {low} to {high}"


def rounded(value: float, kind: str) -> float:
    """Five digits of a number that is not whole: a bound is read, not computed with."""
    whole = kind != NUMBER or value.is_integer()
    return value if whole else float(f"{value:.5g}")


def say_label(slab: WorstSlab, j: int, column: Column) -> str:
    """The label that the slab holds, or leaves out."""
    ends = slab.center[j] + slab.scale[j] * np.clip([slab.low, slab.high], -1e9, 1e9)
    has_zero, has_one = bool(ends[0] < 0.5), bool(ends[1] > 0.5)
    if has_zero and has_one:
        return f"{shorten(column.name)} is known"
    same = np.flatnonzero(slab.source == slab.source[j])
    if len(same) < min(len(column.labels), 2):
        # A boolean is one column of 0 and 1; labels have an indicator each, in their order.
        return label_condition(column, int(has_one)).text
    return label_condition(column, int(j - same[0]), negated=has_zero).text
