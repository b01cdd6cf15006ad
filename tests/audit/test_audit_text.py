"""The audit as text; its HTML is tested beside the report."""

import re

import numpy as np
import pandas as pd
import pytest
from audit_data import oracle, planted, shifted
from hypothesis import given
from hypothesis import strategies as st

from localconformal.audit import audit, compare
from localconformal.audit.audit import digits_of_band
from localconformal.metrics import coverage_band
from localconformal.text import say_number

EVIL = "<script>alert(1)</script>"


def test_a_rule_is_a_sentence_however_long_its_names_are():
    X, y, intervals, _ = planted(5_000, 0)
    long = {name: f"the {name} {'of a very long kind ' * 8}, told last" for name in X}
    found = audit(X.rename(columns=long), y, intervals)
    line = next(line for line in str(found).splitlines() if "told last" in line)
    named = r"  the hour .*….*, told last <= \d and the weather .* = snow: \d\d % \[\d\d, \d\d\]"
    assert re.fullmatch(rf"{named} of {found.rules[0].n} rows, target 90 %", line)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.975]))
def test_a_rounded_band_holds_the_target_if_the_band_does(a, b, level):
    lower, upper = sorted([a, b])
    digits = digits_of_band(lower, upper, level)
    if digits < 3:
        shown = round(100 * lower, digits), round(100 * upper, digits)
        assert (shown[0] <= 100 * level <= shown[1]) == (lower <= level <= upper)


def test_texts_from_data_have_one_line_each():
    rng = np.random.default_rng(0)
    label = rng.choice([EVIL, "x\n\ny"], 2_000)
    y = rng.normal(size=2_000) * np.where(label == EVIL, 2.0, 1.0)
    lines = str(audit(pd.DataFrame({EVIL: label}), y, np.tile([-1.645, 1.645], (2_000, 1))))
    lines = lines.splitlines()
    assert any(line.strip().startswith(f"{EVIL} = {EVIL}: ") for line in lines)
    assert not any(line == "y" or line.startswith("y:") for line in lines)


def test_both_sides_of_the_target_are_told_apart_and_a_long_list_is_cut():
    X, y, intervals = oracle(6_000, 2)
    groups = np.arange(6_000) % 20
    text = str(audit(X, np.where(groups < 5, 0.0, y + 9.0), intervals, groups))
    assert "Groups: 15 of 20 are below the target and 5 above it by more than chance" in text
    assert 'and 10 more: see frame("failures")' in text


def test_where_all_rows_are_off_only_what_differs_from_them_is_named():
    found = audit(*shifted(4_000, 0)[:3])
    text = str(found)
    assert "off 90 % by more than the draw of these rows explains" in text
    assert "none of them differs from the other rows too" in text
    assert len(found.failures()) > 10
    assert "target 90 %" not in text.split("Bins of features")[1].split("Worst slab")[0]
    assert "lc-off" not in found._repr_html_().split("</style>")[1]
    found = audit(*shifted(4_000, 0, 0.6)[:3])
    assert found.is_shifted
    apart = [one.text for one in found.failures() if one.part == "features" and one.stands_out]
    first = found.features[: len(apart)]
    assert [cell.text for cell in first] == apart
    assert {cell.by for cell in first} == {"a"}
    assert sum(cell.adjusted_p_value <= 0.05 for cell in found.features) > 3 * len(apart)
    assert apart[0] in str(found).split("Bins of features")[1].splitlines()[1]


def test_the_calibration_set_may_explain_the_coverage():
    X, y, intervals = oracle(5_000, 0)
    alone, known, off = (
        audit(X[["a"]], y, factor * intervals, n_calibration=n)
        for factor, n in ((1.06, None), (1.06, 300), (1.3, 300))
    )
    assert alone.summary.p_value < 0.05
    assert np.isnan(alone.summary.expected_lower)
    assert "off the target" in str(alone)
    assert "off the target" in str(off)
    expected = known.summary.expected_lower, known.summary.expected_upper
    assert expected == coverage_band(300, 5_000, 0.9)
    assert "within what a calibration set of 300 rows explains" in str(known)
    assert "the draw of the calibration set can explain" in known.notes[0]


@pytest.mark.parametrize("unit", [1e-3, 1e11])
def test_large_numbers_are_written_out(unit):
    X, y, intervals = oracle(1_000, 3)
    found = audit(unit * X[["a"]], unit * y, unit * intervals)
    other = compare({"a": unit * intervals, "b": 2 * unit * intervals}, X[["a"]], unit * y)
    for text in (found, found._repr_html_(), other, other._repr_html_()):
        assert not re.search(r"\de\+\d", str(text))
        assert say_number(found.summary.mean_length) in str(text)
