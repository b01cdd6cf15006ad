"""What the report says, that no text breaks it, and that it stays small."""

import json
import os
import re
import time

import numpy as np
import pandas as pd
import pytest
from report_data import AWKWARD, HOSTILE, hostile, ordinary, rows

from localconformal.audit import audit
from localconformal.audit import audit as make_audit
from localconformal.report import render, summarise, write_report
from localconformal.report.markup import json_block, tag
from localconformal.report.plain import plain
from localconformal.text import say_number

LIMIT = 3_000_000


@pytest.fixture(scope="module")
def arguments():
    return ordinary()


@pytest.fixture(scope="module")
def summary(arguments):
    return summarise(**arguments)


def page_data(page):
    """The JSON that the script reads."""
    (text,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)
    return json.loads(text)


def summarise_rows(X, y, intervals, **more):
    found = make_audit(X, y, intervals)
    return summarise(found, X=X, y=y, intervals=intervals, **more)


# ---- contents ---------------------------------------------------------------------------------


def test_the_summary_is_json_and_says_the_audit(arguments, summary):
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    found = arguments["audit"].summary
    assert f"{100 * found.coverage:.1f} % of 2,000 rows" in summary["headline"]["text"]
    shown = {figure["label"]: figure["value"] for figure in summary["headline"]["figures"]}
    assert shown["Target"] == "90 %"
    assert shown["Mean length"] == say_number(found.mean_length)


def test_the_planted_failure_is_a_sentence_and_leads_the_verdict(summary):
    text = " ".join(summary["headline"]["verdict"])
    assert "snow" in text
    sentences = summary["failures"]["under"]["sentences"]
    assert any("weather = snow" in one["text"] for one in sentences)
    assert {one["state"] for one in sentences} == {"under"}


def test_every_part_of_the_audit_is_in_a_table_and_a_chart(arguments, summary):
    tables = {table["id"]: table["rows"] for table in summary["failures"]["tables"]}
    for part in ("rules", "groups", "features"):
        assert len(tables[part]) == len(getattr(arguments["audit"], part))
    features = {option["label"] for option in summary["charts"]["features"]["options"]}
    assert features == {cell.by for cell in arguments["audit"].features}
    expected = "glance groups features sizes lengths errors curve intervals slab methods"
    assert set(expected.split()) <= set(summary["charts"])


def test_parts_of_a_chart_are_in_their_order(arguments, summary):
    options = {o["label"]: o["columns"]["label"] for o in summary["charts"]["features"]["options"]}
    cells = [cell for cell in arguments["audit"].features if cell.by == "hour"]
    assert options["hour"] == [c.label for c in sorted(cells, key=lambda c: c.position)]


def test_the_histogram_counts_every_row(arguments, summary):
    columns = summary["charts"]["lengths"]["options"][0]["columns"]
    assert sum(columns["covered"]) + sum(columns["missed"]) == 2_000
    missed = 2_000 * (1 - arguments["audit"].summary.coverage)
    assert sum(columns["missed"]) == pytest.approx(missed)


def test_the_page_holds_its_parts_in_order(summary):
    page = render(summary)
    named = "promise failures parts model charts-of-rows slab methods making data notes"
    places = [page.index(f'<section id="{name}"') for name in named.split()]
    assert places == sorted(places)


def test_the_promise_is_the_models_own_words(arguments, summary):
    promised = str(arguments["model"].guarantee_).splitlines()
    assert summary["guarantee"] == {"known": True, "lines": promised}
    assert promised[0] in render(summary)


def test_without_a_model_nothing_is_promised(arguments):
    summary = summarise(arguments["audit"])
    assert not summary["guarantee"]["known"]
    assert "made elsewhere: nothing is promised here" in render(summary)
    assert "intervals" not in summary["charts"]


def test_how_the_intervals_were_made_and_from_what(summary):
    assert "SplitConformalRegressor" in summary["making"]["model"]
    titles = [table["title"] for table in summary["making"]["tables"]]
    assert titles == ["Fit: rows"]
    facts = dict(summary["facts"][0]["rows"])
    assert facts["rows audited"] == "2,000"
    assert facts["columns with missing values"] == "1"
    assert {"localconformal", "numpy", "sklearn", "pandas"} <= dict(
        summary["facts"][1]["rows"]
    ).keys()


# ---- model and methods ------------------------------------------------------------------------


def test_comparisons_are_in_per_cent_and_points(arguments, summary):
    methods, differences = summary["comparison"]["tables"]
    found = {method.name: method.summary for method in arguments["comparison"].methods}
    for name, coverage, *_ in methods["rows"]:
        assert coverage == f"{100 * found[name].coverage:.1f} %"
    assert differences["columns"][-1] == "coverage, in points"
    row = next(r for r in arguments["comparison"].paired() if r.metric == "coverage")
    assert float(differences["rows"][0][-1].split(" ")[0].replace("−", "-")) == pytest.approx(
        100 * row.difference, abs=0.1
    )
    text = " ".join(cell for table in (methods, differences) for r in table["rows"] for cell in r)
    assert not re.search(r"\de[-+−]", text)


