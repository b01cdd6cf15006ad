"""Hostile names, labels and cells through every output: shown, never obeyed."""

import base64
import csv
import hashlib
import json
import os
import re
import unicodedata
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from localconformal.audit import audit
from localconformal.cli.app import app
from localconformal.report import write_report
from localconformal.text import json_text, visible

#: What is tried -> a text that tries it; all of them can stand in a CSV file.
TEXTS = {
    "script": "<script>alert(1)</script>",
    "image": '"><img src=x onerror=alert(1)>',
    "attribute": "' onmouseover='alert(1)",
    "end of script": "</script><svg onload=alert(1)>",
    "comment": "<!--",
    "Markdown table": "a | b\\|`c`",
    "rich markup": "[bold red]x[/bold red][link=http://x.invalid]y[/link]",
    "formula": "=cmd|'/C calc'!A0",
    "tab": "\t=1+1",
    "line break": "\n=1+1",
    "parent folder": "../../../outside",
    "absolute path": "/tmp/outside",
    "NUL": "a\x00b",
    "bidi override": "\u202efdp.exe\u202c",
    "ANSI colour": "\x1b[31mred\x1b[0m",
    "C1 control": "\x9b31m",
    "delete": "a\x7f\x08b",
    "line separator": "a\u2028b\u2029c",
    "jinja": "{{ 7 * 7 }}{% raw %}",
    "mathematics": "$\\frac$ \\$x_1",
    "long": "long " * 20_000,
}
SURROGATE = "half \ud800 letter"
TARGET, GROUPS, IDENTIFIER = "=target<b>\x1b[2J", TEXTS["script"], TEXTS["formula"]
LABELS = [TEXTS[name] for name in ("image", "ANSI colour", "bidi override", "long", "formula")]
QUICK = ["--method", "split", "--model", "linear"]


def table_of(texts, labels, groups, identifier, target, n=240, seed=0):
    """Names of columns, categories, cells and names of rows from texts; two labels are noisy."""
    rng = np.random.default_rng(seed)
    # Every third text names a column: an audit of more takes long.
    table = pd.DataFrame({f"{text}#": rng.normal(size=n) for text in texts[::3]})
    table[groups] = np.resize(labels, n)
    table[identifier] = np.resize(texts, n)
    scale = np.where(table[groups].isin(labels[1:3]), 8.0, 1.0)
    table[target] = table.iloc[:, 0] + scale * rng.normal(size=n)
    return table


HOSTILE = table_of(list(TEXTS.values()), LABELS, GROUPS, IDENTIFIER, TARGET)


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def obeyed(text):
    """Characters of an output that a terminal or a reader would obey, line breaks apart."""
    turning = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    kinds = {"Cc", "Cs", "Zl", "Zp"}
    return {c for c in text if (unicodedata.category(c) in kinds and c != "\n") or c in turning}


def assert_harmless(result, exit_code=0):
    assert result.exit_code == exit_code, result.stderr
    assert obeyed(result.stdout) == obeyed(result.stderr) == set()


def assert_refused(result):
    assert_harmless(result, exit_code=2)
    assert len(result.stderr.strip().splitlines()) == 1
    assert len(result.stderr) < 3_000


def formulas(path):
    """Cells of a CSV file that a spreadsheet would run; numbers are none."""
    with path.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    begins = re.compile(r" *[=+\-@\t\r\n＝＋－＠](?![\d.]+(e[+-]\d+)?$|inf$)")
    return [cell for cell in cells if begins.match(cell)]


def files_under(folder):
    return {path for path in folder.rglob("*") if path.is_file()}


