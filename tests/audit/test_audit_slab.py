"""The worst slab is told in the units of its columns, and holds the rows it tells."""

import numpy as np
import pandas as pd
import pytest

from localconformal.audit import audit

N = 3_000


def found_in(column, where, more=None):
    """The audit of rows that fail where told; a slab holds a tenth of the rows at least."""
    X = pd.DataFrame({"it": column} | (more or {}))
    return audit(X, np.where(where, 9.0, 0.0), np.tile([-1.0, 1.0], (N, 1)))


@pytest.fixture(scope="module")
def hour():
    return np.arange(N) % 24


def test_a_range_of_numbers(hour):
    found = found_in(hour, (hour >= 16) & (hour <= 18))
    assert found.slab_text == "it 16 to 18"
    assert "Worst slab: it 16 to 18: " in str(found)
    assert "it 16 to 18" in found._repr_html_()
    inside = np.sum((hour >= 16) & (hour <= 18))
    assert inside == found.slab.n + found.slab.found_n


def test_bounds_are_center_and_scale(hour):
    slab = found_in(hour, hour >= 21).slab
    ends = slab.center[0] + slab.scale[0] * np.array([slab.low, slab.high])
    np.testing.assert_allclose(ends, [21, 23])


def test_one_value_and_few_digits(hour):
    assert found_in(hour // 6, hour >= 18).slab_text == "it = 3"
    assert found_in(hour / 7, hour >= 21).slab_text == "it 3 to 3.2857"


def test_a_range_of_dates(hour):
    days = np.datetime64("2024-03-01") + hour
    assert found_in(days, hour >= 21).slab_text == "it 2024-03-22 to 2024-03-24"


def test_labels_and_booleans(hour):
    label = np.where(hour < 6, "night", np.where(hour < 12, "morning", "day"))
    assert found_in(label, label == "night").slab_text == "it = night"
    assert found_in(hour < 6, hour < 6).slab_text == "it = True"
    assert found_in(hour < 6, hour >= 6).slab_text == "it = False"


def test_missing_values_stand_at_the_mean(hour):
    lost = np.random.default_rng(2).random(N) < 0.2
    known = np.where(lost, np.nan, hour)
    assert found_in(known, lost).slab_text == "it is missing"
    assert found_in(known, ~lost & (hour >= 20)).slab_text == "it 20 to 23"


def test_a_direction_of_several_columns():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(2, N))
    found = found_in(a, a + b > 1.5, {"b": b})
    assert found.slab_text == "a range of a weighted sum of 2 columns, above all " + ", ".join(
        sorted(["it", "b"], key=lambda name: -abs(dict(zip(*weights(found), strict=True))[name]))
    )


def weights(found):
    return found.slab.columns, found.slab.direction


def test_no_column_tells_rows_apart():
    assert found_in(np.ones(N), np.zeros(N, dtype=bool)).slab_text == "all rows"
