import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from localconformal.report.plain import plain
from rich.console import Console

from localconformal.audit import compare
from localconformal.cli.compare_rendering import conclusion, standings_table
from localconformal.io.tables import TableError
from localconformal.metrics import interval_score
from localconformal.workflow.comparison import (
    compare_table,
    count_steps,
    default_methods,
    split_seeds,
)
from localconformal.workflow.comparison_output import comparison_frame, comparison_record
from localconformal.workflow.model import Settings
from localconformal.workflow.running import Task, run_table
from localconformal.workflow.standings import Seconds, rank_methods, resampled_band

#: Quantile regression stands for CQR here; a forest has none, and fails.
METHODS = ["split", "cqr", "mondrian"]
TASK = Task("y", Settings(model="linear"))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"x": rng.uniform(size=600), "g": rng.choice(["a", "b"], 600)})
    made["y"] = made["x"] * rng.normal(size=600)
    made.loc[:4, "y"] = np.nan
    return made


@pytest.fixture(scope="module")
def compared(table):
    steps = []
    return compare_table(table, TASK, METHODS, on_step=steps.append), steps


def test_methods_are_ranked_by_their_score(compared):
    found, steps = compared
    assert {one.method for one in found.standings} == set(METHODS)
    assert [one.rank for one in found.standings] == [1, 2, 3]
    scores = [one.interval_score for one in found.standings]
    assert scores == sorted(scores)
    # The noise grows with x, which one width for all cannot follow.
    assert found.standings[-1].method == "split"
    assert steps == [*METHODS, "measuring"]
    assert len(steps) == count_steps(METHODS, 1)


def test_the_first_split_is_that_of_run(table, compared):
    found, _ = compared
    run = run_table(table, replace(TASK, settings=replace(TASK.settings, method="split")))
    np.testing.assert_array_equal(run.intervals[:, :, 0], found.first.attempts["split"].intervals)
    np.testing.assert_array_equal(run.y, found.first.y)


def test_one_split_has_the_numbers_of_the_library(compared):
    found, _ = compared
    bands = {name: one.intervals for name, one in found.first.attempts.items()}
    direct = compare(bands, found.first.test[["x", "g"]], found.first.y)
    summaries = {method.name: method.summary for method in direct.methods}
    apart = {(row.method, row.metric): row for row in direct.paired()}
    for one in found.standings:
        summary = summaries[one.method]
        assert one.interval_score == interval_score(found.first.y, bands[one.method], 0.9)
        assert one.coverage == summary.coverage
        assert (one.coverage_lower, one.coverage_upper) == (summary.lower, summary.upper)
    last = found.standings[-1]
    assert last.interval_score_difference == apart["split", "interval_score"].difference
    assert last.length_difference_lower == apart["split", "length"].lower
    assert found.standings[0].interval_score_difference == 0.0


def test_test_rows_are_apart_from_those_fitted_on(compared, table):
    found, _ = compared
    assert found.first.n_fit + len(found.first.y) == table["y"].notna().sum()
    np.testing.assert_array_equal(table.loc[found.first.test.index, "y"], found.first.y)


def test_what_was_done_to_the_table_is_said(compared):
    found, _ = compared
    assert any("5 of 600 rows" in note for note in found.notes)
    assert any("categories" in note and "'g'" in note for note in found.notes)


def test_a_failure_is_said_and_does_not_stop_the_others(table):
    task = replace(TASK, settings=Settings(model="forest"))
    found = compare_table(table, task, ["cqr", "split"])
    assert [one.method for one in found.standings] == ["split"]
    assert list(found.failed) == ["cqr"]
    assert "no quantiles" in found.failed["cqr"]
    frame = comparison_frame(found)
    assert frame["method"].tolist() == ["split", "cqr"]
    assert frame["error"].tolist()[1] == found.failed["cqr"]
    assert "Failed: cqr" in list(conclusion(found))[-1]


def test_when_all_fail_alike_the_reason_is_said_once(table):
    with pytest.raises(ValueError, match="There is no model 'lienar'; did you mean linear") as stop:
        compare_table(table, replace(TASK, settings=Settings(model="lienar")), METHODS)
    assert str(stop.value).count("lienar") == 1


