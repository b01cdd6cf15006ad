"""Hostile names, labels and cells through every output: shown, never obeyed."""

import base64
import hashlib
import io
import json
import os
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from hostile import (
    GROUPS,
    IDENTIFIER,
    SURROGATE,
    TARGET,
    TEXTS,
    Elements,
    call,
    files_under,
    formulas,
    harmless_table,
    hostile_table,
    obeyed,
)
from localconformal.audit import audit
from localconformal.io.tables import (
    read_table,
    write_table,
)
from localconformal.plots import plot_group_coverage
from localconformal.report import render, summarise, write_report
from localconformal.workflow.messages import json_text, visible
from registry import ci_but

QUICK = ["--method", "split", "--model", "linear"]


def run_table(table, folder, suffix, target, groups, identifier):
    """What `run` says and writes about a table in a file."""
    data = folder / f"table.{suffix}"
    table.to_csv(data, index=False) if suffix == "csv" else table.to_parquet(data)
    options = ["--target", target, "--groups", groups, "--id", identifier, "--new", data]
    result = call("run", data, *options, *QUICK, "--out", folder / "out")
    assert result.exit_code == 0, result.stderr
    return result


@pytest.fixture(scope="module", params=["csv", "parquet"])
def ran(request, tmp_path_factory):
    """A run on the hostile table: what it said, its folder, and what was there before."""
    folder = tmp_path_factory.mktemp("hostile")
    result = run_table(hostile_table(), folder, request.param, TARGET, GROUPS, IDENTIFIER)
    return result, folder / "out", folder


@pytest.fixture(scope="module")
def harmless_shape(tmp_path_factory):
    """Elements and attributes of the page of a run on the same numbers under harmless names."""
    folder = tmp_path_factory.mktemp("harmless")
    run_table(harmless_table(), folder, "csv", "target", "groups", "identifier")
    return Elements((folder / "out" / "report.html").read_text("utf-8")).shape


def assert_only_ours(page, shape):
    """No element, attribute or link comes from the data."""
    found = Elements(page)
    assert found.shape <= shape
    assert all(link.startswith("#") for link in found.links)
    assert not any(name.startswith("on") or name == "style" for _, name in shape if name)
    assert obeyed(page) <= {"\t"}


# ---- run and predict --------------------------------------------------------------------------


def test_a_page_has_the_elements_of_a_harmless_one(ran, harmless_shape):
    assert_only_ours((ran[1] / "report.html").read_text("utf-8"), harmless_shape)


def test_the_terminal_shows_and_does_not_obey(ran):
    result = ran[0]
    assert obeyed(result.stdout) == obeyed(result.stderr) == set()
    assert max(map(len, result.stdout.splitlines())) < 5_000


def test_json_files_hold_every_text_and_nothing_to_obey(ran):
    for path in ran[1].glob("*.json"):
        assert obeyed(path.read_text("utf-8")) == set()
    document = json.loads((ran[1] / "run.json").read_text("utf-8"))
    assert document["task"]["target"] == TARGET


def test_csv_has_no_formulas_and_parquet_every_text_as_it_was(ran):
    out = ran[1]
    for name in ("intervals", "new-intervals"):
        assert formulas(out / f"{name}.csv") == []
        texts = pq.read_table(out / f"{name}.parquet")[IDENTIFIER].to_pylist()
        assert set(texts) <= set(TEXTS.values())
        read = pd.read_csv(out / f"{name}.csv")
        bounds = pq.read_table(out / f"{name}.parquet")["lower"].to_pylist()
        np.testing.assert_allclose(read["lower"], bounds)


