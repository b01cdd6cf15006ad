import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from localconformal.audit import compare
from localconformal.cli.compare import conclusion, standings_table
from localconformal.io.tables import TableError
from localconformal.metrics import interval_score
from localconformal.tabular import compare_methods, run_table
from localconformal.tabular.compare import DEFAULT_METHODS, count_steps, split_seeds
from localconformal.text import plain_data

#: Quantile regression stands for CQR here; a forest has none, and fails.
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
    steps = []
    return compare_methods(table, "y", METHODS, model="linear", on_step=steps.append), steps


def test_methods_are_ranked_by_their_score(compared):
    found, steps = compared
    standings = found.standings()
    assert {row["method"] for row in standings} == set(METHODS)
    assert [row["rank"] for row in standings] == [1, 2, 3]
    scores = [row["interval_score"] for row in standings]
    assert scores == sorted(scores)
    # The noise grows with x, which one width for all cannot follow.
    assert standings[-1]["method"] == "split"
    assert standings[0]["method"] == found.comparison.best
    assert steps == [*METHODS, "measuring"]
    assert len(steps) == count_steps(METHODS, 1)


def test_the_first_split_is_that_of_run(table, compared):
    first = compared[0].trials[0]
    run = run_table(table, "y", model="linear", method="split")
    np.testing.assert_array_equal(run.intervals[:, :, 0], first.attempts["split"].intervals)
    np.testing.assert_array_equal(run.y, first.y)


def test_one_split_has_the_numbers_of_the_library(compared):
    found, _ = compared
    first = found.trials[0]
    bands = {name: one.intervals for name, one in first.attempts.items()}
    direct = compare(bands, first.test[["x", "g"]], first.y)
    summaries = {method.name: method.summary for method in direct.methods}
    apart = {(row.method, row.metric): row for row in direct.paired()}
    best, *_, last = found.standings()
    for row in found.standings():
        summary = summaries[row["method"]]
        assert row["interval_score"] == interval_score(first.y, bands[row["method"]], 0.9)
        assert row["coverage"] == summary.coverage
        assert (row["coverage_lower"], row["coverage_upper"]) == (summary.lower, summary.upper)
    assert last["interval_score_difference"] == apart["split", "interval_score"].difference
    assert last["length_difference_lower"] == apart["split", "length"].lower
    assert best["interval_score_difference"] == 0.0


def test_test_rows_are_apart_from_those_fitted_on(compared, table):
    first = compared[0].trials[0]
    assert first.n_fit + len(first.y) == table["y"].notna().sum()
    np.testing.assert_array_equal(table.loc[first.test.index, "y"], first.y)


def test_what_was_done_to_the_table_is_said(compared):
    found, _ = compared
    assert any("5 of 600 rows" in note for note in found.notes)
    assert any("categories" in note and "'g'" in note for note in found.notes)


def test_a_failure_is_said_and_does_not_stop_the_others(table):
    found = compare_methods(table, "y", ["cqr", "split"], model="forest")
    assert [row["method"] for row in found.standings()] == ["split"]
    assert list(found.failed) == ["cqr"]
    assert "no quantiles" in found.failed["cqr"]
    frame = found.frame()
    assert frame["method"].tolist() == ["split", "cqr"]
    assert frame["error"].tolist()[1] == found.failed["cqr"]
    assert "Failed: cqr" in list(conclusion(found))[-1]


def test_when_all_fail_alike_the_reason_is_said_once(table):
    with pytest.raises(ValueError, match="There is no model 'lienar'; did you mean linear") as stop:
        compare_methods(table, "y", METHODS, model="lienar")
    assert str(stop.value).count("lienar") == 1


def test_infinite_intervals_are_ranked_last_and_said(table):
    found = compare_methods(table, "y", METHODS, model="linear", confidence_level=0.995)
    infinite = [row for row in found.standings() if row["share_infinite"] > 0]
    assert infinite
    last = found.standings()[-1]
    assert last["method"] == infinite[-1]["method"]
    assert last["interval_score"] == np.inf
    assert any(note.startswith(f"{last['method']}: ") for note in found.notes)
    assert not any(last["method"] in line.split("(")[0] for line in conclusion(found))


def test_the_same_seed_gives_the_same_standings(table):
    one, again, other = (
        compare_methods(table, "y", ["split"], model="linear", random_state=seed).standings()[0]
        for seed in (1, 1, 2)
    )
    assert one["interval_score"] == again["interval_score"] != other["interval_score"]


@pytest.mark.ci
def test_repeats_average_and_begin_with_the_first_split(table, compared):
    single, _ = compared
    many = compare_methods(table, "y", METHODS, model="linear", repeats=3)
    np.testing.assert_array_equal(
        single.trials[0].attempts["cqr"].intervals, many.trials[0].attempts["cqr"].intervals
    )
    assert single.comparison.best == many.comparison.splits[0].best
    seconds = [trial.attempts["split"].fit_seconds for trial in many.trials]
    for row in many.standings():
        if row["method"] == "split":
            assert row["fit_seconds"] == pytest.approx(np.mean(seconds))


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
        compare_methods(table[:n], "y", methods, model="linear", repeats=repeats)


def test_a_target_that_is_not_there(table):
    with pytest.raises(TableError, match="no column 'Y'; did you mean 'y'"):
        compare_methods(table, "Y", METHODS, model="linear")


def test_the_record_is_plain_data(compared):
    found, _ = compared
    record = json.loads(json.dumps(plain_data(found.record())))
    assert [one["rank"] for one in record["standings"]] == [1, 2, 3]
    first = found.trials[0]
    assert record["rows"] == {"fit": first.n_fit, "test": len(first.y)}


def test_the_table_fits_eighty_columns(compared):
    found, _ = compared
    console = Console(width=80)
    with console.capture() as capture:
        console.print(standings_table(found))
    lines = [line.strip() for line in capture.get().splitlines()]
    first_words = [line.split()[0] for line in lines if line]
    order = [word for word in first_words if word in METHODS]
    assert order == [row["method"] for row in found.standings()]
    assert "…" not in capture.get()


def test_methods_that_need_more_are_left_out_by_default():
    assert {"localized", "weighted"}.isdisjoint(DEFAULT_METHODS)
    assert {"slcp", "split", "cqr", "lcp"} <= set(DEFAULT_METHODS)


def test_seeds_differ_and_more_begin_alike():
    assert len(set(split_seeds(7, 20))) == 20
    assert split_seeds(7, 20)[:5] == split_seeds(7, 5)
    assert split_seeds(7, 1) == [7]
