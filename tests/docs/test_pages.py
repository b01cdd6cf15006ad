"""What README and pages say of names, links and figures is so; building them is left to Sphinx."""

import ast
import json
import re
from pathlib import Path

import pytest
from scipy.stats import beta

from benchmarks import capacity, measurements
from localconformal import plots
from localconformal.quantiles import conformal_rank
from test_architecture import PUBLIC

ROOT = Path(__file__).parents[2]
DOCS, EXAMPLES, RESULTS = ROOT / "docs", ROOT / "examples", ROOT / "benchmarks" / "results"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
README = ROOT / "README.md"


def blocks(path, language):
    text = path.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


RUNNING = [README, *(DOCS / f"{name}.md" for name in ("start", "trust", "coming_from"))]


@pytest.mark.ci
@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.stem)
def test_python_blocks_run_one_after_the_other(page):
    namespace = {}
    assert blocks(page, "python")
    for number, source in enumerate(blocks(page, "python"), start=1):
        exec(compile(source, f"{page.name}, python block {number}", "exec"), namespace)


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(), re.MULTILINE)
    known, public = ({one.rpartition(".")[2] for one in names} for names in (listed, PUBLIC))
    assert public | set(plots.__all__) <= known
    assert len(set(listed)) == len(listed)


def test_links_and_included_code_lead_somewhere_and_python_can_be_read():
    made_by_the_build = (DOCS / "gallery" / "index.rst").resolve()
    for path in [README, *PAGES]:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if not target.startswith(("https://", "#")):
                file = (path.parent / target.partition("#")[0]).resolve()
                assert file.is_file() or file == made_by_the_build, f"{path}: {target}"
        for source in blocks(path, "python"):
            ast.parse(source, str(path))
        included = r"literalinclude\} (\S+)\n:pyobject: (\w+)"
        for file, name in re.findall(included, path.read_text(encoding="utf-8")):
            assert f"\nclass {name}" in (path.parent / file).read_text(encoding="utf-8"), name


def test_the_command_line_page_has_every_command():
    from localconformal.cli.app import COMMANDS

    text = (DOCS / "command_line.md").read_text(encoding="utf-8")
    shown = re.findall(r"generated/help/(\w+)\.txt", text)
    assert sorted(shown) == sorted(["localconformal", *(each.__name__ for each in COMMANDS)])


def test_the_gallery_knows_every_example_and_each_opens_with_its_title():
    tree = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    (order,) = [node.value for node in assigned if node.targets[0].id == "EXAMPLES"]
    assert sorted(ast.literal_eval(order)) == [path.name for path in SCRIPTS]
    for path in SCRIPTS:
        title, rule = ast.get_docstring(ast.parse(path.read_text("utf-8"))).splitlines()[:2]
        assert rule == "=" * len(title), path


def test_no_text_refers_to_a_document_outside_the_repository():
    outside = re.compile(r"\b(?:METHODS|DESIGN|ENGINE|REDESIGN)(?:\.md|\s+\d)")
    texts = [README, ROOT / "CONTRIBUTING.md", *PAGES, *SCRIPTS]
    for folder in ("src", "tests", "benchmarks", "paper"):
        texts += (ROOT / folder).rglob("*.py")
    assert [str(path) for path in texts if outside.search(path.read_text("utf-8"))] == []