def test_nothing_is_written_outside_the_folder(ran):
    _, out, folder = ran
    names = {path.name for path in files_under(folder) - files_under(out)}
    assert names <= {"table.csv", "table.parquet"}
    assert {path.parent for path in files_under(out)} == {out}
    assert not any(os.path.exists(TEXTS[name]) for name in ("absolute path", "parent folder"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_are_as_harmless(ran, tmp_path, suffix):
    _, out, folder = ran
    data = next(folder.glob("table.*"))
    made = tmp_path / f"made.{suffix}"
    result = call("predict", out / "model.skops", data, "--out", made, "--json")
    assert result.exit_code == 0, result.stderr
    assert obeyed(result.stdout) == obeyed(result.stderr) == set()
    assert json.loads(result.stdout)["target"] == TARGET
    assert files_under(tmp_path) == {made}
    if suffix == "csv":
        assert formulas(made) == []


# ---- audit and compare ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def predictions(tmp_path_factory):
    table = hostile_table().assign(**{"=low": -2.0, "@high": 2.0})
    path = tmp_path_factory.mktemp("audit") / "table.parquet"
    table.to_parquet(path)
    return path


@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_an_audit_is_harmless(predictions, tmp_path, harmless_shape, json_too):
    bounds = ["--y", TARGET, "--lower", "=low", "--upper", "@high", "--groups", GROUPS]
    result = call("audit", predictions, *bounds, "--out", tmp_path / "out", *json_too)
    assert result.exit_code == 0, result.stderr
    assert obeyed(result.stdout) == obeyed(result.stderr) == set()
    assert ("\\u001b[31mred" if json_too else "\\x1b[31mred") in result.stdout
    assert_only_ours((tmp_path / "out" / "report.html").read_text("utf-8"), harmless_shape)
    assert obeyed((tmp_path / "out" / "audit.json").read_text("utf-8")) == set()
    assert {path.parent for path in files_under(tmp_path)} == {tmp_path / "out"}


def test_an_audit_in_a_notebook_is_harmless(predictions):
    table = read_table(predictions)
    found = audit(table, table[TARGET], table[["=low", "@high"]].to_numpy(), groups=[GROUPS])
    assert obeyed(found._repr_html_()) == set()


def test_a_comparison_is_harmless(predictions, tmp_path, harmless_shape):
    options = ["--methods", "split,madsplit", "--model", "linear", "--out", tmp_path / "out"]
    result = call("compare", predictions, "--target", TARGET, *options)
    assert result.exit_code == 0, result.stderr
    assert obeyed(result.stdout) == obeyed(result.stderr) == set()
    assert_only_ours((tmp_path / "out" / "report.html").read_text("utf-8"), harmless_shape)
    assert formulas(tmp_path / "out" / "compare.csv") == []


@pytest.mark.parametrize("name", TEXTS)
def test_an_error_about_any_name_is_one_harmless_line(predictions, tmp_path, name):
    result = call("run", predictions, "--target", TEXTS[name] + "?", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert obeyed(result.stderr) == set()
    assert len(result.stderr) < 3_000
    assert not list(tmp_path.iterdir())


# ---- the page and its policy ------------------------------------------------------------------


def awkward_audit(text):
    """An audit whose columns, groups and labels are all one text, and its rows."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({text: rng.normal(size=120), f"{text} ": np.resize([text, "b"], 120)})
    y = rng.normal(size=120) * np.where(X.iloc[:, 1] == text, 5.0, 1.0)
    intervals = np.tile([-1.6, 1.6], (120, 1))
    found = audit(X, y, intervals, groups={text: np.array(X.iloc[:, 1])})
    return {"audit": found, "X": X, "y": y, "intervals": intervals, "title": text}


@pytest.fixture(scope="module")
def plain_shape():
    return Elements(render(summarise(**awkward_audit("harmless")))).shape


#: Most texts are tried in the slow tests alone: a page takes a while.
QUICK_PAGES = ("end of script", "bidi override", "NUL", "long")


@pytest.mark.parametrize(
    "name",
    ci_but(QUICK_PAGES, TEXTS),
)
def test_each_text_alone_changes_no_page(name, plain_shape, tmp_path):
    path = write_report(**{**awkward_audit(TEXTS[name]), "path": tmp_path / "report.html"})
    assert_only_ours(path.read_text("utf-8"), plain_shape)
    assert path.stat().st_size < 3_000_000


def test_half_letters_become_signs_of_their_own_on_a_page(plain_shape):
    page = render(summarise(**{**awkward_audit("harmless"), "title": SURROGATE}))
    assert_only_ours(page, plain_shape)
    assert "half \N{REPLACEMENT CHARACTER} letter" in page


def test_the_policy_lets_through_what_is_inside_by_digest_and_nothing_else():
    page = Elements(render(summarise(**awkward_audit(TEXTS["script"]))))
    (policy,) = [
        attrs["content"]
        for tag, attrs in page.found
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    directives = dict(one.strip().split(" ", 1) for one in policy.split(";"))
    digests = {"script": set(), "style": set()}
    for tag, attrs, text in page.inside:
        if attrs.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            digests[tag].add(f"'sha256-{digest}'")
    assert {kind: len(found) for kind, found in digests.items()} == {"script": 1, "style": 1}
    assert directives == {
        "default-src": "'none'",
        "script-src": digests["script"].pop(),
        "style-src": digests["style"].pop(),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def svg_elements(text):
    """Names of the elements in a drawing of two groups, one of which is called so."""
    rng = np.random.default_rng(0)
    y, bounds = rng.normal(size=60), np.tile([-1.0, 1.0], (60, 1))
    ax, _ = plot_group_coverage(y, bounds, np.resize([text, "b"], 60))
    ax.figure.savefig(out := io.BytesIO(), format="svg")
    tree = ElementTree.fromstring(out.getvalue())
    return {node.tag.rpartition("}")[2] for node in tree.iter()}


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", ["end of script", "comment", "jinja", "mathematics", "long"])
def test_labels_of_plots_are_texts(name):
    assert svg_elements(TEXTS[name]) <= svg_elements("harmless") | {"use"}


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", ["NUL", "ANSI colour"])
def test_control_characters_in_labels_leave_an_svg_that_can_be_read(name):
    svg_elements(TEXTS[name])


# ---- the helpers ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [*TEXTS.values(), SURROGATE], ids=[*TEXTS, "surrogate"])
def test_what_is_visible_can_be_written_and_json_gives_it_back(text):
    assert obeyed(visible(text)) == set()
    visible(text).encode("utf-8")
    written = json_text({text: text})
    assert obeyed(written) == set()
    assert json.loads(written.encode("utf-8")) == {text: text}


def test_no_cell_of_a_csv_is_a_formula(tmp_path):
    names = [f"{text}" for text in TEXTS.values()]
    frame = pd.DataFrame({TEXTS["at"]: names, "kind": pd.Categorical(names), "n": -1.5})
    write_table([frame], tmp_path / "t.csv")
    assert formulas(tmp_path / "t.csv") == []


def test_a_file_whose_name_is_no_text_is_refused_in_one_harmless_line(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff\x1b[31m.csv"
    with open(path, "wb") as file:
        file.write(harmless_table().to_csv(index=False).encode())
    result = call("run", os.fsdecode(path), "--target", "target", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "rename the file" in result.stderr
    assert obeyed(result.stderr) == set()
    assert len(result.stderr.strip().splitlines()) == 1
