import math

import pytest

from benchmarks.harness import CANNOT, NOT_REPRODUCED, REPRODUCED
from benchmarks.tables import Mean, below_bands, in_per_cent, over_repeats, paired
from paper.verdicts import above, alike, below, compared, same_direction, within_factor


def rows_of(values, method="a"):
    return [
        {"repeat": r, "dataset": d, "method": method, "length": value}
        for (r, d), value in values.items()
    ]


def test_the_error_is_that_of_repeats_not_of_data_sets():
    rows = rows_of({(0, "x"): 0.0, (0, "y"): 100.0, (1, "x"): 2.0, (1, "y"): 100.0})
    assert over_repeats(rows, "length") == Mean(50.5, 0.5, 2)


def test_a_repeat_that_lacks_a_data_set_is_left_out():
    rows = rows_of({(0, "x"): 1.0, (0, "y"): 3.0, (1, "x"): 50.0})
    assert over_repeats(rows, "length") == Mean(2.0, None, 1)


def test_repeats_that_lack_different_data_sets_are_not_averaged():
    rows = rows_of({(0, "x"): 1.0, (0, "y"): 3.0, (1, "y"): 3.0, (1, "z"): 50.0})
    assert over_repeats(rows, "length") is None
    complete = rows_of({(2, "x"): 1.0, (2, "y"): 3.0, (2, "z"): 5.0})
    assert over_repeats([*rows, *complete], "length") == Mean(3.0, None, 1)


def test_nothing_gives_none():
    assert over_repeats([], "length") is None
    assert over_repeats(rows_of({(0, "x"): None}), "length") is None
    assert in_per_cent(None) is None


def test_pairs_need_both_methods():
    rows = rows_of({(0, "x"): 3.0, (1, "x"): 5.0}) + rows_of({(0, "x"): 1.0}, "b")
    assert [row["difference"] for row in paired(rows, "a", "b", "length")] == [2.0]


def test_the_margin_is_students():
    assert Mean(0.0, 1.0, 5).margin == pytest.approx(2.776, abs=1e-3)
    assert Mean(0.0, None, 1).margin == 0.0


@pytest.mark.parametrize(
    ("ours", "verdict"), [(2.1, REPRODUCED), (1.9, REPRODUCED), (2.3, NOT_REPRODUCED)]
)
def test_a_length_is_reproduced_within_a_tenth(ours, verdict):
    line = compared({}, 2.0, Mean(ours, 0.01, 5), "length")
    assert line.verdict == verdict
    assert "allowed" in line.reason


@pytest.mark.parametrize(
    ("error", "verdict", "reason"),
    [(0.1, NOT_REPRODUCED, "+1.50 from"), (0.5, CANNOT, "not clear"), (2.0, CANNOT, "not clear")],
)
def test_nothing_is_said_of_what_lies_within_our_own_margin(error, verdict, reason):
    line = compared({}, 90.0, Mean(91.5, error, 5), "coverage")
    assert line.verdict == verdict
    assert reason in line.reason


def test_a_wide_margin_around_the_papers_value_reproduces_nothing():
    assert compared({}, 90.0, Mean(90.0, 2.0, 5), "coverage").verdict == CANNOT
    assert compared({}, 90.0, Mean(90.0, None, 1), "coverage").verdict == CANNOT


def test_what_cannot_be_compared_says_why():
    assert compared({}, 1.0, None, "length").verdict == CANNOT
    assert compared({}, None, Mean(1.0, None, 1), "length").reason == "the paper prints no value"
    line = compared({}, 1.0, Mean(1.0, None, 1), "length", "another unit")
    assert (line.verdict, line.reason, line.ours) == (CANNOT, "another unit", 1.0)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (Mean(-1.0, 0.1, 5), REPRODUCED),
        (Mean(1.0, 0.1, 5), NOT_REPRODUCED),
        (Mean(-0.2, 0.1, 5), CANNOT),
        (Mean(-1.0, None, 1), CANNOT),
    ],
)
def test_a_difference_must_have_the_sign_beyond_its_margin(ours, verdict):
    line = same_direction({}, -0.5, ours)
    assert line.verdict == verdict
    assert line.reason
    assert math.isfinite(line.ours)


def test_cells_below_their_band_are_counted_by_method():
    sizes = {"n_calibration": 500, "n_test": 500}
    shares = {"fine": [0.9, 0.89], "low": [0.7, 0.9], "high": [0.99, 0.9]}
    rows = [
        {"method": method, "coverage": share, **sizes}
        for method in shares
        for share in shares[method]
    ]
    found = {row["method"]: row for row in below_bands([*rows, {"method": "failed"}], 0.9)}
    assert set(found) == set(shares)
    assert [found[name]["below 95 % band"] for name in shares] == [0, 1, 0]
    assert [found[name]["below strict band"] for name in shares] == [0, 1, 0]
    assert [found[name]["above"] for name in shares] == [0, 0, 1]


@pytest.mark.parametrize(
    ("value", "verdict"), [(-1.0, REPRODUCED), (-0.01, CANNOT), (1.0, NOT_REPRODUCED)]
)
def test_a_claim_holds_beyond_its_margin_only(value, verdict):
    assert below({}, Mean(value, 0.1, 5), 0.0, "shorter").verdict == verdict
    assert above({}, Mean(-value, 0.1, 5), 0.0, "longer").verdict == verdict


def test_a_claim_needs_repeats():
    assert below({}, Mean(-1.0, None, 1), 0.0, "shorter").verdict == CANNOT
    assert alike({}, Mean(1.0, None, 1), 1.0, 0.1, "alike").verdict == CANNOT


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [
        (1.05, 0.01, REPRODUCED),
        (1.09, 0.01, CANNOT),
        (1.2, 0.01, NOT_REPRODUCED),
        (1.2, 0.05, CANNOT),
        (1.0, 1.0, CANNOT),
    ],
)
def test_much_alike_is_within_the_bounds_with_its_margin(value, error, verdict):
    assert alike({}, Mean(value, error, 5), 1.0, 0.1, "alike").verdict == verdict


def test_ratios_of_seconds_have_a_factor():
    assert within_factor({}, 12.0, Mean(9.0, 0.1, 5), 1.5).verdict == REPRODUCED
    assert within_factor({}, 12.0, Mean(7.0, 0.1, 5), 1.5).verdict == NOT_REPRODUCED
    assert within_factor({}, None, Mean(7.0, 0.1, 5), 1.5).verdict == CANNOT
