"""Laws of the rule of verdicts, for lines and for the paper's sentences."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from benchmarks.harness import (
    CANNOT,
    EQUAL,
    NOT_REPRODUCED,
    OURS,
    PRESETS,
    REPRODUCED,
    UNDECIDED,
    VERDICTS,
    Line,
    report,
)
from benchmarks.tables import Mean
from paper import EXPERIMENTS, load_experiment
from paper.layouts import caveat
from paper.sentences import (
    CLAIM_VERDICTS,
    CLAIMS,
    FAILS,
    HOLDS,
    IN_PART,
    NOT_RUN,
    claim_verdict,
    judge,
)
from paper.tables import noted, where_finite
from paper.verdicts import (
    NEGLIGIBLE,
    TOLERANCES,
    below,
    between,
    change_lines,
    compared,
    length_difference,
    within,
    within_factor,
)

STANDARD = PRESETS["standard"]


@pytest.mark.parametrize(
    ("line", "verdict", "reason"),
    [
        # Lengths are reproduced within a tenth, coverage within a point, ratios within a factor.
        (compared({}, 2.0, Mean(2.1, 0.01, 5), "length"), REPRODUCED, "allowed"),
        (compared({}, 2.0, Mean(2.3, 0.01, 5), "length"), NOT_REPRODUCED, "allowed"),
        (compared({}, 90.0, Mean(91.5, 0.1, 5), "coverage"), NOT_REPRODUCED, "+1.50 from"),
        (within_factor({}, 12.0, Mean(9.0, 0.1, 5), 1.5), REPRODUCED, "times the paper's"),
        (within_factor({}, 12.0, Mean(7.0, 0.1, 5), 1.5), NOT_REPRODUCED, "times the paper's"),
        # What straddles a bound lacks power.
        (compared({}, 90.0, Mean(90.0, 2.0, 5), "coverage"), UNDECIDED, "95 % margin"),
        (compared({}, 90.0, Mean(90.0, None, 1), "coverage"), UNDECIDED, "one repeat"),
        (between({}, Mean(1.09, 0.01, 5), 0.9, 1.1, "alike"), UNDECIDED, "alike"),
        # What cannot be compared says why, and what the paper does not print is apart.
        (compared({}, 1.0, None, "length"), CANNOT, "not run"),
        (compared({}, 1.0, Mean(1.0, 0.1, 5), "length", "another unit"), CANNOT, "another unit"),
        (below({}, Mean(-1.0, 0.1, 5), 0.0, "shorter", cannot="a stand-in"), CANNOT, "stand-in"),
        (compared({}, None, Mean(1.0, None, 1), "length"), OURS, "the paper prints no value"),
        # Sentences hold beyond their margin only.
        (below({}, Mean(-1.0, 0.1, 5), 0.0, "shorter"), REPRODUCED, "shorter"),
        (below({}, Mean(1.0, 0.1, 5), 0.0, "shorter"), NOT_REPRODUCED, "shorter"),
        (between({}, Mean(1.05, 0.01, 5), 0.9, 1.1, "alike"), REPRODUCED, "alike"),
    ],
)
def test_verdicts(line, verdict, reason):
    assert line.verdict == verdict
    assert reason in line.reason


def mean_of(low, high):
    """A mean whose 95 % interval is this."""
    unit = Mean(0.0, 1.0, 20).margin
    return Mean((low + high) / 2, (high - low) / 2 / unit, 20)


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (-np.inf, 0.0), (0.0, np.inf)])
def test_a_verdict_never_changes_as_the_interval_shrinks(bounds):
    rng = np.random.default_rng(0)
    for _ in range(300):
        low, inner_low, inner_high, high = np.sort(rng.normal(scale=1.5, size=4))
        verdict, inner = (
            within(mean_of(*ends), *bounds, "")[0]
            for ends in ((low, high), (inner_low, inner_high))
        )
        assert verdict in (UNDECIDED, inner)


def test_the_edges_count_as_within():
    nudge = 1e-9
    assert within(mean_of(nudge, 1 - nudge), 0.0, 1.0, "")[0] == REPRODUCED
    assert within(mean_of(-nudge, 1 - nudge), 0.0, 1.0, "")[0] == UNDECIDED
    assert within(mean_of(1 + nudge, 2.0), 0.0, 1.0, "")[0] == NOT_REPRODUCED


def test_a_change_is_judged_by_its_value_and_its_direction_apart():
    """The same sign is not enough: +0.13 % is not the paper's +22.5 %."""
    value, way = change_lines({"quantity": "longer, %"}, 22.5, mean_of(0.05, 0.21))
    assert (value.verdict, way.verdict) == (NOT_REPRODUCED, REPRODUCED)
    assert way.of["quantity"] == "longer, %: longer"
    allowed = TOLERANCES["change"][1]
    value, way = change_lines({"quantity": ""}, 2.0, mean_of(-2.5, 2.0 + allowed))
    assert (value.verdict, way.verdict) == (REPRODUCED, UNDECIDED)
    # A printed 0 has a value and no direction.
    assert len(change_lines({"quantity": ""}, 0.0, mean_of(0.0, 1.0))) == 1
    assert [line.verdict for line in change_lines({"quantity": ""}, 1.0, None)] == [CANNOT] * 2


