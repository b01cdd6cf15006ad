"""Tables of the page."""

from __future__ import annotations

from typing import Any

from localconformal.audit.sentences import probability
from localconformal.report.markup import Markup, join, tag
from localconformal.report.plain import typeset
from localconformal.text import say_number, say_share

#: Marks told apart by shape as well as by colour.
SHAPES = {
    "under": "M-5,-4.2L5,-4.2L0,5Z",
    "over": "M-5,4.2L5,4.2L0,-5Z",
    "within": "M4,0A4,4 0 1 1 -4,0A4,4 0 1 1 4,0Z",
}
STATES = {"under": "below the target", "over": "above the target", "within": "within chance"}
#: Column, whether it is a number.
REGION_COLUMNS = (
    ("Which rows", False),
    ("Rows", True),
    ("Coverage, 95 % band", True),
    ("Gap", True),
    ("Mean length", True),
    ("Adjusted p", True),
)
BAND_WIDTH, BAND_HEIGHT = 150, 16


def scroll_region(name: str, *children: str | None) -> Markup:
    """What may be wider than a phone scrolls by itself, also with the keyboard."""
    return tag("div", *children, class_="scroll", tabindex="0", role="region", aria_label=name)


def plain_table(table: dict[str, Any]) -> Markup | None:
    """A table of texts under its title; the first column names the row."""
    if not table["rows"]:
        return None
    head = [tag("th", name, scope="col") for name in table["columns"]]
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", text) for text in row[1:]))
        for row in table["rows"]
    ]
    parts = tag("thead", tag("tr", *head)), tag("tbody", *body)
    made = tag("table", *parts, aria_label=table["title"])
    title = tag("h3", table["title"])
    return tag("div", title, scroll_region(table["title"], made), class_="plain-table")


def region_table(table: dict[str, Any], level: float) -> Markup:
    """One family of tests: to be sorted by any column, and filtered."""
    title = tag("h3", table["title"])
    said = tag("p", f"{table['text'][:1].upper()}{table['text'][1:].rstrip('.')}.", class_="lead")
    if not table["rows"]:
        return tag("section", title, said)
    low = min(float(row["lower"]) for row in table["rows"])
    head = [
        tag("th", tag("button", name, type="button"), scope="col", class_="n" if numeric else None)
        for name, numeric in REGION_COLUMNS
    ]
    body = [region_row(row, level, min(low, level - 0.05)) for row in table["rows"]]
    parts = tag("thead", tag("tr", *head)), tag("tbody", *body)
    made = tag("table", *parts, class_="regions", aria_label=table["title"])
    left = table["left_out"]
    more = f"{left:,} more, less significant, are not on this page."
    return tag(
        "section",
        title,
        said,
        scroll_region(table["title"], made),
        tag(
            "p",
            tag("span", class_="count", aria_live="polite"),
            tag("span", class_="printed"),
            class_="tally",
        ),
        tag("p", more, class_="note") if left else None,
        data_regions=table["id"],
    )


def region_row(row: dict[str, Any], level: float, low: float) -> Markup:
    """One rule, group or bin, with the values to sort by."""
    coverage, lower, upper = (float(row[name]) for name in ("coverage", "lower", "upper"))
    length, p_value = float(row["mean_length"]), float(row["adjusted_p_value"])
    shown = join(
        tag("span", say_share(coverage), class_="share"),
        tag("span", f"{100 * lower:.1f} to {100 * upper:.1f}", class_="band"),
        band_picture(row, level, low),
    )
    gap = 100 * float(row["gap"])
    return tag(
        "tr",
        tag("th", row["text"], scope="row"),
        tag("td", f"{row['n']:,}", class_="n", data_v=row["n"]),
        tag("td", tag("div", shown), class_="n cover", data_v=coverage),
        tag("td", typeset(f"{gap:+.1f}"), class_="n", data_v=row["gap"]),
        tag("td", typeset(say_number(length)), class_="n", data_v=row["mean_length"]),
        tag("td", probability(p_value), class_="n", data_v=row["adjusted_p_value"]),
        data_state=row["state"],
    )


def band_picture(row: dict[str, Any], level: float, low: float) -> Markup:
    """The coverage with its band, and the target as a tick, in one line of text."""

    def place(share: float) -> str:
        inside = (share - low) / max(1.0 - low, 1e-9)
        return f"{6 + (BAND_WIDTH - 12) * min(max(inside, 0.0), 1.0):.1f}"

    middle = BAND_HEIGHT / 2
    lower, upper, value = (place(float(row[key])) for key in ("lower", "upper", "coverage"))
    target = place(level)
    return tag(
        "svg",
        tag("line", x1=target, x2=target, y1="0", y2=BAND_HEIGHT, class_="target"),
        tag("line", x1=lower, x2=upper, y1=middle, y2=middle, class_="range"),
        tag("path", d=SHAPES[row["state"]], transform=f"translate({value},{middle})"),
        viewBox=f"0 0 {BAND_WIDTH} {BAND_HEIGHT}",
        width=BAND_WIDTH,
        height=BAND_HEIGHT,
        class_=f"mark {row['state']}",
        role="img",
        aria_label=STATES[row["state"]],
    )