def measured(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def quality_table(heading):
    """A table of the quality benchmark as {first cell: {column: text}}."""
    text = (RESULTS / "quality.md").read_text(encoding="utf-8").partition(f"### {heading}\n")[2]
    lines = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def number(text):
    return float(text.split()[0])


def best(values, family):
    found = [v for name, v in values.items() if name.startswith(family) and "sets)" not in v]
    return min(number(value) for value in found)


def quoted():
    ours = quality_table("Against the best peer")["geometric mean"]
    peers = quality_table("Peers")["geometric mean"]
    yield "interval score", f"{number(ours['auto']):.2f} auto, {number(ours['forest']):.2f} forest"
    yield "interval score", f"{best(peers, 'mapie'):.2f} | {best(peers, 'crepes'):.2f}"
    yield "interval score", f"{number(peers['quantile-forest']):.2f} quantile forest"
    gaps = {name: row["gap"] for name, row in quality_table("Conditional coverage, known").items()}
    yield "mean gap", f"{number(gaps['auto']):.3f} auto, {number(gaps['forest']):.3f} forest"
    yield "mean gap", f"{best(gaps, 'mapie'):.3f} | {best(gaps, 'crepes'):.3f}"
    yield "mean gap", f"{number(gaps['quantile-forest']):.3f} quantile forest"
    seconds = quality_table("Groups, slabs, infinite intervals, seconds")
    costs = {name: number(row["fit s"]) for name, row in seconds.items()}
    yield "seconds to fit", f"{costs['auto']:.0f} auto, {costs['forest']:.0f} forest"
    for family in ("mapie", "crepes"):
        own = [cost for name, cost in costs.items() if name.startswith(family)]
        yield "seconds to fit", f"{min(own):.0f} to {max(own):.0f}"
    yield "seconds to fit", f"{costs['quantile-forest']:.0f} quantile forest"
    peers = measured("speed")["peers"]
    sizes = {name: f"{peer['largest_n']:,}" for name, peer in peers.items()}
    yield "most rows", f"{sizes['localconformal SLCP']}, kernel law"
    yield "most rows", f"{sizes['MAPIE CQR']} CQR, {sizes['MAPIE conditional']} conditional"
    yield "most rows", f"{sizes['crepes kNN']}, kNN difficulty"
    yield "most rows", f"{sizes['conditionalconformal']} conditionalconformal"


def test_the_readme_quotes_what_was_measured():
    lines = README.read_text(encoding="utf-8").splitlines()
    for start, cells in quoted():
        (row,) = [line for line in lines if line.startswith(f"| {start}")]
        assert f"| {cells} |" in row


def reliability_figures():
    stress, monitor = measured("stress"), measured("monitor")["quiet"]
    yield from (f"{stress['cells']} cells", f"{stress['fits']:,} fits")
    yield from (f"{count} {outcome}" for outcome, count in stress["outcomes"].items())
    yield f"{monitor['streams']:,} unchanged streams of {monitor['rows']:,} rows"
    yield f"{monitor['alarms']} false alarms"
    shares = {name: of["share_killed"] for name, of in measured("mutation")["packages"].items()}
    # Shares of mutants that tests must notice.
    core = ("quantiles", "scores", "adjustments")
    assert all(share >= (0.9 if name in core else 0.8) for name, share in shares.items())
    yield f"{100 * min(shares.values()):.0f} to {100 * max(shares.values()):.0f} %"


def test_the_page_about_reliability_says_what_was_measured():
    page = (DOCS / "reliability.md").read_text(encoding="utf-8")
    assert [words for words in reliability_figures() if words not in page] == []


@pytest.mark.parametrize("name", ["measurements", "capacity"])
def test_generated_pages_are_those_of_their_records(name):
    made = {
        "measurements": measurements.page,
        "capacity": lambda: capacity.page(*capacity.read()),
    }
    assert (RESULTS / f"{name}.md").read_text(encoding="utf-8") == made[name]()


def test_tables_of_numbers_on_pages_about_results_are_included_from_records():
    for name in ("results", "reliability", "engine"):
        text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
        cells = re.findall(r"(?<=\|) [\d.,]+(?: s| %| ms)? (?=\|)", text)
        assert cells == [], name


def test_what_is_beyond_the_measured_sizes_is_in_italics_and_by_the_formula():
    sizes = [
        {"n": n, "fit_processor_seconds": 0.75 * s, "predict_processor_seconds": 0.25 * s}
        for n, s in [(10**4, 1.0), (10**5, 20.0), (3 * 10**5, 30.0)]
    ]
    line = capacity.cells({"kernel": sizes}, 10**5, capacity.seconds, capacity.duration)
    assert line == {"rows": "100,000", "kernel": "20 s"}
    line = capacity.cells({"kernel": sizes}, 10**6, capacity.seconds, capacity.duration)
    assert line == {"rows": "1,000,000", "kernel": f"*{capacity.duration(20.0 * 20.0)}*"}


def test_the_table_of_calibration_sizes_is_that_of_the_beta_distribution():
    lines = (DOCS / "sizes.md").read_text(encoding="utf-8").splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| calibration rows"))
    for line in lines[head + 2 : lines.index("", head)]:
        n, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for tau, cell in zip((0.8, 0.9, 0.95, 0.99), cells, strict=True):
            n_rows = int(n.replace(",", ""))
            k = conformal_rank(n_rows, tau)
            ends = beta.ppf([0.025, 0.975], k, n_rows + 1 - k) if k <= n_rows else None
            told = "infinite" if ends is None else "{:.1f} to {:.1f}".format(*(100 * ends))
            assert cell == told, (n, tau)


def serving_figures():
    measured_here = measured("serving")
    for name, asked in measured_here["models"].items():
        for what in ("one row", "1000 rows", "one row, explained", "one label, on disk"):
            for who, of in asked[what].items():
                figures = [of[key] for key in ("p50_ms", "p99_ms", "per_s", "cpu_ms")]
                yield f"| {name} | {what} | {who} | {' | '.join(f'{x:.0f}' for x in figures)} |"
        yield " and ".join(f"{asked[key]['per_s']:.0f}" for key in asked if "four" in key)
    killed = measured_here["killed"]
    yield f"{killed['workers_killed']} workers were killed while {killed['labels']:,} labels"
    yield f"{killed['acknowledged_and_lost']} acknowledged ones were lost"
    for of in measured("install")["commits"].values():
        yield f"{of['wheel_kilobytes']:.0f} kB"
        yield f"{of['megabytes']:.0f} MB"


def test_the_page_about_deployment_says_what_was_measured():
    page = (DOCS / "deploy.md").read_text(encoding="utf-8")
    assert [words for words in serving_figures() if words not in page] == []
