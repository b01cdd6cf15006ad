"""What the pages say of names, links and figures is so; building them is left to Sphinx."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import localconformal
from localconformal import plots

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES, RESULTS = ROOT / "docs", ROOT / "examples", ROOT / "benchmarks" / "results"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def python_of(path):
    """The Python blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def public_names():
    """Classes and functions of `__all__`, and those of the modules in it and of the plots."""
    for name in localconformal.__all__:
        value = getattr(localconformal, name)
        if not inspect.ismodule(value):
            yield name
            continue
        for inner in getattr(value, "__all__", vars(value)):
            member = getattr(value, inner)
            ours = getattr(member, "__module__", "").startswith("localconformal")
            if ours and not inner.startswith("_") and callable(member):
                yield inner
    yield from plots.__all__


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(), re.MULTILINE)
    assert set(public_names()) <= {name.rpartition(".")[2] for name in listed}
    assert len(set(listed)) == len(listed)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(path):
    made_by_the_build = {(DOCS / "gallery" / "index.rst").resolve()}
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith(("https://", "#")):
            file = (path.parent / target.partition("#")[0]).resolve()
            assert file.is_file() or file in made_by_the_build, target


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_python_on_the_pages_can_be_read(path):
    for source in python_of(path):
        ast.parse(source)


