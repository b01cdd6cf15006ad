"""Parts too rarely and too often covered, point predictions, and one page for one seed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_data import many_failures, ordinary, rows
from sklearn.linear_model import LinearRegression

from localconformal import MondrianConformalRegressor
from localconformal.audit import audit
from localconformal.report import render, summarise
from localconformal.text import say_number


def both_sides(n=4_000, seed=0):
    """Covered too rarely on one side, too often on the other; a slab too."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.uniform(size=n), "b": rng.uniform(size=n)})
    y = rng.normal(size=n) * np.where(X["a"] > 0.7, 2.0, 0.7)
    return audit(X, y, np.tile([-1.645, 1.645], (n, 1)), {"half": X["a"] > 0.7})


def too_wide(n=4_000):
    X, y, intervals = rows(n, 1)
    return audit(X, y, 4.0 * intervals, "weather")


AUDITS = {
    "ordinary": lambda: ordinary()["audit"],
    "many": lambda: many_failures()["audit"],
    "both sides": both_sides,
    "too wide": too_wide,
    "shifted": lambda: audit(*rows(2_000)[:2], 0.6 * rows(2_000)[2]),
    "few": lambda: audit(*rows(30)),
}


@pytest.fixture(scope="module", params=list(AUDITS))
def made(request):
    found = AUDITS[request.param]()
    return found, summarise(found)


def shown_parts(summary, state):
    """Every part that a chart or a table marks so, by its kind and what it is called there."""
    marked = set()
    for name in ("groups", "features", "sizes"):
        for option in summary["charts"].get(name, {"options": []})["options"]:
            columns = option["columns"]
            named = zip(columns["label"], columns["state"], strict=True)
            marked |= {(name, option["label"], label) for label, found in named if found == state}
    for table in summary["failures"]["tables"]:
        if table["id"] == "rules":
            texts = [row["text"] for row in table["rows"] if row["state"] == state]
            marked |= {("rules", "", text) for text in texts}
    glance = summary["charts"]["glance"]["options"][0]["columns"]
    named = zip(glance["label"], glance["state"], strict=True)
    marked |= {("slab", "", n) for n, found in named if n.startswith("Slab:") and found == state}
    return marked


def test_the_headline_counts_every_part_that_the_page_marks(made):
    _, summary = made
    figure = summary["headline"]["figures"][3]
    under, over = shown_parts(summary, "under"), shown_parts(summary, "over")
    assert figure["value"].split(" of ")[0] == f"{len(under):,}"
    often = re.search(r"([\d,]+) covered too often", figure["detail"])
    assert (0 if often is None else int(often[1].replace(",", ""))) == len(over)
    for side, parts in (("under", under), ("over", over)):
        told = summary["failures"][side]
        assert len(told["sentences"]) + told["more"] == len(parts)
        assert {one["state"] for one in told["sentences"]} <= {side}


def test_tables_and_charts_mark_the_same(made):
    found, summary = made
    for part in ("groups", "features"):
        (table,) = (t for t in summary["failures"]["tables"] if t["id"] == part)
        for state in ("under", "over"):
            marked = sum(row["state"] == state for row in table["rows"])
            assert marked == sum(kind == part for kind, _, _ in shown_parts(summary, state))
    assert len(found.failures()) == sum(len(shown_parts(summary, s)) for s in ("under", "over"))


def test_the_glance_shows_no_part_in_red_that_is_not_counted(made):
    _, summary = made
    glance = summary["charts"]["glance"]["options"][0]["columns"]
    red = [
        label
        for label, state in zip(glance["label"], glance["state"], strict=True)
        if state == "under" and label != "All rows"
    ]
    assert len(red) <= len(shown_parts(summary, "under"))
    assert bool(red) == bool(shown_parts(summary, "under"))


def test_over_coverage_has_a_part_of_its_own():
    page = render(summarise(both_sides()))
    fails, excess, rest = (page.index(f'<section id="{name}"') for name in
                           ("failures", "excess", "parts"))  # fmt: skip
    assert fails < excess < rest
    assert "mark over" not in page[fails:excess]
    assert "mark under" not in page[excess:rest]
    assert "half = True" in page[fails:excess]
    assert "half = False" in page[excess:rest]
    wide = render(summarise(too_wide()))
    assert "No part is covered too rarely by more than chance." in wide
    assert "fails most" not in wide


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "No groups were named: pass groups= to the audit."),
        ({"group_hint": "use --groups"}, "No groups were named: use --groups."),
        ({"group_hint": ""}, "No groups were named."),
    ],
)
def test_without_groups_the_page_says_how_to_get_them(given, said):
    summary = summarise(audit(*rows(300)), **given)
    assert "groups" not in summary["charts"]
    assert f">{said}<" in render(summary)


