"""What the report says, and that no text breaks it."""

import json
import re
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

from localconformal import MondrianConformalRegressor
from localconformal.audit import audit
from localconformal.report import render, report_content, write_report
from localconformal.text import say_number
from registry import ci_but
from report_data import AWKWARD, HOSTILE, hostile, many_failures, ordinary, rows


@pytest.fixture(scope="module")
def arguments():
    return ordinary()


@pytest.fixture(scope="module")
def summary(arguments):
    return report_content(**arguments)


@pytest.fixture(scope="module")
def page(summary):
    return render(summary)


def content_of_rows(X, y, intervals, **more):
    return report_content(audit(X, y, intervals), X=X, y=y, intervals=intervals, **more)


def columns_of(summary, chart):
    return summary["charts"][chart]["options"][0]["columns"]


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, *tags):
        return [attrs for name, attrs in self.tags if name in tags]


def test_the_summary_is_json_and_says_the_audit_and_its_planted_failure(arguments, summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    found = arguments["audit"].summary
    assert f"{100 * found.coverage:.1f} % of 2,000 rows" in summary["headline"]["text"]
    shown = {figure["label"]: figure["value"] for figure in summary["headline"]["figures"]}
    assert (shown["Target"], shown["Mean length"]) == ("90 %", say_number(found.mean_length))
    assert arguments["audit"].slab_text in summary["slab"][0]
    assert "snow" in " ".join(summary["headline"]["verdict"])
    sentences = summary["failures"]["under"]["sentences"]
    assert any("weather = snow" in one["text"] for one in sentences)


def test_every_part_of_the_audit_is_in_a_table_and_in_its_place_in_a_chart(arguments, summary):
    found = arguments["audit"]
    tables = {table["id"]: len(table["rows"]) for table in summary["failures"]["tables"]}
    assert tables == {name: len(getattr(found, name)) for name in ("rules", "groups", "features")}
    cells = sorted(found.features, key=lambda cell: cell.position)
    options = summary["charts"]["features"]["options"]
    assert {option["label"]: option["columns"]["label"] for option in options} == {
        by: [cell.label for cell in cells if cell.by == by] for by in {cell.by for cell in cells}
    }
    expected = "glance groups features sizes errors intervals predictions differences"
    assert set(expected.split()) <= set(summary["charts"])


def test_the_promise_is_the_models_own_words_and_what_is_not_there_is_said(
    arguments, summary, page
):
    promised = str(arguments["model"].guarantee_).splitlines()
    assert summary["guarantee"] == {"known": True, "lines": promised}
    assert promised[0] in page
    alone = report_content(arguments["audit"])
    assert not alone["guarantee"]["known"]
    assert "made elsewhere: nothing is promised here" in render(alone)
    assert "intervals" not in alone["charts"]
    found = audit(*rows(60))
    assert "groups" not in report_content(found)["charts"]


def test_predictions_are_drawn_with_their_intervals_where_they_are_known(arguments, summary, page):
    columns, chart = columns_of(summary, "predictions"), summary["charts"]["predictions"]
    drawn, (lower, upper) = columns["row"], arguments["intervals"].T
    expected = {"predicted": arguments["y_pred"], "observed": arguments["y"]}
    for name, values in {**expected, "lower": lower, "upper": upper}.items():
        np.testing.assert_allclose(columns[name], values[drawn], rtol=1e-5, err_msg=name)
    low, high = chart["ends"]
    assert low <= min(columns["observed"]) <= max(columns["observed"]) <= high
    assert "R2 = " in page
    X, y, intervals = rows(60)
    assert "predictions" not in content_of_rows(X, y, intervals)["charts"]
    intervals[:3, 1] = np.inf
    endless = content_of_rows(X, y, intervals, y_pred=y)["charts"]["predictions"]
    assert np.isfinite(endless["ends"]).all()
    assert "Cut at the edge" in endless["note"]


@pytest.mark.parametrize("shorter", [["X"], ["y", "intervals"]])
def test_rows_that_were_not_audited_are_refused(arguments, shorter):
    given = {name: arguments[name] for name in ("X", "y", "intervals")}
    with pytest.raises(ValueError, match="pass what was audited"):
        report_content(arguments["audit"], **{**given, **{n: given[n][:50] for n in shorter}})


@cache
def both_sides(n=4_000):
    """Covered too rarely on one side, too often on the other; a slab too."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(size=n), "b": rng.uniform(size=n)})
    y = rng.normal(size=n) * np.where(X["a"] > 0.7, 2.0, 0.7)
    return audit(X, y, np.tile([-1.645, 1.645], (n, 1)), {"half": X["a"] > 0.7})


def scaled(factor, n=2_000):
    X, y, intervals = rows(n, 1)
    return audit(X, y, factor * intervals, "weather")


AUDITS = {
    "ordinary": lambda: ordinary()["audit"],
    "many": lambda: many_failures()["audit"],
    "both sides": both_sides,
    "too wide": lambda: scaled(4.0),
    "shifted": lambda: scaled(0.6),
    "few": lambda: scaled(1.0, 30),
}


def charted_parts(summary, state):
    kinds = []
    for name in ("groups", "features", "sizes"):
        for option in summary["charts"].get(name, {"options": []})["options"]:
            kinds += [name] * option["columns"]["state"].count(state)
    rules = summary["failures"]["tables"][0]["rows"]
    kinds += ["rules"] * sum(row["state"] == state for row in rules)
    return kinds + ["slab" for label in glance(summary, state) if label.startswith("Slab:")]


def glance(summary, state):
    columns = columns_of(summary, "glance")
    return [n for n, s in zip(columns["label"], columns["state"], strict=True) if s == state]


@pytest.mark.parametrize("name", ci_but(["ordinary", "both sides"], AUDITS))
def test_headline_sentences_tables_and_charts_mark_the_same_parts(name):
    found = AUDITS[name]()
    summary = report_content(found)
    figure = summary["headline"]["figures"][3]
    often = re.search(r"([\d,]+) covered too often", figure["detail"])
    said = {"under": figure["value"].split(" of ")[0], "over": often[1] if often else "0"}
    for state, number in said.items():
        marked = charted_parts(summary, state)
        assert number == f"{len(marked):,}"
        assert len(marked) == sum(one.is_under == (state == "under") for one in found.failures())
        told = summary["failures"][state]
        assert len(told["sentences"]) + told["more"] == len(marked)
        assert {one["state"] for one in told["sentences"]} <= {state}
        for table in summary["failures"]["tables"]:
            in_table = sum(row["state"] == state for row in table["rows"])
            assert in_table == marked.count(table["id"])
    red = [label for label in glance(summary, "under") if label != "All rows"]
    assert len(red) <= len(charted_parts(summary, "under"))
    assert bool(red) == bool(charted_parts(summary, "under"))


def test_no_text_from_data_becomes_markup_and_no_page_asks_for_anything(page):
    given = hostile()
    evil = render(report_content(**given))
    evil.encode("utf-8")
    (text,) = re.findall(r'type="application/json" id="charts">(.*?)</script>', evil, re.S)
    assert not set(text) & set("<>&\u2028\u2029")
    labels = {option["label"] for option in json.loads(text)["features"]["options"]}
    assert {HOSTILE, *AWKWARD[:2]} <= labels
    for one in (page, evil):
        assert one.startswith("<!doctype html>\n<html lang=")
        assert one.endswith("</html>\n")
        assert not re.search(r"\bhttps?://(?!www\.w3\.org/2000/svg)", one)
    fragments = (given["audit"]._repr_html_(), given["comparison"]._repr_html_())
    for one, n_scripts in [(page, 2), (evil, 2), *((part, 0) for part in fragments)]:
        found = Elements(one)
        assert len(found.all("script")) == n_scripts
        assert not found.all("b", "link", "img", "iframe", "object")
        names = {name for _, attributes in found.tags for name in attributes}
        assert not any(re.fullmatch("src|style|on.*", name) for name in names)
        assert one is page or any(HOSTILE in text for text in found.texts)


def test_without_jinja2_the_extra_is_named_and_a_notebook_shows_the_text(
    arguments, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"needs jinja2.* 'localconformal\[report\]'"):
        write_report(arguments["audit"], tmp_path / "a.html")
    assert list(tmp_path.iterdir()) == []
    assert arguments["audit"]._repr_html_() is None
    assert arguments["comparison"]._repr_html_() is None
    assert report_content(arguments["audit"])["title"]


def test_intervals_that_are_all_alike_and_few_rows():
    for bounds in ([-np.inf, np.inf], [-1.0, 1.0], [-1e-300, 1e300], [5.0, 6.0]):
        X, y, _ = rows(60)
        render(content_of_rows(X, y, np.tile(bounds, (60, 1)), y_pred=np.zeros(60)))
    for n in (1, 2, 30):
        X, y, intervals = rows(n)
        page = render(content_of_rows(X[["hour"]], y, intervals))
        assert "1 row lie " not in page
        assert f"{n} row" in page


def test_the_same_arguments_give_the_same_page_without_addresses_of_objects(arguments, summary):
    assert report_content(**arguments) == summary
    other = report_content(**arguments, random_state=1)
    assert other["charts"]["errors"] != summary["charts"]["errors"]
    X, y, _ = rows(600)
    model = MondrianConformalRegressor(
        LinearRegression(),
        groups=lambda X: np.asarray(X)[:, 0] > 12,
        random_state=np.random.RandomState(0),
    ).fit(X[["hour"]], y)
    page = render(report_content(audit(X[["hour"]], y, model), model=model, X=X[["hour"]], y=y))
    assert "function" in page
    assert "RandomState(MT19937)" in page
    assert not re.search(r"0x[0-9a-fA-F]{6,}", page)


def test_widths_are_explained_where_they_are_given(arguments, page):
    parts = pd.DataFrame({"<b>": [1.0, -2.0, np.nan], "other": [0.25, 0.5, np.nan]})
    found = parts.assign(base=3.0, width=[4.25, 1.5, np.inf])
    content = report_content(**arguments, explained=found)
    average, widest = content["widths"]["tables"]
    assert average["rows"] == [["<b>", "1.5"], ["other", "0.375"]]
    assert widest["rows"] == [["<b>", "1"], ["other", "0.25"]]
    assert "3 to 4.25" in content["widths"]["lines"][1]
    told = render(content)
    assert "Why intervals are wide" in told
    assert "Why intervals are wide" not in page
    assert "&lt;b&gt;" in told
    infinite = report_content(**arguments, explained=found[2:])
    assert infinite["widths"]["tables"] == []
