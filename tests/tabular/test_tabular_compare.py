import json

import numpy as np
import pandas as pd
import pytest

from localconformal.audit import compare
from localconformal.cli.compare import ranking_lines
from localconformal.tabular import compare_methods, run_table
from localconformal.tabular.compare import split_seeds
from localconformal.text import json_text

METHODS = ["split", "cqr", "mondrian"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"x": rng.uniform(size=600), "g": rng.choice(["a", "b"], 600)})
    made["y"] = made["x"] * rng.normal(size=600)
    made.loc[:4, "y"] = np.nan
    return made


@pytest.fixture(scope="module")
def compared(table):
    return compare_methods(table, "y", METHODS, model="linear")


def test_methods_are_ranked_by_their_score_also_in_the_record(compared):
    standings = compared.standings()
    record, first = json.loads(json_text(compared.record())), compared.trials[0]
    assert [one["method"] for one in record["standings"]] == [one["method"] for one in standings]
    assert record["rows"] == {"fit": first.n_fit, "test": len(first.y)}
    assert any("5 of 600 rows" in note for note in record["notes"])
    assert any("categories" in note and "'g'" in note for note in record["notes"])
    assert {row["method"] for row in standings} == set(METHODS)
    assert [row["rank"] for row in standings] == [1, 2, 3]
    scores = [row["interval_score"] for row in standings]
    assert scores == sorted(scores)
    # The noise grows with x, which one width for all cannot follow.
    assert standings[-1]["method"] == "split"
    assert standings[0]["method"] == compared.comparison.best


def test_the_first_split_is_that_of_run_and_its_numbers_are_those_of_the_library(table, compared):
    first, run = compared.trials[0], run_table(table, "y", model="linear", method="split")
    np.testing.assert_array_equal(run.intervals[:, :, 0], first.attempts["split"].intervals)
    np.testing.assert_array_equal(run.y, first.y)
    assert first.n_fit + len(first.y) == table["y"].notna().sum()
    bands = {name: one.intervals for name, one in first.attempts.items()}
    direct = compare(bands, first.test[["x", "g"]], first.y)
    summaries = {method.name: method.summary for method in direct.methods}
    apart = {(row.method, row.metric): row for row in direct.paired()}
    best, *_, last = compared.standings()
    for row in compared.standings():
        summary = summaries[row["method"]]
        assert row["interval_score"] == summary.interval_score
        assert row["coverage"] == summary.coverage
        assert (row["coverage_lower"], row["coverage_upper"]) == (summary.lower, summary.upper)
    assert last["interval_score_difference"] == apart["split", "interval_score"].difference
    assert last["length_difference_lower"] == apart["split", "length"].lower
    assert best["interval_score_difference"] == 0.0


def test_a_failure_is_said_and_does_not_stop_the_others(table):
    found = compare_methods(table, "y", ["cqr", "split"], model="forest")
    assert list(found.failed) == ["cqr"]
    assert "cannot predict quantiles" in found.failed["cqr"]
    frame = found.frame()
    assert frame["method"].tolist() == ["split", "cqr"]
    assert frame["error"].tolist()[1] == found.failed["cqr"]
    assert "Failed: cqr" in list(ranking_lines(found))[-1]


def test_infinite_intervals_are_ranked_last_and_said(table):
    found = compare_methods(table, "y", METHODS, model="linear", confidence_level=0.995)
    infinite = [row for row in found.standings() if row["share_infinite"] > 0]
    last = found.standings()[-1]
    assert (last["method"], last["interval_score"]) == (infinite[-1]["method"], np.inf)
    assert any(note.startswith(f"{last['method']}: ") for note in found.notes)
    assert not any(last["method"] in line.split("(")[0] for line in ranking_lines(found))


@pytest.mark.ci
def test_repeats_average_and_begin_with_the_first_split(table, compared):
    many = compare_methods(table, "y", METHODS, model="linear", repeats=3)
    np.testing.assert_array_equal(
        compared.trials[0].attempts["cqr"].intervals, many.trials[0].attempts["cqr"].intervals
    )
    assert compared.comparison.best == many.comparison.splits[0].best
    (split,) = [row for row in many.standings() if row["method"] == "split"]
    # Seeds differ, and more of them begin alike.
    seeds = split_seeds(7, 20)
    assert (len(set(seeds)), seeds[:5]) == (20, split_seeds(7, 5))
    seconds = [trial.attempts["split"].fit_seconds for trial in many.trials]
    assert split["fit_seconds"] == pytest.approx(np.mean(seconds))


BAD = [(600, {"methods": "splt"}, "did you mean split"), (600, {"repeats": 0}, "repeats is 0")]
BAD += [(600, {"confidence_level": 3}, "confidence_level is 3"), (20, {}, "15 row")]
BAD += [(600, {"confidence_level": [0.9, 0.5]}, "got 2 levels")]
BAD += [(600, {"target": "Y"}, "no column 'Y'; did you mean 'y'")]
# All methods fail alike, and the reason is said once.
BAD += [(600, {"model": "lienar"}, "^There is no model 'lienar'; did you mean linear[^']*$")]


@pytest.mark.parametrize(("n", "changes", "words"), BAD)
def test_what_cannot_be_compared_is_one_sentence(table, n, changes, words):
    options = {"target": "y", "methods": METHODS, "model": "linear", **changes}
    with pytest.raises(ValueError, match=words):
        compare_methods(table[:n], **options)


def test_known_values_of_the_target_reach_every_method(table, compared):
    counts = table.assign(y=table["y"].abs().mul(5).round().clip(upper=4))
    known = {"support": (0, 4), "integer": True}
    found = compare_methods(counts, "y", METHODS, model="linear", **known)
    for attempt in found.trials[0].attempts.values():
        assert np.isin(attempt.intervals, range(5)).all()
    assert not any("would restrict bounds" in note for note in found.notes)


def test_folds_reach_every_method_that_takes_them(table, compared):
    found = compare_methods(table, "y", ["split", "cqr", "mondrian"], model="linear", cv=4)
    assert "which has no cv" in found.failed["mondrian"]
    for name, attempt in found.trials[0].attempts.items():
        assert attempt.model.regressor.cv == 4
        plain = compared.trials[0].attempts[name].model.regressor
        assert attempt.model.regressor.calibration_.n > 2 * plain.calibration_.n


@pytest.mark.ci
def test_of_one_side_that_bound_alone_is_judged(table):
    found = compare_methods(table, "y", model="linear", sides="upper", support=(-9.0, None))
    assert {"slcp", "distsplit"} <= {row["method"] for row in found.standings()}
    assert not found.failed
    assert np.isneginf([one.intervals[:, 0] for one in found.trials[0].attempts.values()]).all()
    assert all(np.isfinite(row["interval_score"]) for row in found.standings())
    assert all(0.8 < row["coverage"] < 0.98 for row in found.standings())