# ---- point predictions ------------------------------------------------------------------------


def predicted(y_pred, n=600):
    X, y, intervals = rows(n)
    given = {"X": X, "y": 100 + y, "intervals": 100 + intervals}
    return summarise(audit(X, 100 + y, 100 + intervals), **given, y_pred=y_pred(100 + y))


def test_point_predictions_stand_on_the_page_with_their_intervals():
    summary = predicted(lambda y: y + 0.5)
    assert "are off by 0.5 on average" in summary["predictions"][0]
    columns = summary["charts"]["predictions"]["options"][0]["columns"]
    for row in range(len(columns["row"])):
        inside = columns["lower"][row] <= columns["observed"][row] <= columns["upper"][row]
        assert inside == columns["covered"][row]
    page = render(summary)
    assert '<section id="model"' in page
    assert 'data-chart="predictions"' in page
    assert "no better than a constant" not in page


def test_a_model_no_better_than_a_constant_is_told_at_the_head():
    summary = predicted(lambda y: 200 - y)
    assert "no better than a constant" in summary["headline"]["verdict"][-1]
    assert "no better than a constant" in summary["predictions"][0]


def test_a_model_is_asked_for_its_predictions_and_foreign_intervals_have_none():
    given = ordinary()
    X, y, model = given["X"][["hour"]], given["y"], given["model"]
    found = audit(X, y, model)
    asked = summarise(found, model=model, X=X, y=y)
    told = summarise(found, X=X, y=y, intervals=model.predict_interval(X), y_pred=model.predict(X))
    assert asked["charts"]["predictions"] == told["charts"]["predictions"]
    foreign = summarise(found, X=X, y=y, intervals=model.predict_interval(X))
    assert "predictions" not in foreign["charts"]
    assert '<section id="model"' not in render(foreign)


def test_infinite_bounds_do_not_stretch_the_axes():
    X, y, intervals = rows(300)
    intervals[:, 1] = np.inf
    intervals[:100, 0] = -np.inf
    found = audit(X, y, intervals)
    chart = summarise(found, X=X, y=y, intervals=intervals, y_pred=y)["charts"]["predictions"]
    assert np.isfinite(chart["ends"]).all()


# ---- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6, 1e11])
def test_large_numbers_are_written_out(unit):
    X, y, intervals = rows(1_000)
    y, intervals = unit * y, unit * intervals
    found = audit(X, y, intervals)
    summary = summarise(found, X=X, y=y, intervals=intervals, y_pred=y)
    labels = summary["charts"]["sizes"]["options"][0]["columns"]["label"]
    assert not any("e+" in label for label in labels)
    page = render(summary)
    words = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"\de\+\d", words)
    assert f">{say_number(found.summary.mean_length)}<" in words


# ---- the same page ----------------------------------------------------------------------------

PAGE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_report_parts import page_of_odd_model
sys.stdout.reconfigure(encoding="utf-8")
print(page_of_odd_model())
"""


def page_of_odd_model():
    """The page of a model whose settings Python names by their place in memory."""
    X, y, _ = rows(600)
    X = X[["hour"]].assign(weather=X["weather"].astype("category").cat.codes)
    model = MondrianConformalRegressor(
        LinearRegression(),
        groups=lambda X: np.asarray(X)[:, 0] > 12,
        random_state=np.random.RandomState(0),
    ).fit(X, y)
    return render(summarise(audit(X, y, model), model=model, X=X, y=y))


def test_no_address_of_an_object_is_on_the_page():
    page = page_of_odd_model()
    assert "function" in page
    assert "RandomState(MT19937)" in page
    assert not re.search(r"0x[0-9a-fA-F]{6,}", page)


@pytest.mark.ci
def test_two_processes_make_the_same_page():
    def made(seed):
        command = [sys.executable, "-c", PAGE, str(Path(__file__).parent)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, capture_output=True, check=True, env=environment).stdout

    first = made("1")
    assert b"</html>" in first
    assert made("2") == first