def test_a_selection_is_shown(arguments):
    class Chosen:
        selection_ = pd.DataFrame({"law": ["forest"], "interval_score": [1.25]})

    tables = summarise(arguments["audit"], model=Chosen())["making"]["tables"]
    assert tables[0]["rows"] == [["forest", "1.25"]]


def test_a_model_is_asked_for_intervals(arguments):
    X, y = arguments["X"][["hour"]], arguments["y"]
    found = audit(X, y, arguments["model"].predict_interval(X))
    summary = summarise(found, model=arguments["model"], X=X, y=y)
    assert "intervals" in summary["charts"]


def test_the_same_arguments_give_the_same_page(arguments, summary):
    assert render(summarise(**arguments)) == render(summary)
    other = summarise(**arguments, random_state=1)
    assert other["charts"]["errors"] != summary["charts"]["errors"]


@pytest.mark.parametrize("shorter", ["y", "X"])
def test_rows_that_were_not_audited_are_refused(arguments, shorter):
    wrong = {name: arguments[name] for name in ("X", "y", "intervals")}
    for name in ("X",) if shorter == "X" else ("y", "intervals"):
        wrong[name] = wrong[name][:50]
    with pytest.raises(ValueError, match="pass what was audited"):
        summarise(arguments["audit"], **wrong)


# ---- texts from data --------------------------------------------------------------------------


def test_no_text_from_data_becomes_markup():
    page = render(summarise(**hostile()))
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "</script><b>" not in page
    assert "\u2028" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    labels = {option["label"] for option in page_data(page)["features"]["options"]}
    assert HOSTILE in labels
    page.encode("utf-8")


def test_markup_escapes_children_and_attributes():
    made = tag("p", HOSTILE, title='"><b>', hidden=True)
    assert made == (
        '<p title="&quot;&gt;&lt;b&gt;" hidden>&lt;script&gt;alert(1)&lt;/script&gt;</p>'
    )


@pytest.mark.parametrize("text", [HOSTILE, *AWKWARD, "<!--"])
def test_json_cannot_leave_its_element(text):
    inside = json_block("x", {"a": text}).removeprefix('<script type="application/json" id="x">')
    inside = inside.removesuffix("</script>")
    assert not set(inside) & set("<>&\u2028\u2029")
    assert json.loads(inside) == {"a": text}


def test_every_table_has_a_name(summary):
    tables = re.findall(r"<table[^>]*>", render(summary))
    assert len(tables) > 8
    assert all("aria-label=" in table for table in tables)


def test_the_page_forbids_all_requests(summary):
    page = render(summary)
    assert "default-src &#x27;none&#x27;" in page
    assert not re.search(r"\bhttps?://(?!www\.w3\.org/2000/svg)", page)
    assert not re.search(r"<(link|img|iframe|object)\b| src=| style=| on\w+=", page)


# ---- awkward numbers --------------------------------------------------------------------------


def test_numbers_that_json_lacks_are_texts_that_float_reads():
    values = plain([np.nan, np.inf, -np.inf, np.float32(2.0), np.int64(3)])
    assert values == ["NaN", "Infinity", "-Infinity", 2.0, 3]
    assert [type(value) for value in values[3:]] == [float, int]
    np.testing.assert_array_equal([float(v) for v in values[:3]], [np.nan, np.inf, -np.inf])


def test_infinite_and_empty_intervals_are_said():
    X, y, intervals = rows(300)
    intervals[:20] = [-np.inf, np.inf]
    intervals[20:30, 1] = np.inf
    intervals[30:40] = [1.0, -1.0]
    summary = summarise_rows(X, y, intervals)
    length = summary["headline"]["figures"][2]
    assert length["value"] == "∞"
    assert "10 % are infinite" in length["detail"]
    assert "infinite bounds are left out" in summary["charts"]["lengths"]["note"]
    assert any("empty" in note for note in summary["notes"])
    render(summary)


@pytest.mark.parametrize("bounds", [[-np.inf, np.inf], [-1.0, 1.0], [-1e-300, 1e300], [5.0, 6.0]])
def test_intervals_that_are_all_alike(bounds):
    X, y, _ = rows(60)
    summary = summarise_rows(X, y, np.tile(bounds, (60, 1)))
    assert "lengths" not in summary["charts"]
    render(summary)


def test_intervals_of_one_length_are_not_sorted_by_rounding():
    centre = np.random.default_rng(0).gamma(1.0, 100.0, 100)
    intervals = np.stack([centre - 126.7, centre + 126.7], axis=1)
    chart = summarise_rows(centre[:, None], centre + 1, intervals)["charts"]["intervals"]
    assert chart["options"][0]["columns"]["row"] == list(range(100))
    assert chart["title"] == "Intervals, all of one length"
    assert chart["order"] == "rows, as they came"


