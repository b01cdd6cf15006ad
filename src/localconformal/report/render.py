"""The page: a summary goes in, HTML comes out."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from localconformal.report.markup import Markup, join, json_block, tag
from localconformal.report.summarise import CHARTS
from localconformal.report.tables import SHAPES, STATES, plain_table, region_table, scroll_region

SCRIPTS = ("draw.js", "charts.js", "page.js")
NO_ROWS = "Pass y and intervals to the report to see lengths, errors and a sample of intervals too."
NOWHERE = "No part is covered too rarely by more than chance."
NO_SCRIPT = "The charts need JavaScript; the tables do not."


def render(summary: dict[str, Any]) -> str:
    """One self-contained page: style, script and data are inside, and nothing else is asked for.

    Parameters
    ----------
    summary : dict
        Of `summarise`.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from localconformal.audit import audit
    >>> from localconformal.report import summarise
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.uniform(size=(200, 1)), rng.uniform(size=200)
    >>> page = render(summarise(audit(X, y, np.tile([0.05, 0.95], (200, 1))), title="a < b"))
    >>> "<title>a &lt; b</title>" in page, "https://" in page
    (True, False)
    """
    style, script = assets()
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", summary["title"]),
        tag("style", Markup(style)),
    )
    body = tag("body", *page_parts(summary), tag("script", Markup(script)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


@cache
def assets() -> tuple[str, str]:
    """Style and script."""
    folder = files("localconformal.report") / "assets"
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return style, f'"use strict";\n(() => {{\n{script}\n}})();\n'


def digest(text: str) -> str:
    """What the policy lets through: this text and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def page_parts(summary: dict[str, Any]) -> list[Markup]:
    """The body, from top to bottom."""
    sections = [section for section in all_sections(summary) if section is not None]
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in sections]
    return [
        tag("a", "Skip to the report", href="#report", class_="skip"),
        tag(
            "header",
            tag("span", "localconformal", class_="brand"),
            tag("button", "Dark mode", type="button", id="theme", aria_pressed="false"),
            class_="bar",
        ),
        tag(
            "div",
            tag("nav", tag("ul", *links), aria_label="Contents"),
            tag(
                "main",
                hero(summary),
                *(
                    tag("section", tag("h2", title), body, id=name, class_="part")
                    for name, title, body in sections
                ),
                footer(),
                id="report",
                tabindex="-1",
            ),
            class_="page",
        ),
        tag("div", id="tip", role="presentation", hidden=True),
        json_block("charts", summary["charts"]),
    ]


def all_sections(summary: dict[str, Any]) -> list[tuple[str, str, Markup] | None]:
    """(id, title, body) of each part of the page; None for what there is nothing to say of."""
    compared, found = summary["comparison"], summary["failures"]
    excess, predicted = told(found["over"]), predictions(summary)
    return [
        ("promise", "What is promised", promise(summary["guarantee"])),
        ("failures", "Where coverage fails", told(found["under"]) or tag("p", NOWHERE)),
        None if excess is None else ("excess", "Where coverage is higher than asked", excess),
        ("parts", "Every part tested", parts(found)),
        None if predicted is None else ("model", "The point predictions", predicted),
        ("charts-of-rows", "Charts", charts(summary)),
        ("slab", "The worst slab", slab(summary)),
        None if compared is None else ("methods", "Methods compared", comparison(summary)),
        ("making", "How the intervals were made", making(summary["making"])),
        ("data", "Data and versions", grid(*map(plain_table, summary["facts"]))),
        ("notes", "Notes", notes(summary["notes"])) if summary["notes"] else None,
    ]


