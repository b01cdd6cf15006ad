"""Bins, groups and strata part the rows; their p-values agree with their bands."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from audit_data import LEVEL, oracle, planted, shifted
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, fisher_exact

from localconformal.audit import audit
from localconformal.audit.cells import Rows, feature_cells
from localconformal.audit.columns import read_table
from localconformal.audit.significance import (
    coverage_p_values,
    holm,
    rest_gaps,
    rest_p_values,
    stands_out,
)
from localconformal.metrics import (
    binomial_band,
    coverage,
    excess_risk,
    group_coverage,
    hsic,
    interval_score,
    size_stratified_coverage,
    worst_slab_coverage,
)
from localconformal.metrics.coverage import is_covered
from localconformal.metrics.size import lengths


@given(st.integers(1, 400), st.floats(0, 1), st.floats(0.05, 0.99))
def test_p_values_are_the_doubled_tail_and_agree_with_the_band(n, share, level):
    k = round(share * n)
    p_value = float(coverage_p_values(k, n, level))
    tails = [binomtest(k, n, level, side).pvalue for side in ("less", "greater")]
    assert p_value == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-9)
    lower, upper = binomial_band(k, n)
    if min(abs(level - lower), abs(level - upper)) > 1e-9:
        assert (p_value < 0.05) == (level < lower or level > upper)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_the_stepwise_procedure_rejects(p_values):
    adjusted = holm(p_values)
    rejected = np.zeros(len(p_values), dtype=bool)
    for step, i in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[i] > 0.05 / (len(p_values) - step):
            break
        rejected[i] = True
    near = np.isclose(adjusted, 0.05)
    assert np.array_equal((adjusted <= 0.05)[~near], rejected[~near])
    assert np.all(adjusted >= p_values)


def by_feature(cells):
    found = {}
    for cell in cells:
        found.setdefault(cell.by, []).append(cell)
    return found


def test_the_bins_of_a_feature_part_the_rows():
    X, y, intervals = oracle(3_000, 0)
    found = by_feature(audit(X, y, intervals).features)
    assert set(found) == set(X.columns)
    hits = is_covered(y, intervals).sum()
    for cells in found.values():
        assert sum(cell.n for cell in cells) == len(y)
        assert round(sum(cell.n * cell.coverage for cell in cells)) == hits
        assert sorted(cell.position for cell in cells) == list(range(len(cells)))


def test_a_bin_counts_the_rows_its_text_names():
    X, y, intervals = oracle(2_000, 1)
    covered = is_covered(y, intervals)
    cells = {cell.text: cell for cell in audit(X, y, intervals).features}
    named = {
        "e is missing": X["e"].isna(),
        "weather = snow": X["weather"] == "snow",
        "holiday = True": X["holiday"],
    }
    for text, rows in named.items():
        assert cells[text].n == rows.sum()
        assert cells[text].coverage == covered[rows].mean()
        assert cells[text].mean_length == pytest.approx(np.ptp(intervals[rows], axis=1).mean())
    numbers = [text for text in cells if "hour" in text and " < " not in text]
    for text in numbers:
        _, sign, bound = text.split()
        rows = X["hour"] <= int(bound) if sign == "<=" else X["hour"] > int(bound)
        assert cells[text].n == rows.sum()


def test_bins_are_ranked_and_adjusted_as_one_family():
    cells = audit(*oracle(4_000, 2)).features
    p_values = [cell.p_value for cell in cells]
    assert p_values == sorted(p_values)
    assert np.allclose([cell.adjusted_p_value for cell in cells], holm(p_values))


def test_where_all_rows_are_off_bins_that_stand_out_come_first():
    found = audit(*shifted(4_000, 0, 0.6)[:3])
    assert found.is_shifted
    apart = [stands_out(cell) for cell in found.features]
    assert apart == sorted(apart, reverse=True)
    assert {cell.by for cell in found.features if stands_out(cell)} == {"a"}
    assert sum(cell.adjusted_p_value <= 0.05 for cell in found.features) > 3 * sum(apart)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_p_values_against_the_rest_are_those_of_fishers_exact_test(n, others, share, other_share):
    k, other_k = round(share * n), round(other_share * others)
    table = [[k, n - k], [other_k, others - other_k]]
    tails = [fisher_exact(table, side).pvalue for side in ("less", "greater")]
    found = rest_p_values(k, n, k + other_k, n + others)
    assert float(found) == pytest.approx(min(1.0, 2 * min(tails)), rel=1e-6)
    gap = k / n - other_k / others
    assert float(rest_gaps(k, n, k + other_k, n + others)) == pytest.approx(gap)


def test_a_part_without_other_rows_differs_from_none():
    assert rest_p_values(9, 10, 9, 10) == 1.0
    assert np.isnan(rest_gaps(9, 10, 9, 10))


@pytest.mark.ci
def test_bins_of_oracle_intervals_raise_few_alarms():
    alarms = 0
    for seed in range(100):
        X, y, intervals = oracle(300, seed)
        rows = Rows(is_covered(y, intervals), lengths(intervals), LEVEL)
        cells = feature_cells(read_table(X, len(y)).columns, rows)
        alarms += min(cell.adjusted_p_value for cell in cells) <= 0.05
    assert alarms <= binom.ppf(0.99, 100, 0.05)


def test_rare_labels_share_a_bin():
    rng = np.random.default_rng(0)
    label = np.array(["common"] * 950 + [f"rare {i % 20}" for i in range(50)], dtype=object)
    X, y = pd.DataFrame({"label": label}), rng.normal(size=1_000)
    cells = audit(X, y, np.tile([-2.0, 2.0], (1_000, 1))).features
    assert {(cell.label, cell.n) for cell in cells} == {("common", 950), ("rarer labels", 50)}


def test_groups_are_those_of_the_metric():
    X, y, intervals = oracle(1_000, 3)
    expected = group_coverage(y, intervals, X["weather"])
    for groups in ("weather", X["weather"], {"weather": X["weather"].to_numpy()}):
        cells = audit(X, y, intervals, groups).groups
        assert {cell.by for cell in cells} == {"weather"}
        assert [cell.label for cell in cells] == list(expected.group)
        for name in ("n", "coverage", "gap", "lower", "upper"):
            assert [getattr(c, name) for c in cells] == getattr(expected, name).tolist()


def test_groups_are_named_in_many_ways():
    X, y, intervals = oracle(1_000, 3)
    both = ["weather", "holiday"]
    expected = audit(X, y, intervals, {name: X[name] for name in both}).groups
    named = {name: name for name in both}
    for groups in (both, tuple(both), X[both], pl.from_pandas(X[both]), named):
        assert audit(X, y, intervals, groups).groups == expected
    by_place = audit(X.to_numpy(), y, intervals, ["x6", "x7"]).groups
    assert [cell.n for cell in by_place] == [cell.n for cell in expected]


def test_labels_win_over_names_where_there_are_as_many():
    y, intervals = np.zeros(2), np.tile([-1.0, 1.0], (2, 1))
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert [cell.text for cell in audit(X, y, intervals, ["a", "b"]).groups] == [
        *("group = a", "group = b")
    ]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros((300, 2)), "as a frame, or as a dict"),
        (["a", "no such column"], r"names of columns of X \(a, b, c, d, e, hour, weather, holiday"),
        ({"c": "no such column"}, "a column of X was expected"),
        ({"c": [1, 2]}, "one label for each row"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        audit(*oracle(300, 0), groups)


def test_missing_labels_are_one_group_under_one_name():
    X, y, intervals = oracle(500, 4)
    labels = np.array(["a", None, np.nan, pd.NA, "nan"] * 100, dtype=object)
    for groups in (labels, list(labels), pd.Series(labels)):
        cells = audit(X, y, intervals, groups).groups
        assert [(cell.text, cell.n) for cell in cells] == [
            *(("group = a", 100), ("group = nan", 100), ("group is missing", 300))
        ]
    times = np.array(["2024-01-01", "NaT"] * 250, dtype="M8[D]")
    numbers = np.array([1.0, np.nan] * 250)
    for groups in (times, numbers, pl.Series(["x", None] * 250)):
        assert audit(X, y, intervals, groups).groups[-1].text == "group is missing"


def test_several_kinds_of_groups_are_one_family():
    X, y, intervals = oracle(1_000, 4)
    cells = audit(X, y, intervals, {"sky": X["weather"], "off": X["holiday"]}).groups
    assert [cell.text for cell in cells] == [
        *("sky = clear", "sky = rain", "sky = snow", "off = False", "off = True")
    ]
    p_values = [cell.p_value for cell in cells]
    assert np.allclose([cell.adjusted_p_value for cell in cells], holm(p_values))


def test_sizes_are_those_of_the_metric():
    X, y, intervals = oracle(1_000, 5)
    expected, cells = size_stratified_coverage(y, intervals), audit(X, y, intervals).sizes
    for name in ("n", "coverage", "lower", "upper"):
        assert [getattr(cell, name) for cell in cells] == getattr(expected, name).tolist()


def test_the_summary_is_that_of_the_metrics():
    X, y, intervals = oracle(1_000, 6)
    found = audit(X, y, intervals, random_state=7)
    summary, slab = found.summary, worst_slab_coverage(y, intervals, X, random_state=7)
    assert summary.coverage == coverage(y, intervals)
    assert summary.interval_score == interval_score(y, intervals, LEVEL)
    assert summary.hsic_p_value == hsic(y, intervals, random_state=7).p_value
    assert summary.excess_risk_l1 == excess_risk(y, intervals, X, random_state=7).l1
    assert (summary.worst_slab_coverage, summary.worst_slab_n) == (slab.coverage, slab.n)
    assert found.slab.columns == slab.columns


def test_polars_pandas_and_arrays_agree():
    X, y, intervals = oracle(1_000, 8)
    X["weather"] = X["weather"].astype(str)
    pandas, polars = audit(X, y, intervals), audit(pl.from_pandas(X), y, intervals)
    assert str(pandas) == str(polars)
    numbers = X[list("abcde")]
    framed, plain = audit(numbers, y, intervals), audit(numbers.to_numpy(), y, intervals)
    assert [c.p_value for c in framed.features] == [c.p_value for c in plain.features]
    assert {c.by for c in plain.features} == {f"x{j}" for j in range(5)}
    assert set(plain.slab.columns) == {f"x{j}" for j in range(5)}


def test_failures_are_what_is_significant():
    X, y, intervals, _ = planted(5_000, 9)
    found = audit(X, y, intervals, "weather")
    failures = found.failures()
    assert {"rules", "features", "groups"} <= {one.part for one in failures}
    assert all(one.adjusted_p_value <= 0.05 for one in failures)
    assert set(found.failures(1e-6)) <= set(failures)
    n_all = sum(len(getattr(found, part)) for part in ("rules", "features", "groups", "sizes"))
    assert len(found.failures(1.0)) == n_all + 1
    assert found.failures(1.0)[-1].part == "slab"
    assert len(found.frame("failures")) == len(failures)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_slab_is_a_failure_exactly_when_its_band_leaves_the_target_out(factor):
    X, y, intervals = oracle(2_000, 3)
    found = audit(X, y, factor * intervals)
    slab, level = found.slab, found.summary.confidence_level
    named = [one for one in found.failures() if one.part == "slab"]
    assert bool(named) == (not slab.lower <= level <= slab.upper)
    assert all(one.is_under == (slab.coverage < level) for one in named)
    assert (factor == 1.0) == (not named)
