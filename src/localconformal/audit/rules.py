"""Rules: regions found on one half of the rows, with their honest coverage on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localconformal.audit.cells import Rows, tests_of
from localconformal.audit.columns import Column, as_table, read_columns
from localconformal.audit.conditions import Condition
from localconformal.audit.regions import FEWEST_ROWS, find_regions
from localconformal.audit.significance import is_off, stands_out
from localconformal.metrics.binomial import binomial_band
from localconformal.text import listing

#: Regions are not found better with more rows than these, only more slowly.
MAX_FIND_ROWS, MAX_FIND_CELLS = 50_000, 4_000_000


@dataclass(frozen=True)
class Rule:
    """A region of the features, and its coverage on rows that did not find it.

    Attributes
    ----------
    text : str
        Its conditions in words.
    conditions : tuple of Condition
    n : int
        Rows in the region, of those that did not find it.
    coverage, gap : float
        Of these rows, and its difference from the target.
    lower, upper : float
        Exact 95 % binomial band of the coverage, valid whatever was found.
    p_value : float
        Of the exact two-sided test that the coverage is the target.
    adjusted_p_value : float
        The same by Holm's method, for all the regions tested.
    rest_gap : float
        Coverage less that of the other rows, of those that did not find it.
    adjusted_rest_p_value : float
        Of the exact two-sided test that the two are equal, by Holm's method too.
    mean_length : float
    found_n : int
    found_coverage : float
        Of the rows that found it: biased, for comparison only.
    """

    text: str
    conditions: tuple[Condition, ...]
    n: int
    coverage: float
    gap: float
    lower: float
    upper: float
    p_value: float
    adjusted_p_value: float
    rest_gap: float
    adjusted_rest_p_value: float
    mean_length: float
    found_n: int
    found_coverage: float

    def rows(self, X: Any) -> NDArray[np.bool_]:
        """Which rows of X lie in the region; X with the columns of the audit."""
        columns = {column.name: column for column in read_columns(as_table(X), len(X))}
        lost = [one.feature for one in self.conditions if one.feature not in columns]
        if lost:
            raise ValueError(
                f"X has the columns {listing(columns)} and not {listing(lost)}; the columns "
                "of the audit were expected, under their names."
            )
        return holds(self.conditions, columns)


def find_rules(
    columns: list[Column], rows: Rows, random_state: int
) -> tuple[tuple[Rule, ...], list[str]]:
    """Rules, the most significant first, and what to know about them."""
    n = len(rows.covered)
    most = int(np.clip(MAX_FIND_CELLS // max(len(columns), 1), 2_000, MAX_FIND_ROWS))
    n_find = min(n // 2, most)
    if n_find < 2 * FEWEST_ROWS:
        return (), [f"Rules were not looked for: {4 * FEWEST_ROWS} rows are needed."]
    if rows.covered.all() or not rows.covered.any():
        return (), ["Rules were not looked for: coverage is the same in all rows."]
    order = np.random.default_rng(random_state).permutation(n)
    find, test = order[:n_find], order[n_find:]
    notes = []
    if n_find < n // 2:
        notes.append(f"Rules were found on {n_find:,} rows and tested on the other {len(test):,}.")
    regions = find_regions(columns, find, rows.covered[find], rows.confidence_level, random_state)
    if not regions:
        notes.append(f"No rule stood out on the {n_find:,} rows that were searched for rules.")
    rules = judge_regions(regions, columns, rows, find, test)
    if not is_off(int(rows.covered.sum()), n, rows.confidence_level):
        return rules, notes
    # Only a region that differs from the other rows says more than the summary does.
    apart = tuple(rule for rule in rules if stands_out(rule))
    if len(apart) < len(rules):
        notes.append(
            f"{len(rules) - len(apart)} of {len(rules)} regions found are not told as rules: they "
            "are covered as the other rows are."
        )
    return apart, notes


def judge_regions(
    regions: list[tuple[Condition, ...]],
    columns: list[Column],
    rows: Rows,
    find: NDArray[np.intp],
    test: NDArray[np.intp],
) -> tuple[Rule, ...]:
    """The regions that have rows to be tested on, as one family of tests."""
    by_name = {column.name: column for column in columns}
    held = Rows(rows.covered[test], rows.length[test], rows.confidence_level)
    masks = [holds(conditions, by_name) for conditions in regions]
    kept = [i for i, mask in enumerate(masks) if mask[test].any()]
    n = np.array([masks[i][test].sum() for i in kept], dtype=np.intp)
    hits = np.array([(masks[i][test] & held.covered).sum() for i in kept], dtype=np.intp)
    lower, upper = (np.atleast_1d(bound) for bound in binomial_band(hits, n))
    tests = tests_of(hits.astype(np.float64), n, held)
    rules = [
        Rule(
            text=" and ".join(condition.text for condition in regions[i]),
            conditions=regions[i],
            n=int(n[place]),
            coverage=float(hits[place] / n[place]),
            gap=float(hits[place] / n[place] - rows.confidence_level),
            lower=float(lower[place]),
            upper=float(upper[place]),
            **{name: values[place] for name, values in tests.items()},
            mean_length=float(held.length[masks[i][test]].mean()),
            found_n=int(masks[i][find].sum()),
            found_coverage=float(rows.covered[find][masks[i][find]].mean()),
        )
        for place, i in enumerate(kept)
    ]
    return tuple(sorted(rules, key=lambda rule: (rule.p_value, -abs(rule.gap))))


def holds(conditions: tuple[Condition, ...], columns: dict[str, Column]) -> NDArray[np.bool_]:
    """Which rows fulfil all the conditions."""
    masks = [condition.holds(columns[condition.feature]) for condition in conditions]
    return np.logical_and.reduce(masks)