class Elements(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found, self.inside = [], []
        self.feed(page)
        self.close()
        self.shape = {(tag, name) for tag, attrs in self.found for name in (None, *attrs)}

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.cdata_elem:
            self.inside[-1][2] += data


def assert_only_ours(path, shape):
    page = path.read_text("utf-8")
    found = Elements(page)
    assert found.shape <= shape
    links = [attrs[key] for _, attrs in found.found for key in ("href", "src") if key in attrs]
    assert all(link.startswith("#") for link in links)
    assert not any(name.startswith("on") or name == "style" for _, name in shape if name)
    assert obeyed(page) <= {"\t"}
    assert len(page) < 3_000_000


def run_table(table, folder, suffix, target, groups, identifier):
    data = folder / f"table.{suffix}"
    table.to_csv(data, index=False) if suffix == "csv" else table.to_parquet(data)
    options = ["--target", target, "--groups", groups, "--id", identifier, "--new", data]
    result = call("run", data, *options, *QUICK, "--out", folder / "out")
    assert_harmless(result)
    return result, folder


@pytest.fixture(scope="module", params=["csv", "parquet"])
def ran(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    return run_table(HOSTILE, folder, request.param, TARGET, GROUPS, IDENTIFIER)


@pytest.fixture(scope="module")
def harmless_shape(tmp_path_factory):
    folder, names = tmp_path_factory.mktemp("harmless"), ("target", "groups", "identifier")
    texts = [f"t{i}" for i in range(len(TEXTS))]
    run_table(table_of(texts, list("abcde"), *names[1:], names[0]), folder, "csv", *names)
    return Elements((folder / "out" / "report.html").read_text("utf-8")).shape


@pytest.mark.ci
def test_a_run_shows_every_text_and_obeys_none(ran, harmless_shape):
    result, folder = ran
    out = folder / "out"
    assert_only_ours(out / "report.html", harmless_shape)
    assert max(map(len, result.stdout.splitlines())) < 5_000
    for path in out.glob("*.json"):
        assert obeyed(path.read_text("utf-8")) == set()
    assert json.loads((out / "run.json").read_text("utf-8"))["task"]["target"] == TARGET
    for name in ("intervals", "new-intervals"):
        assert formulas(out / f"{name}.csv") == []
        stored = pq.read_table(out / f"{name}.parquet")
        assert set(stored[IDENTIFIER].to_pylist()) <= set(TEXTS.values())
        lower = pd.read_csv(out / f"{name}.csv")["lower"]
        np.testing.assert_allclose(lower, stored["lower"].to_pylist())
    assert len(files_under(folder) - files_under(out)) == 1
    assert {path.parent for path in files_under(out)} == {out}
    assert not any(os.path.exists(TEXTS[name]) for name in ("absolute path", "parent folder"))


@pytest.mark.ci
def test_predictions_are_as_harmless(ran, tmp_path):
    folder, made = ran[1], tmp_path / "made.csv"
    data = next(folder.glob("table.*"))
    result = call("predict", folder / "out" / "model.skops", data, "--out", made, "--json")
    assert_harmless(result)
    assert (json.loads(result.stdout)["target"], files_under(tmp_path)) == (TARGET, {made})
    assert formulas(made) == []


@pytest.mark.ci
def test_audits_comparisons_and_errors_are_as_harmless(tmp_path, harmless_shape):
    data, out = tmp_path / "table.parquet", tmp_path / "out"
    table = HOSTILE.assign(**{"=low": -2.0, "@high": 2.0})
    table.to_parquet(data)
    for text in TEXTS.values():
        assert_refused(call("run", data, "-t", text + "?", "--out", out))
    assert files_under(tmp_path) == {data}
    bounds = ["--y", TARGET, "--lower", "=low", "--upper", "@high", "--groups", GROUPS]
    for more in ([], ["--json"]):
        result = call("audit", data, *bounds, "--out", out, *more)
        assert_harmless(result)
        assert "\\x1b[31mred" in result.stdout
    assert_only_ours(out / "report.html", harmless_shape)
    assert obeyed((out / "audit.json").read_text("utf-8")) == set()
    found = audit(table, table[TARGET], table[["=low", "@high"]].to_numpy(), groups=[GROUPS])
    assert obeyed(found._repr_html_()) == set()
    options = ["--methods", "split,madsplit", "--model", "linear", "--out", out]
    assert_harmless(call("compare", data, "--target", TARGET, *options))
    assert_only_ours(out / "report.html", harmless_shape)
    assert formulas(out / "compare.csv") == []
    assert {path.parent for path in files_under(tmp_path) - {data}} == {out}


def test_a_file_whose_name_is_no_text_is_refused_in_one_harmless_line(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\x1b[31m.csv"
    with open(path, "wb") as file:
        file.write(b"x,y\n" + b"1,2\n" * 50)
    result = call("run", os.fsdecode(path), "--target", "y", "--out", tmp_path / "out")
    assert_refused(result)
    assert "rename the file" in result.stderr


def page_of(text, path):
    """Elements of the page of an audit whose columns, groups, labels and title are one text."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({text: rng.normal(size=120), f"{text} ": np.resize([text, "b"], 120)})
    y = rng.normal(size=120) * np.where(X.iloc[:, 1] == text, 5.0, 1.0)
    intervals = np.tile([-1.6, 1.6], (120, 1))
    found = audit(X, y, intervals, groups={text: np.array(X.iloc[:, 1])})
    write_report(found, path, X=X, y=y, intervals=intervals, title=text)
    return Elements(path.read_text("utf-8"))


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("end of script", "NUL") else pytest.param(name, marks=pytest.mark.nightly)
        for name in TEXTS
    ],
)
def test_each_text_alone_changes_no_page(name, tmp_path):
    path = tmp_path / "report.html"
    shape = page_of("harmless", path).shape
    page_of(TEXTS[name], path)
    assert_only_ours(path, shape)


def test_the_policy_lets_through_what_is_inside_by_digest_and_nothing_else(tmp_path):
    page = page_of(TEXTS["script"], tmp_path / "report.html")
    named = {attrs.get("http-equiv"): attrs.get("content") for _, attrs in page.found}
    policy = named["Content-Security-Policy"]
    directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    digests = {
        f"{tag}-src": base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for tag, attrs, text in page.inside
        if attrs.get("type") != "application/json"
    }
    expected = {name: f"'sha256-{digest}'" for name, digest in digests.items()}
    nothing = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert (directives, len(expected)) == (expected | nothing, 2)


def test_what_is_visible_can_be_written_and_json_gives_it_back(tmp_path):
    for text in (*TEXTS.values(), SURROGATE):
        assert obeyed(visible(text)) == set()
        visible(text).encode("utf-8")
        written = json_text({text: text})
        assert (obeyed(written), json.loads(written.encode("utf-8"))) == (set(), {text: text})
    found = audit(np.arange(60.0)[:, None], np.zeros(60), np.tile([-1.0, 1.0], (60, 1)))
    page = write_report(found, tmp_path / "report.html", title=SURROGATE).read_text("utf-8")
    assert "half \N{REPLACEMENT CHARACTER} letter" in page
