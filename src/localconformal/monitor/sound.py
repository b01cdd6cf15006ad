"""Which content of a file can be that of a monitor: anyone can compute a digest.

Whatever passes can go on: rows can be taken in, and the alarm can come. Rules say of each number
its type and its range, and relations what numbers have to do with each other.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Any

import numpy as np

from localconformal.monitor.grid import grid_codes
from localconformal.monitor.history import stride_after
from localconformal.monitor.martingale import JUMPS, N_BETS, log_range
from localconformal.monitor.stream import Stream, combined

Rule = Callable[[Any], bool]
Content = dict[str, Any]

#: Beyond it not every row has a number in float64.
MOST_ROWS = 2**53
MOST_SEEDS = 2**31 - 1
LARGEST_CODE = int(grid_codes(np.array([np.inf]))[0])
#: Parts of the wealth that have lost so much may consist of zeros: they come after a million rows.
LOST = 1e-200


# ---- rules ---------------------------------------------------------------------------------


def number(kind: type[int] | type[float], low: float, high: float) -> Rule:
    """A number of this very type from low to high: true is no number, and NaN is nowhere.

    Examples
    --------
    >>> [number(int, 0, 9)(value) for value in (3, 3.0, True, "3", 10)]
    [True, False, False, False, False]
    """
    return lambda value: type(value) is kind and low <= value <= high


def text(value: Any) -> bool:
    """A text."""
    return isinstance(value, str)


def among(values: Collection[str]) -> Rule:
    """One of these texts."""
    return lambda value: text(value) and value in values


def maybe(rule: Rule) -> Rule:
    """None, or what the rule says."""
    return lambda value: value is None or rule(value)


def many(rule: Rule, count: int | None = None) -> Rule:
    """A list, of so many if said, whose entries all keep one rule."""
    return lambda value: (
        isinstance(value, list) and count in (None, len(value)) and all(map(rule, value))
    )


def each(*rules: Rule) -> Rule:
    """A list with one entry a rule."""
    return lambda value: (
        isinstance(value, list)
        and len(value) == len(rules)
        and all(rule(entry) for rule, entry in zip(rules, value, strict=True))
    )


def record(**rules: Rule) -> Rule:
    """A mapping with just these names."""
    return lambda value: (
        isinstance(value, dict)
        and value.keys() == rules.keys()
        and all(rule(value[name]) for name, rule in rules.items())
    )


INSIDE_0_1 = number(float, math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0))
ROWS = number(int, 0, MOST_ROWS)
CONTENT = record(
    format=number(int, 0, MOST_ROWS),
    false_alarm=INSIDE_0_1,
    probability=INSIDE_0_1,
    confidence_level=INSIDE_0_1,
    calibration=text,
    stream=lambda stream: isinstance(stream, dict) and ROWS(stream.get("rows")),
)


def stream_rule(rows: int, new: Stream, log_limit: float, one_cell: bool) -> Rule:
    """What the content of a stream of so many rows looks like."""
    columns = len(new.alphas)
    lowest, highest = log_range(rows, sum(tally.n for tally in new.calibration.values()))
    so_far, log = number(int, 0, rows), number(float, lowest, highest)
    cell = among({cell for _, cell in new.calibration}) if one_cell else text
    code = number(int, -LARGEST_CODE, LARGEST_CODE)
    # The largest over their number, which may be lower by its logarithm.
    evidence = number(float, lowest - math.log(columns), highest)
    stride = stride_after(rows)
    wealth = many(many(number(float, 0.0, 1.0), N_BETS), len(JUMPS))
    return record(
        seed=number(int, 0, MOST_SEEDS),
        rows=ROWS,
        n_covered=so_far,
        alarm=maybe(each(number(int, 1, rows), number(float, log_limit, highest))),
        martingales=each(many(wealth, columns), many(log, columns)),
        history=each(
            number(int, stride, stride), many(each(so_far, so_far, evidence), rows // stride)
        ),
        tallies=many(
            each(number(int, 0, columns - 1), cell, many(code), many(number(int, 1, rows)))
        ),
    )


# ---- relations -----------------------------------------------------------------------------


def scores_are_tallied_once(content: Content) -> bool:
    """A tally for each column and cell, a count for each code, codes rising."""
    parts = [(column, cell) for column, cell, _, _ in content["tallies"]]
    return len(set(parts)) == len(parts) and all(
        len(codes) == len(counts) and all(a < b for a, b in pairwise(codes))
        for _, _, codes, counts in content["tallies"]
    )


def every_row_is_in_every_column(content: Content) -> bool:
    """Rows by cell are those of all columns, and as many as there were."""
    columns = range(len(content["martingales"][1]))
    by_column: list[Counter[str]] = [Counter() for _ in columns]
    for column, cell, _, counts in content["tallies"]:
        by_column[column][cell] += sum(counts)
    return by_column[0].total() == content["rows"] and all(
        cells == by_column[0] for cells in by_column
    )


def wealth_is_whole(content: Content) -> bool:
    """It sums to 1, and no bet of a part that counts is broke."""
    wealth = np.array(content["martingales"][0])
    parts = wealth.sum(axis=2, keepdims=True)
    sums = np.allclose(parts.sum(axis=1), 1.0, rtol=0.0, atol=1e-9)
    return bool(sums and np.all((wealth > 0.0) | (parts < LOST)))


def history_is_at_its_rows(content: Content) -> bool:
    """Points at all multiples of the stride; between two no more rows are covered than came."""
    stride, points = content["history"]
    course = [[0, 0], *(point[:2] for point in points), [content["rows"], content["n_covered"]]]
    return all(row == stride * (i + 1) for i, (row, _, _) in enumerate(points)) and all(
        0 <= k - k_before <= row - row_before
        for (row_before, k_before), (row, k) in pairwise(course)
    )


RELATIONS = (
    scores_are_tallied_once,
    every_row_is_in_every_column,
    wealth_is_whole,
    history_is_at_its_rows,
)


def alarm_is_the_first(content: Content, log_limit: float) -> bool:
    """Before it the evidence was below the limit, and is so now where there was none."""
    now = float(combined(np.array(content["martingales"][1])))
    course = [*content["history"][1], [content["rows"], content["n_covered"], now]]
    first = math.inf if content["alarm"] is None else content["alarm"][0]
    return all(log < log_limit for row, _, log in course if row < first)


def is_sound(content: Content, new: Stream, log_limit: float, one_cell: bool) -> bool:
    """Whether this, which has a number of rows, can be the content of a stream of the model."""
    return (
        stream_rule(content["rows"], new, log_limit, one_cell)(content)
        and all(relation(content) for relation in RELATIONS)
        and alarm_is_the_first(content, log_limit)
    )
