"""The page of claims as Markdown and as HTML."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localconformal.experiments.claims_checks import Check, Finding, count
from localconformal.experiments.claims_results import Results
from localconformal.experiments.experiment import Row
from localconformal.experiments.paper import table1
from localconformal.experiments.registry import experiment_names, load_experiment
from localconformal.experiments.render import markdown_table, verdict_counts
from localconformal.report.markup import Markup, tag
from localconformal.report.render import assets, digest, paragraphs
from localconformal.report.tables import plain_table

if TYPE_CHECKING:
    from localconformal.experiments.claims import Claim

Found = list[tuple["Claim", Finding]]

TITLE = "What holds in the SLCP paper"
PAPER = "Han, Tang, Ghosh and Liu, Split Localized Conformal Prediction, arXiv:2206.13092"
OVERVIEW, TABLES = "The claims", "Every table and figure"
ABOUT_TABLES = (
    "Lines of each table by verdict. Many are coverages near 90 %, which any valid method gives: "
    "that they are reproduced says little."
)


def introduction(results: Results) -> list[str]:
    """What the page rests on."""
    preset = results.preset
    rows = "all rows" if preset.max_rows is None else f"at most {preset.max_rows:,} rows"
    small = " This preset only checks that everything runs: it judges nothing."
    stand_ins = [name for name in table1.REAL if name not in table1.EXACT]
    return [
        f"{PAPER}: what it claims, and what came out when its experiments were run again with "
        "this library. SLCP here is the paper's Algorithm 1 with its Gaussian kernel and median "
        "bandwidth. SLCP-auto is this library's defaults: a mean model, residuals out of fold, and "
        'a law chosen on training rows (law="auto"); the first claim says what each of these '
        "changes alone.",
        f"Preset {preset.name}: {preset.repeats} repeats unless a line says otherwise, {rows} of a "
        f"real data set, {preset.simulated_rows:,} of a simulation to train on. Four data sets of "
        f"the paper are not to be had; {', '.join(stand_ins)} stand in for them, and are kept out "
        "of verdicts on lengths. Every number is computed from the stored rows.",
        "± is a standard error over repeats. A comparison is decided where chance would do so in "
        "at most 5 % of the cases for all comparisons of a claim together (Student's t, Holm's "
        "rule), so that few repeats decide large and steady differences only. A method that leaves "
        "intervals infinite is not counted as shorter. A claim holds if "
        "every comparison is for it, and in part if most are; it does not hold if as many are "
        "against it as for it, and a claim to be the best or to hold always not if any is."
        + (small if preset.only_runs else ""),
    ]


def overview_rows(found: Found) -> list[Row]:
    """Claims with their verdicts, and how many comparisons are for and against them."""
    return [
        {"claim": claim.title, "verdict": one.verdict, **count(one.checks)} for claim, one in found
    ]


def statement(claim: Claim) -> list[str]:
    """What is claimed, and how it was put to the test."""
    return [f"The paper says: {claim.said}", f"What was measured: {claim.tested}"]


def check_rows(checks: list[Check]) -> list[Row]:
    """Comparisons as rows to read."""
    return [
        {
            "where": check.where,
            "what": check.what,
            # A sign only where it is one of a difference.
            "ours": f"{check.ours.value:{'' if check.bound == 1.0 else '+'}.3f}",
            "standard error": "" if check.ours.error is None else f"{check.ours.error:.3f}",
            "says": check.outcome,
        }
        for check in checks
    ]


def table_rows(results: Results) -> list[Row]:
    """Experiments with their numbers of verdicts."""
    rows = []
    for name in experiment_names():
        output = results.output(name)
        counts: dict[str, Any] = verdict_counts(output.lines if output else [])
        shown = counts if output else dict.fromkeys(counts, "not run")
        rows.append({"experiment": name, "what": load_experiment(name).title, **shown})
    return rows


def markdown_page(results: Results, found: Found) -> str:
    """The page for the documentation."""
    parts = [f"# {TITLE}\n", *(f"{line}\n" for line in introduction(results))]
    parts.append(f"## {OVERVIEW}\n\n{markdown_table(overview_rows(found))}")
    for claim, one in found:
        parts.append(f"## {claim.title}\n\n**{one.verdict.capitalize()}.**\n")
        parts += [f"{line}\n" for line in statement(claim)]
        parts += ["".join(f"- {sentence}\n" for sentence in one.sentences)] * bool(one.sentences)
        parts += [markdown_table(check_rows(one.checks))] * bool(one.checks)
    parts.append(f"## {TABLES}\n\n{ABOUT_TABLES}\n\n{markdown_table(table_rows(results))}")
    return "\n".join(parts)


def html_page(results: Results, found: Found) -> str:
    """One page with its style inside; nothing else is asked for, and no script runs."""
    style = assets()[0]
    policy = f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", TITLE),
        tag("style", Markup(style)),
    )
    sections = [
        section("overview", OVERVIEW, html_table("Verdicts", overview_rows(found))),
        *(claim_section(number, *one) for number, one in enumerate(found, 1)),
        section(
            "tables",
            TABLES,
            paragraphs([ABOUT_TABLES]),
            html_table("Lines by verdict", table_rows(results)),
        ),
    ]
    titles = {"overview": OVERVIEW}
    titles |= {f"claim-{number}": claim.title for number, (claim, _) in enumerate(found, 1)}
    titles["tables"] = TABLES
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title in titles.items()]
    body = tag(
        "body",
        tag("header", tag("span", "localconformal", class_="brand"), class_="bar"),
        tag(
            "div",
            tag("nav", tag("ul", *links), aria_label="Contents"),
            tag("main", tag("h1", TITLE), paragraphs(introduction(results)), *sections),
            class_="page",
        ),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def claim_section(number: int, claim: Claim, one: Finding) -> Markup:
    """A claim with its verdict first."""
    return section(
        f"claim-{number}",
        claim.title,
        tag("p", f"{one.verdict.capitalize()}.", class_="verdict"),
        paragraphs(statement(claim)),
        tag("ul", *(tag("li", sentence) for sentence in one.sentences), class_="notes")
        if one.sentences
        else None,
        html_table("Comparisons", check_rows(one.checks)),
    )


def section(name: str, title: str, *children: str | None) -> Markup:
    """A part of the page with a heading to link to."""
    return tag("section", tag("h2", title), *children, id=name, class_="part")


def html_table(title: str, rows: list[Row]) -> Markup | None:
    """Rows of texts and counts; None for none."""
    columns = list(rows[0]) if rows else []
    cells = [[str(row[name]) for name in columns] for row in rows]
    return plain_table({"title": title, "columns": columns, "rows": cells})


#: Ending of the file's name -> (results, findings) -> text.
PAGES: dict[str, Callable[[Results, Found], str]] = {".md": markdown_page, ".html": html_page}