def test_code_that_is_included_exists():
    text = (DOCS / "extending.md").read_text(encoding="utf-8")
    included = re.findall(r"literalinclude\} (\S+)\n:pyobject: (\w+)", text)
    assert included
    for path, name in included:
        tree = ast.parse((DOCS / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}


def test_the_command_line_page_has_every_command():
    from localconformal.cli.app import COMMANDS

    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    shown = re.findall(r"generated/help/(\w+)\.txt", text)
    assert sorted(shown) == sorted(["localconformal", *(each.__name__ for each in COMMANDS)])


def order_of_examples():
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "EXAMPLES":
            return ast.literal_eval(node.value)
    raise AssertionError("docs/conf.py has no EXAMPLES")


def test_the_gallery_knows_every_example():
    assert sorted(order_of_examples()) == [path.name for path in SCRIPTS]


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_an_example_opens_with_its_title(path):
    title, rule = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[:2]
    assert rule == "=" * len(title)


def check_links(folder):
    command = [sys.executable, str(DOCS / "check_links.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_link_checker_tells_good_from_bad(tmp_path):
    page = '<a href="other.html#here">1</a> <a href="https://example.org/x">2</a> {}'
    (tmp_path / "other.html").write_text('<p id="here"><a href="#here"></a><img src="a%20b.png">')
    (tmp_path / "a b.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(page.format(""))
    assert check_links(tmp_path).returncode == 0
    bad = '<a href="none.html">3</a> <a href="other.html#nowhere">4</a>'
    (tmp_path / "index.html").write_text(page.format(bad))
    found = check_links(tmp_path)
    assert found.returncode == 1
    assert found.stderr.splitlines() == [
        "index.html: no file none.html",
        "index.html: no place other.html#nowhere",
    ]
    assert "index.html was expected" in check_links(tmp_path / "nothing").stderr


def cells_of_names():
    """Rows (MAPIE, crepes, ours) of the table of names."""
    text = (EXAMPLES / "plot_moving.py").read_text(encoding="utf-8").partition("list-table::")[2]
    rows = re.split(r"^#    \* -", text, flags=re.MULTILINE)[2:]
    return [re.split(r"^#      -", row, flags=re.MULTILINE) for row in rows]


def identifiers(cell):
    spans = re.findall(r"``(.*?)``", cell, re.DOTALL)
    return {name for span in spans for name in re.findall(r"[A-Za-z_]\w{2,}", span)}


def words_of(*namespaces):
    """Names that modules hold, with the methods and arguments of what they hold."""
    known = {"True", "None"}
    for namespace in namespaces:
        for name, value in vars(namespace).items():
            known.add(name)
            for method, function in vars(value).items() if inspect.isclass(value) else ():
                known.add(method)
                if inspect.isfunction(function):
                    known.update(inspect.signature(function).parameters)
    return known


def test_names_of_the_peers_exist():
    import crepes
    import crepes.extras
    import mapie.conformity_scores
    import mapie.metrics.regression
    import mapie.regression

    theirs = (
        words_of(mapie.regression, mapie.conformity_scores, mapie.metrics.regression),
        words_of(crepes, crepes.extras),
    )
    rows = cells_of_names()
    assert len(rows) > 10
    assert {len(row) for row in rows} == {3}
    for row in rows:
        for cell, known in zip(row, theirs, strict=False):
            assert identifiers(cell) <= known


def quality_table(heading):
    """A table of the quality benchmark as {first cell: {column: text}}."""
    text = (RESULTS / "quality.md").read_text(encoding="utf-8").partition(f"### {heading}\n")[2]
    lines = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def number(text):
    return float(text.split()[0])


def readme_row(start):
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {start}")]
    return row


def best(values, family):
    """The best figure of a package's configurations that finished on every set."""
    found = [v for name, v in values.items() if name.startswith(family) and "sets)" not in v]
    return min(number(value) for value in found)


def test_the_readme_quotes_the_interval_scores():
    ours = quality_table("Against the best peer")["geometric mean"]
    peers = quality_table("Peers")["geometric mean"]
    row = readme_row("interval score")
    assert f"| {number(ours['auto']):.2f} auto, {number(ours['forest']):.2f} forest |" in row
    assert f"| {best(peers, 'mapie'):.2f} | {best(peers, 'crepes'):.2f} |" in row
    assert f"| {number(peers['quantile-forest']):.2f} quantile forest |" in row


def test_the_readme_quotes_the_conditional_gaps():
    gaps = {name: row["gap"] for name, row in quality_table("Conditional coverage, known").items()}
    row = readme_row("mean gap")
    assert f"| {number(gaps['auto']):.3f} auto, {number(gaps['forest']):.3f} forest |" in row
    assert f"| {best(gaps, 'mapie'):.3f} | {best(gaps, 'crepes'):.3f} |" in row
    assert f"| {number(gaps['quantile-forest']):.3f} quantile forest |" in row


def test_the_readme_quotes_the_seconds_of_a_fit():
    costs = {
        name: number(row["fit s"])
        for name, row in quality_table("Groups, slabs, infinite intervals, seconds").items()
    }
    row = readme_row("seconds to fit")
    assert f"| {costs['auto']:.0f} auto, {costs['forest']:.0f} forest |" in row
    for family in ("mapie", "crepes"):
        own = [cost for name, cost in costs.items() if name.startswith(family)]
        assert f"| {min(own):.0f} to {max(own):.0f} |" in row
    assert f"| {costs['quantile-forest']:.0f} quantile forest |" in row


def test_the_readme_quotes_the_sizes():
    measured = json.loads((RESULTS / "speed.json").read_text(encoding="utf-8"))["peers"]
    sizes = {name: f"{peer['largest_n']:,}" for name, peer in measured.items()}
    row = readme_row("most rows")
    assert f"| {sizes['localconformal SLCP']}, kernel law |" in row
    assert f"| {sizes['MAPIE CQR']} CQR, {sizes['MAPIE conditional']} conditional |" in row
    assert f"| {sizes['crepes kNN']}, kNN difficulty |" in row
    assert f"| {sizes['conditionalconformal']} conditionalconformal |" in row


def test_no_text_refers_to_a_document_outside_the_repository():
    outside = re.compile(r"\b(?:METHODS|DESIGN|ENGINE|REDESIGN)(?:\.md|\s+\d)")
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *SCRIPTS]
    for folder in ("src", "tests", "benchmarks"):
        texts += (ROOT / folder).rglob("*.py")
    assert [name_of(path) for path in texts if outside.search(path.read_text("utf-8"))] == []