def test_infinite_intervals_come_last_and_are_said(table):
    settings = replace(TASK.settings, levels=(0.995,))
    found = compare_table(table, replace(TASK, settings=settings), METHODS)
    infinite = [one for one in found.standings if one.share_infinite > 0]
    assert infinite
    assert found.standings[-1] == infinite[-1]
    assert infinite[-1].interval_score == np.inf
    assert any(note.startswith(f"{infinite[-1].method}: ") for note in found.notes)
    assert not any(infinite[-1].method in line.split("(")[0] for line in conclusion(found))


def test_the_same_seed_gives_the_same_standings(table):
    one, again, other = (
        compare_table(
            table, replace(TASK, settings=replace(TASK.settings, seed=seed)), ["split"]
        ).standings[0]
        for seed in (1, 1, 2)
    )
    assert one.interval_score == again.interval_score != other.interval_score


@pytest.mark.ci
def test_repeats_average_and_begin_with_the_first_split(table, compared):
    single, _ = compared
    many = compare_table(table, TASK, METHODS, repeats=3)
    np.testing.assert_array_equal(
        single.first.attempts["cqr"].intervals, many.first.attempts["cqr"].intervals
    )
    best, *others = many.standings
    for one in others:
        difference = one.interval_score - best.interval_score
        assert one.interval_score_difference == pytest.approx(difference)
        assert (
            one.interval_score_difference_lower < difference < one.interval_score_difference_upper
        )


@pytest.mark.parametrize(
    ("n", "methods", "repeats", "word"),
    [
        (600, ["splt"], 1, "did you mean split"),
        (20, METHODS, 1, "15 row"),
        (600, METHODS, 0, "repeats is 0"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(table, n, methods, repeats, word):
    with pytest.raises(ValueError, match=word):
        compare_table(table[:n], TASK, methods, repeats=repeats)


def test_a_target_that_is_not_there(table):
    with pytest.raises(TableError, match="no column 'Y'; did you mean 'y'"):
        compare_table(table, Task("Y", TASK.settings), METHODS)


def test_the_record_is_plain_data(compared):
    found, _ = compared
    record = json.loads(json.dumps(plain(comparison_record(found))))
    assert [one["rank"] for one in record["standings"]] == [1, 2, 3]
    assert record["rows"] == {"fit": found.first.n_fit, "test": len(found.first.y)}


def test_the_table_fits_eighty_columns(compared):
    found, _ = compared
    console = Console(width=80)
    with console.capture() as capture:
        console.print(standings_table(found))
    lines = [line.strip() for line in capture.get().splitlines()]
    first_words = [line.split()[0] for line in lines if line]
    order = [word for word in first_words if word in METHODS]
    assert order == [one.method for one in found.standings]
    assert "…" not in capture.get()


def test_methods_that_need_more_are_left_out_by_default():
    assert {"localized", "weighted"}.isdisjoint(default_methods())
    assert {"slcp", "split", "cqr", "lcp"} <= set(default_methods())


def test_seeds_differ_and_more_begin_alike():
    assert len(set(split_seeds(7, 20))) == 20
    assert split_seeds(7, 20)[:5] == split_seeds(7, 5)
    assert split_seeds(7, 1) == [7]


def test_the_band_of_repeated_splits_knows_that_they_share_rows():
    """Means of overlapping test sets: the corrected band covers, the naive one does not."""
    rng = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(300):
        errors = rng.normal(size=40)
        means = np.array([rng.permutation(errors)[:10].mean() for _ in range(10)])
        for k, ratio in enumerate((10 / 30, 0.0)):
            _, low, high = resampled_band(means, ratio)
            hits[k] += low <= 0.0 <= high
    assert hits[0] / 300 > 0.9 > hits[1] / 300


def test_seconds_are_averaged(compared):
    found, _ = compared
    seconds = [dict.fromkeys(METHODS, Seconds(fit, 2.0)) for fit in (1.0, 3.0)]
    ranked = rank_methods([found.comparison, found.comparison], seconds, 1 / 3)
    assert (ranked[0].fit_seconds, ranked[0].predict_seconds) == (2.0, 2.0)
