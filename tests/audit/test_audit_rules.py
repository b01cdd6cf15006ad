"""Rules: honest on the other half, and found where something is wrong."""

import numpy as np
import pytest
from audit_data import LEVEL, both_sides, oracle, planted, shifted
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from localconformal.audit.cells import Outcomes, range_condition
from localconformal.audit.rules import find_rules
from localconformal.columns import read_columns
from localconformal.metrics.intervals import is_covered, lengths


def search(X, y, intervals, seed=0):
    rows = Outcomes(is_covered(y, intervals), lengths(intervals), LEVEL)
    return find_rules(read_columns(X, len(y)), rows, seed)


def is_significant(rule):
    return rule.adjusted_p_value <= 0.05


def overlap(rule, X, where):
    inside = rule.rows(X)
    return np.sum(inside & where) / np.sum(inside | where)


def share_found(repeats, make=planted):
    """How often a rule is significant, below the target, and of much the same rows."""
    found = 0
    for seed in range(repeats):
        X, y, intervals, where = make(5_000, seed)
        rules = filter(is_significant, search(X, y, intervals, seed)[0])
        found += any(rule.gap < 0 and overlap(rule, X, where) >= 0.5 for rule in rules)
    return found / repeats


@pytest.fixture
def all_regions(monkeypatch):
    """Ten regions are tested, however little they stand out."""
    monkeypatch.setattr("localconformal.audit.rules._LEAST_SCORE", -1e6)


@pytest.mark.parametrize(
    ("repeats", "n"),
    [
        pytest.param(15, 500, marks=pytest.mark.ci),
        pytest.param(200, 2_000, marks=pytest.mark.nightly),
    ],
)
def test_oracle_intervals_raise_few_alarms(all_regions, repeats, n):
    found = [search(*oracle(n, seed), seed)[0] for seed in range(repeats)]
    assert sum(any(map(is_significant, rules)) for rules in found) <= binom.ppf(0.99, repeats, 0.05)


@pytest.mark.parametrize(
    "repeats",
    [3, pytest.param(20, marks=pytest.mark.ci), pytest.param(200, marks=pytest.mark.nightly)],
)
def test_a_planted_failure_is_found(repeats):
    assert share_found(repeats) >= 0.95


@pytest.mark.ci
def test_a_failure_is_found_where_its_feature_overcovers_elsewhere_or_all_rows_are_off():
    """All of the evidence for a box on the other side of the target must not hide this one."""
    assert share_found(10, both_sides) >= 0.9
    assert any(rule.lower > LEVEL for rule in search(*both_sides(5_000, 0)[:3])[0])
    assert share_found(10, lambda n, seed: shifted(n, seed, 0.6)) >= 0.9


@pytest.mark.ci
def test_coverage_that_is_off_everywhere_is_no_rule():
    alarms = [len(search(*shifted(2_000, seed)[:3], seed)[0]) > 0 for seed in range(12)]
    assert sum(alarms) <= binom.ppf(0.99, 12, 0.05)


def test_regions_that_are_covered_as_the_others_are_told_of(all_regions):
    rules, notes = search(*shifted(3_000, 0)[:3])
    assert rules == ()
    assert "regions found are not listed as rules" in notes[0]


def test_at_most_ten_rules_of_regions_that_have_rows(all_regions):
    rules, _ = search(*oracle(3_000, 4))
    assert 1 < len(rules) <= 10
    assert all(rule.n > 0 for rule in rules)
    assert len({rule.text for rule in rules}) == len(rules)


def test_overcoverage_missing_values_and_labels_are_found():
    X, y, intervals = oracle(3_000, 1)
    easy = (X["a"] > 0.8).to_numpy()
    best = search(X, np.where(easy, y / 3, y), intervals)[0][0]
    assert best.lower > LEVEL
    assert overlap(best, X, easy) >= 0.5
    for text, where in {
        "e is missing": X["e"].isna(),
        "weather = rain": X["weather"] == "rain",
    }.items():
        assert search(X, np.where(where, 2.0 * y, y), intervals)[0][0].text == text


def test_a_rule_counts_the_rows_it_describes_of_a_table_with_its_columns_and_the_seed_decides():
    X, y, intervals, _ = planted(3_000, 3)
    covered = is_covered(y, intervals)
    rules, again, other = (search(X, y, intervals, seed)[0] for seed in (0, 0, 1))
    assert rules == again != other
    for rule in rules:
        inside = rule.rows(X)
        assert inside.sum() == rule.n + rule.found_n
        hits = rule.n * rule.coverage + rule.found_n * rule.found_coverage
        assert covered[inside].sum() == round(hits)
        assert len(rule.conditions) <= 3
        assert rule.lower <= rule.coverage <= rule.upper
    for other in (X[["b"]], X.to_numpy()):
        with pytest.raises(ValueError, match="expected the columns of the audit"):
            rules[0].rows(other)


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, min_size=2, max_size=30, unique=True), st.data())
def test_a_condition_holds_for_the_very_values_it_was_made_for(values, data):
    column = read_columns(np.array([*values, np.nan]), len(values) + 1)[0]
    last = len(column.values) - 1
    start = data.draw(st.integers(0, last))
    end = data.draw(st.integers(start, last))
    holds = range_condition(column, start, end).holds(column)
    assert np.array_equal(holds, (column.codes >= start) & (column.codes <= end))