def tight(text: str) -> str:
    """No line begins with a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def paragraphs(lines: list[str], class_: str | None = None) -> Markup:
    """Lines as paragraphs."""
    return join(*(tag("p", tight(line), class_=class_) for line in lines))


def grid(*children: str | None) -> Markup:
    """As many side by side as there is room for."""
    return tag("div", *children, class_="grid")


def notes(lines: list[str]) -> Markup:
    """Lines as a list."""
    return tag("ul", *(tag("li", line) for line in lines), class_="notes")


def hero(summary: dict[str, Any]) -> Markup:
    """Headline, verdict, figures, and coverage at a glance."""
    head = summary["headline"]
    figures = [
        tag(
            "div",
            tag("dt", figure["label"]),
            tag("dd", tag("strong", tight(figure["value"])), tag("span", tight(figure["detail"]))),
        )
        for figure in head["figures"]
    ]
    numbers = {
        "title": "All numbers",
        "columns": ["metric", "value", "how to read it"],
        "rows": summary["numbers"],
    }
    return tag(
        "section",
        tag("p", summary["title"], class_="kicker"),
        tag("h1", tight(head["text"])),
        tag("p", tight(" ".join(head["verdict"])), class_="verdict"),
        tag("dl", *figures, class_="figures"),
        chart(summary, "glance"),
        tag("details", tag("summary", "All numbers"), plain_table(numbers), class_="numbers"),
        class_="hero",
        id="headline",
    )


def promise(guarantee: dict[str, Any]) -> Markup:
    """The guarantee: its first sentence is the promise, the others are its conditions."""
    first, *others = guarantee["lines"]
    return join(
        tag("p", first, class_="promise" if guarantee["known"] else "promise none"),
        paragraphs(others, "lead"),
    )


def told(side: dict[str, Any]) -> Markup | None:
    """Parts on one side of the target, as sentences; None where there are none."""
    if not side["sentences"]:
        return None
    sentences = [
        tag("li", glyph(one["state"]), tag("span", tight(one["text"]))) for one in side["sentences"]
    ]
    more = f"{side['more']:,} more, in the tables and charts below." if side["more"] else None
    return join(
        tag("ul", *sentences, class_="rules"), tag("p", more, class_="note") if more else None
    )


def parts(found: dict[str, Any]) -> Markup:
    """Every part in tables, with one filter for all."""
    controls = tag(
        "div",
        tag("label", tag("span", "Filter"), filter_field()),
        tag("label", tag("input", type="checkbox", id="significant"), "Only beyond chance"),
        class_="controls",
    )
    lead = (
        "Each part was tested against the target. Rules were found on one half of the rows and "
        "tested on the other; p-values are adjusted for the number of tests in each table."
    )
    tables = [region_table(table, float(found["level"])) for table in found["tables"]]
    return join(tag("p", lead, class_="lead"), controls, *tables)


def predictions(summary: dict[str, Any]) -> Markup | None:
    """How good the point predictions are; None where they are not known."""
    if not summary["predictions"]:
        return None
    return join(paragraphs(summary["predictions"]), chart(summary, "predictions"))


def filter_field() -> Markup:
    """The text to filter by."""
    return tag(
        "input",
        type="search",
        id="filter",
        placeholder="a column or a label",
        autocomplete="off",
        spellcheck="false",
    )


def glyph(state: str) -> Markup:
    """A mark in a line of text."""
    return tag(
        "svg",
        tag("path", d=SHAPES[state]),
        viewBox="-7 -7 14 14",
        width="14",
        height="14",
        class_=f"mark {state}",
        role="img",
        aria_label=STATES[state],
    )


def charts(summary: dict[str, Any]) -> Markup:
    """The charts there are, and how to get those there are not."""
    drawn = [chart(summary, name) for name in CHARTS if name in summary["charts"]]
    missing = None if "intervals" in summary["charts"] else tag("p", NO_ROWS, class_="note")
    return join(tag("noscript", tag("p", NO_SCRIPT)), grid(*drawn), missing)


def chart(summary: dict[str, Any], name: str) -> Markup:
    """The place of a chart, what it shows, and the table behind it; the script draws it."""
    spec = summary["charts"][name]
    choice = chosen = None
    if len(spec["options"]) > 1:
        chosen = tag("span", f": {spec['options'][0]['label']}", class_="chosen")
        choices = [
            tag("option", option["label"], value=i) for i, option in enumerate(spec["options"])
        ]
        choice = tag("label", tag("span", spec["choose"]), tag("select", *choices), class_="choose")
    states = {state for option in spec["options"] for state in option["columns"].get("state", [])}
    legend = [tag("span", glyph(state), text) for state, text in STATES.items() if state in states]
    is_coverage = spec["kind"] == "forest" and spec["share"]
    return tag(
        "figure",
        tag("figcaption", tag("h3", spec["title"], chosen), tag("p", spec["lead"], class_="lead")),
        choice,
        tag("div", class_="plot"),
        tag("p", *legend, class_="legend") if is_coverage else None,
        tag("p", spec["note"], class_="note") if spec.get("note") else None,
        tag(
            "details",
            tag("summary", "Show as table", tag("span", f": {spec['title']}", class_="unseen")),
            scroll_region(f"{spec['title']}, as a table"),
            class_="behind",
        ),
        data_chart=name,
    )


def slab(summary: dict[str, Any]) -> Markup:
    """The worst slab: where it lies and how it covers."""
    drawn = chart(summary, "slab") if "slab" in summary["charts"] else None
    return join(paragraphs(summary["slab"]), drawn)


def comparison(summary: dict[str, Any]) -> Markup:
    """Methods side by side."""
    compared = summary["comparison"]
    drawn = [chart(summary, key) for key in ("methods", "differences") if key in summary["charts"]]
    return join(
        tag("p", compared["heading"], ".", class_="lead"),
        grid(*drawn),
        *map(plain_table, compared["tables"]),
        notes(compared["notes"]) if compared["notes"] else None,
    )


def making(facts: dict[str, Any]) -> Markup:
    """The model as it was set, and what its fit tells."""
    if facts["model"] is None:
        return tag("p", "No model was given to this report: it knows the intervals alone.")
    return join(
        scroll_region("The model", tag("pre", facts["model"])),
        grid(*map(plain_table, facts["tables"])),
    )


def footer() -> Markup:
    """How to read bands and tests."""
    return tag(
        "footer",
        tag(
            "p",
            "Bands are exact binomial 95 % bands, given the intervals; what a calibration set "
            "explains is a Beta-binomial 95 % band, over its draw and that of these rows. “Beyond "
            "chance” means that the adjusted p-value (Holm) is at most 0.05. The rows must be new "
            "to whatever made the intervals.",
        ),
    )
