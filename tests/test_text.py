"""Numbers as people write them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localconformal.text import plain_data, say_number, say_share, say_tick

#: Beyond these, four digits may round to more than a float holds.
FINITE = st.floats(-1e308, 1e308)


def read(text):
    return float(text.replace(",", ""))


@given(FINITE)
def test_a_number_reads_back_to_four_digits(value):
    assert read(say_number(value)) == pytest.approx(value, rel=5.001e-4, abs=0.0)


@given(st.integers())
def test_a_count_is_written_in_full(value):
    assert (say_number(value), say_number(value, signed=True)) == (f"{value:,}", f"{value:+,}")
    if abs(value) < 2**63:
        assert say_number(np.int64(value)) == say_number(value)


def test_what_is_infinite_undefined_or_zero():
    texts = {math.inf: "infinity", -math.inf: "-infinity", -0.0: "0", 1.7976e308: "1.798e+308"}
    assert {value: say_number(value) for value in texts} == texts
    assert say_number(math.nan) == say_share(math.nan) == "-"
    assert [say_number(value, signed=True) for value in (0.0, -2.5)] == ["+0", "-2.5"]


@given(st.integers(-1000, 1000), st.sampled_from([1, 2, 2.5, 5]), st.integers(-8, 9))
def test_ticks_differ_and_read_back(first, factor, power):
    step = factor * 10.0**power
    places = [(first + i) * step for i in range(6)]
    texts = [say_tick(place, step) for place in places]
    assert len(set(texts)) == 6
    assert [read(text) for text in texts] == pytest.approx(places, rel=1e-9, abs=1e-9 * step)


def test_numbers_that_json_lacks_are_texts_that_float_reads():
    values = plain_data([math.nan, np.inf, -np.inf, np.float32(2.0), np.int64(3)])
    assert [type(value) for value in values] == [str, str, str, float, int]
    np.testing.assert_array_equal([float(v) for v in values], [np.nan, np.inf, -np.inf, 2.0, 3.0])
