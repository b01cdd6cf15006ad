"""The audit as text; its HTML is tested beside the report."""

import re

import numpy as np
import pandas as pd
import pytest
from audit_data import oracle, planted, shifted
from hypothesis import given
from hypothesis import strategies as st

from localconformal.audit import audit, compare
from localconformal.audit.audit import (
    coverage_phrase,
    coverage_sentence,
    digits_of_band,
    verdict,
)
from localconformal.metrics import coverage_band
from localconformal.text import say_number

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def evil():
    """A failure in a column and a label that are code."""
    rng = np.random.default_rng(0)
    label = rng.choice([EVIL, "x\n\ny"], 2_000)
    X = pd.DataFrame({EVIL: label, "a": rng.normal(size=2_000)})
    y = rng.normal(size=2_000) * np.where(label == EVIL, 2.0, 1.0)
    return X, y, np.tile([-1.645, 1.645], (2_000, 1))


def test_a_rule_is_a_sentence():
    X, y, intervals, _ = planted(5_000, 0)
    rule = audit(X, y, intervals).rules[0]
    sentence = coverage_sentence(rule, 0.9)
    assert sentence.startswith(f"{rule.text}: ")
    assert sentence.endswith(f"] of {rule.n} rows, target 90 %")
    assert sentence in str(audit(X, y, intervals))


def test_narrow_bands_get_a_digit_more():
    cells = audit(*oracle(4_000, 1)).sizes
    assert "." not in coverage_phrase(cells[0], 0.9)
    big = audit(np.arange(20_000) % 2, np.zeros(20_000), np.tile([-1.0, 1.0], (20_000, 1)))
    assert coverage_phrase(big.features[0], 0.95) == (
        "100.0 % [100.0, 100.0] of 10,000 rows, target 95 %"
    )


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.975]))
def test_a_rounded_band_holds_the_target_if_the_band_does(a, b, level):
    lower, upper = sorted([a, b])
    digits = digits_of_band(lower, upper, level)
    if digits < 3:
        shown = round(100 * lower, digits), round(100 * upper, digits)
        assert (shown[0] <= 100 * level <= shown[1]) == (lower <= level <= upper)


def test_texts_have_one_line_each(evil):
    lines = str(audit(*evil)).splitlines()
    assert any(line.strip().startswith(f"{EVIL} = {EVIL}: ") for line in lines)
    assert not any(line == "y" or line.startswith("y:") for line in lines)


def test_a_long_list_of_failures_is_cut():
    X, y, intervals = oracle(6_000, 2)
    groups = np.arange(6_000) % 20
    assert 'and 10 more: see frame("failures")' in str(
        audit(X, np.where(groups < 10, 0.0, y + 9.0), intervals, groups)
    )


def test_where_all_rows_are_off_only_what_differs_from_them_is_named():
    found = audit(*shifted(4_000, 0)[:3])
    text = str(found)
    assert "off 90 % by more than the draw of these rows explains" in text
    assert "none of them differs from the other rows too" in text
    assert len(found.failures()) > 10
    assert "target 90 %" not in text.split("Bins of features")[1].split("Worst slab")[0]
    assert "lc-off" not in found._repr_html_().split("</style>")[1]
    text = str(audit(*shifted(4_000, 0, 0.6)[:3]))
    assert "a > " in text.split("Bins of features")[1].splitlines()[1]


def test_the_calibration_set_may_explain_the_coverage():
    X, y, intervals = oracle(5_000, 0)
    longer = 1.06 * intervals
    alone, known = audit(X, y, longer), audit(X, y, longer, n_calibration=300)
    assert alone.summary.p_value < 0.05
    assert np.isnan(alone.summary.expected_lower)
    assert "off the target" in str(alone)
    summary = known.summary
    band = coverage_band(300, 5_000, 0.9)
    assert (summary.expected_lower, summary.expected_upper) == band
    assert "within what a calibration set of 300 rows explains" in str(known)
    assert "with 95 % of calibration sets of 300 rows" in str(known)
    assert "the draw of the calibration set can explain" in known.notes[0]
    assert "off the target" in str(audit(X, y, 1.3 * intervals, n_calibration=300))


def test_long_names_keep_what_is_said_of_them():
    X, y, intervals, _ = planted(5_000, 0)
    long = {name: f"the {name} {'of a very long kind ' * 8}, told last" for name in X}
    text = str(audit(X.rename(columns=long), y, intervals))
    rule = next(line for line in text.splitlines() if "told last" in line)
    assert re.match(r"  the hour .*….*, told last <= \d and the weather .* = snow: \d\d %", rule)


def test_the_error_of_the_excess_risk_is_not_told_of_few_rows():
    assert "too few rows to tell its error" in str(audit(*oracle(300, 0)))
    assert "±" in str(audit(*oracle(600, 0))).split("excess risk")[1]


def test_half_infinite_intervals_are_not_said_to_cover():
    X, y, intervals = oracle(300, 0)
    intervals[:30] = [5.0, np.inf]
    found = audit(X, y, intervals)
    assert "they cover" not in " ".join(found.notes)
    assert found.summary.median_finite_length == pytest.approx(
        np.median(np.diff(intervals[30:], axis=1))
    )
    assert f"median {found.summary.median_finite_length:.4g}" in str(found)


def test_columns_line_up():
    lines = str(audit(*oracle(500, 3))).splitlines()[1:9]
    starts = {line.index(line.split("  ")[-1]) for line in lines}
    assert len(starts) == 1


def test_both_sides_of_the_target_are_told_apart():
    assert verdict(1, 0, 9).startswith("1 of 9 is below the target by more than chance")
    assert verdict(0, 3, 9).startswith("3 of 9 are above the target by more than chance")
    assert verdict(2, 1, 9).startswith("2 of 9 are below the target and 1 above it by more than")
    assert verdict(0, 0, 9).startswith("none of 9 is off the target by more than chance")
    X, y, intervals = oracle(4_000, 0)
    side = np.arange(4_000) % 2
    found = audit(X, np.where(side == 1, 9.0 * y, 0.0), intervals, {"side": side})
    assert "Groups: 1 of 2 is below the target and 1 above it by more than chance" in str(found)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6, 1e11])
def test_large_numbers_are_written_out(unit):
    X, y, intervals = oracle(1_000, 3)
    found = audit(unit * X[["a"]], unit * y, unit * intervals)
    other = compare({"a": unit * intervals, "b": 2 * unit * intervals}, X[["a"]], unit * y)
    for text in (found, found._repr_html_(), other, other._repr_html_()):
        assert not re.search(r"\de\+\d", str(text))
    assert say_number(found.summary.mean_length) in str(found)
    assert say_number(found.summary.mean_length) in found._repr_html_()