def test_no_difference_needs_an_interval_that_says_so():
    near, wide = (mean_of(-share * NEGLIGIBLE, share * NEGLIGIBLE) for share in (0.99, 1.01))
    assert below({}, near, 0.0, "", NEGLIGIBLE).verdict == EQUAL
    assert below({}, wide, 0.0, "", NEGLIGIBLE).verdict == UNDECIDED
    assert below({}, Mean(0.0, None, 1), 0.0, "", NEGLIGIBLE).verdict == UNDECIDED
    # A sign that is clear is told, however small.
    assert below({}, mean_of(-0.2, -0.1), 0.0, "", NEGLIGIBLE).verdict == REPRODUCED


def test_differences_of_length_have_no_unit():
    rows = [
        {"repeat": r, "method": m, "length": (1 + r) * length}
        for r in range(3)
        for m, length in (("a", 0.9 + 0.001 * r), ("b", 1.0))
    ]
    scaled = [{**row, "length": 40 * row["length"]} for row in rows]
    first, second = (length_difference({}, mine, "a", "b", (1.8, 2.0)) for mine in (rows, scaled))
    assert [line.verdict for line in first] == [line.verdict for line in second]
    assert first[0].ours == pytest.approx(second[0].ours)
    assert first[0].paper == pytest.approx(100 * np.log(0.9), abs=0.05)


def test_more_evidence_for_a_claim_never_makes_it_worse():
    rank = {FAILS: 0, UNDECIDED: 1, IN_PART: 2, HOLDS: 3}
    steps = {NOT_REPRODUCED: EQUAL, EQUAL: UNDECIDED, UNDECIDED: REPRODUCED}
    names = (REPRODUCED, NOT_REPRODUCED, EQUAL, UNDECIDED)
    for numbers in product(range(4), repeat=4):
        counts = dict(zip(names, numbers, strict=True))
        for (worse, better), always in product(steps.items(), (False, True)):
            if counts[worse]:
                moved = counts | {worse: counts[worse] - 1, better: counts[better] + 1}
                before, after = (claim_verdict(c, always) for c in (counts, moved))
                assert rank[before] <= rank[after], (counts, worse, better)


def test_every_claim_has_lines_and_is_judged_by_nothing_else():
    lines = {
        name: report(experiment, experiment.cases(STANDARD), [], STANDARD).lines
        for name in EXPERIMENTS
        for experiment in [load_experiment(name)]
    }
    assert len({claim.title for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        # What will not be run is no evidence; what has yet to be run is no verdict.
        found = judge(claim, lines)
        assert found.verdict in (NOT_RUN, CANNOT)
        assert all(one.of(lines[one.experiment]) for one in claim.picks), claim.title
        for verdict in VERDICTS[:-1]:
            said = {
                name: [Line(line.of, None, 1.0, 0.1, verdict, "") for line in mine]
                for name, mine in lines.items()
            }
            assert judge(claim, said).verdict in CLAIM_VERDICTS
            assert (judge(claim, said).verdict == HOLDS) == (verdict == REPRODUCED)


def test_lengths_are_compared_where_all_are_finite_on_half_of_the_sets_at_least():
    def rows_of(off):
        return [
            {"dataset": name, "method": method, "infinite": 0.1 * (method == "LCP" and name in off)}
            for name in "abcd"
            for method in ("SLCP", "LCP")
        ]

    every = rows_of("")
    assert where_finite(every, "LCP") == (every, "", "")
    kept, note, why = where_finite(rows_of("ad"), "LCP")
    assert {row["dataset"] for row in kept} == {"b", "c"}
    assert (note, why) == ("without a, d, where some of LCP's are infinite", "")
    *_, why = where_finite([{**row, "repeat": 0} for row in rows_of("abc")], "LCP")
    assert why == "some of LCP's are infinite on 3 of 4 data sets, 7.5 % in all, left out"
    (line,) = noted([Line({}, None, 1.0, 0.1, REPRODUCED, "seen")], note)
    assert caveat(line) == note
    assert caveat(replace(line, reason="seen")) == ""