@pytest.mark.parametrize(
    ("n_endless", "said"),
    [
        (1, "1 row with an infinite bound has no centre, and is seen from y."),
        (2, "2 rows with infinite bounds have no centre, and are seen from y."),
    ],
)
def test_rows_without_a_centre_are_said(n_endless, said):
    X, y, intervals = rows(100)
    intervals[:n_endless, 1] = np.inf
    charts = summarise_rows(X, y, intervals)["charts"]
    assert said in charts["intervals"]["note"]
    assert "left out" in charts["errors"]["note"]


def test_one_row_stands_at_the_edge_and_several_stand_there():
    for n, said in ((150, "1 row beyond the axes stands"), (2_000, "rows beyond the axes stand")):
        X, y, _ = rows(n)
        chart = summarise_rows(X, y, np.tile([-2.0, 2.0], (n, 1)))["charts"]["errors"]
        assert f"{said} at their edge." in chart["note"]


def test_a_long_name_keeps_its_condition():
    X, y, intervals = rows(2_000)
    name = "a column of a very long name " * 10
    X = X.rename(columns={"hour": name})[[name, "weather"]]
    summary = summarise_rows(X, y, intervals)
    texts = [row["text"] for row in summary["failures"]["tables"][2]["rows"]]
    long = [text for text in texts if "weather" not in text]
    assert len(set(long)) == len(long) > 5
    assert all(re.search(r"(<=|>|=) \d+$", text) for text in long)
    glance = summary["charts"]["glance"]["options"][0]["columns"]["label"]
    assert any(label.startswith("Rule: ") and re.search(r"\d|snow", label) for label in glance)


def test_the_worst_slab_is_in_the_units_of_its_column():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"hour": rng.integers(0, 24, 4_000)})
    y = rng.normal(size=4_000) * np.where(X["hour"].isin([17, 18, 19]), 4.0, 1.0)
    summary = summarise_rows(X, y, np.tile([-1.645, 1.645], (4_000, 1)))
    assert "hour 17 to 19" in summary["slab"][0]
    assert "standard deviations" not in " ".join(summary["slab"])


@pytest.mark.parametrize("n", [1, 2, 30])
def test_few_rows(n):
    X, y, intervals = rows(n)
    page = render(summarise_rows(X[["hour"]], y, intervals))
    assert "1 row lie " not in page
    assert f"{n} row" in page


# ---- size and file ----------------------------------------------------------------------------


def test_a_million_rows_stay_small_and_the_samples_are_said():
    n = 1_000_000
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    intervals = rng.uniform(1, 2, n)[:, None] * np.array([-1.5, 1.5])
    # The audit of fewer rows with the same coverage: here only the report is looked at.
    found = audit(X[:2_000], y[:2_000], intervals[:2_000])
    object.__setattr__(found.summary, "n", n)
    share = float(np.mean((intervals[:, 0] <= y) & (y <= intervals[:, 1])))
    object.__setattr__(found.summary, "coverage", share)
    start = time.perf_counter()
    summary = summarise(found, X=X, y=y, intervals=intervals)
    assert time.perf_counter() - start < 20
    assert len(render(summary).encode()) < LIMIT / 10
    assert "1,500 of 1,000,000 rows, drawn at random" in summary["charts"]["errors"]["note"]


def test_many_hostile_columns_stay_under_three_megabytes():
    rng = np.random.default_rng(0)
    n = 400
    names = [f"{i}{'<&>' * 80}" for i in range(700)]
    X = pd.DataFrame(rng.normal(size=(n, 700)).round(3), columns=names)
    y = rng.normal(size=n)
    groups = {f"{k}{'<' * 300}": [f"{i}{'&' * 300}" for i in range(n)] for k in range(3)}
    found = audit(X[names[:2]], y, np.tile([-1.6, 1.6], (n, 1)), groups=groups)
    cell = found.features[0]
    cells = tuple(
        type(cell)(**{**vars(cell), "by": name, "text": name * 2, "label": name * 2, "position": i})
        for name in names
        for i in range(20)
    )
    object.__setattr__(found, "features", cells)
    object.__setattr__(found, "notes", tuple(names) * 5)
    summary = summarise(found, X=X, y=y, intervals=np.tile([-1.6, 1.6], (n, 1)))
    page = render(summary)
    assert len(page.encode()) < LIMIT
    assert "can be chosen" in page
    assert "are not on this page" in page


def test_the_file_is_whole_or_not_there(arguments, tmp_path, monkeypatch):
    path = write_report(arguments["audit"], tmp_path / "a.html")
    assert path == tmp_path / "a.html"
    assert path.read_text(encoding="utf-8") == render(summarise(arguments["audit"]))
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_report(arguments["audit"], path, title="another")
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]
