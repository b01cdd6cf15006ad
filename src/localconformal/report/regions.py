"""Rules, groups and bins: rows of the tables, and charts of their coverage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from localconformal.audit import Audit, Cell, Failure, Summary
from localconformal.audit.sentences import coverage_phrase, part_verdict
from localconformal.audit.significance import stands_out
from localconformal.report.expectation import say_calibration
from localconformal.report.plain import CONDITIONS, LABEL, short
from localconformal.report.words import ALPHA, sides

#: Rows of one table; features, and parts of one, in a chart; parts told as sentences.
MAX_ROWS, MAX_OPTIONS, MAX_PARTS, MAX_SENTENCES = 400, 60, 40, 12
#: What stands before the words for a part, by its kind; those told first come first.
KINDS = {
    "rules": "Rule: ",
    "groups": "Group: ",
    "slab": "Slab: ",
    "sizes": "Interval ",
    "features": "Bin: ",
}
NO_GROUPS = "No groups were named"
UNDER, OVER, WITHIN = "under", "over", "within"
TABLES = {
    "rules": ("Rules", "No rule was found to be tested."),
    "groups": ("Groups", NO_GROUPS),
    "features": ("Feature bins", "No feature tells rows apart."),
}
READING = (
    "All rows, and the part of each kind that covers worst. The mark is the coverage, the bar its "
    "exact 95 % band; in colour where it is off by more than chance, for all that was looked at."
)


def state(gap: float, p_value: float) -> str:
    """Is a coverage below the target, or above it, by more than chance?"""
    if not p_value <= ALPHA:
        return WITHIN
    return UNDER if gap < 0 else OVER


def region_state(region: Any) -> str:
    """The same of a rule or a cell, for the number of parts looked at."""
    return state(region.gap, region.adjusted_p_value)


def overall_state(summary: Summary) -> str:
    """The same of all rows, for which the draw of the calibration rows is chance too."""
    if summary.is_explained:
        return WITHIN
    return state(summary.coverage - summary.confidence_level, summary.p_value)


def failures(audit: Audit, group_hint: str) -> dict[str, Any]:
    """Parts off the target as sentences, each side by itself, and every part in tables."""
    under, over = sides(audit)
    return {
        UNDER: told_parts(audit, under),
        OVER: told_parts(audit, over),
        "level": audit.summary.confidence_level,
        "tables": [region_table(audit, part, group_hint) for part in TABLES],
    }


def told_parts(audit: Audit, found: list[Failure]) -> dict[str, Any]:
    """The first few parts of one side as sentences, and how many more there are.

    Where all rows are off the target, what stands out from the other rows comes first.
    """
    level, shifted = audit.summary.confidence_level, audit.is_shifted
    first = list(KINDS)
    ordered = sorted(found, key=lambda one: (shifted and not one.stands_out, first.index(one.part)))
    sentences = [
        {"state": UNDER if one.is_under else OVER, "text": failure_sentence(one, level)}
        for one in ordered[:MAX_SENTENCES]
    ]
    return {"sentences": sentences, "more": len(found) - len(sentences)}


def failure_sentence(failure: Failure, level: float) -> str:
    """Which rows, and how they are covered."""
    text = short(f"{KINDS[failure.part]}{failure.text}", CONDITIONS)
    return f"{text}: {coverage_phrase(failure, level)}"


def region_table(audit: Audit, part: str, group_hint: str) -> dict[str, Any]:
    """One family of tests, the most significant first.

    Where all rows are off the target, what stands out from the other rows comes before the rest.
    """
    title, empty = TABLES[part]
    if part == "groups" and group_hint:
        empty = f"{empty}: {group_hint}."
    shifted = audit.is_shifted
    tested = sorted(
        getattr(audit, part), key=lambda one: (shifted and not stands_out(one), one.p_value)
    )
    return {
        "id": part,
        "title": title,
        "text": part_verdict(audit, part) if tested else empty,
        "rows": [region_row(one) for one in tested[:MAX_ROWS]],
        "left_out": max(0, len(tested) - MAX_ROWS),
    }


def region_row(region: Any) -> dict[str, Any]:
    """A rule or a cell."""
    names = ("n", "coverage", "lower", "upper", "gap", "mean_length", "adjusted_p_value")
    return {
        "text": short(region.text, CONDITIONS),
        **{name: getattr(region, name) for name in names},
        "state": region_state(region),
    }


def forest(
    title: str, lead: str, reference: float, options: Sequence[tuple[str, Any]], **more: Any
) -> dict[str, Any]:
    """A chart of values with their bands, one row each; several options can be chosen from."""
    return {
        "kind": "forest",
        "title": title,
        "lead": lead,
        "reference": reference,
        "share": True,
        "options": [{"label": label, "columns": columns} for label, columns in options],
        **more,
    }


def coverage_columns(regions: Iterable[tuple[str, Any, str]]) -> dict[str, list[Any]]:
    """Columns of a forest, of (label, what has a coverage with its band, state)."""
    rows = [
        (short(label, LABEL), r.n, r.coverage, r.lower, r.upper, beyond)
        for label, r, beyond in regions
    ]
    names = ("label", "rows", "value", "lower", "upper", "state")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def part_charts(audit: Audit) -> dict[str, Any]:
    """Coverage by group, by feature bin and by length, those there are."""
    level = audit.summary.confidence_level
    charts = {}
    named = {
        "groups": ("Coverage by group", "Is every group covered alike?", "Groups"),
        "features": (
            "Coverage by feature",
            "Is coverage the same all along a feature? Those that are off most come first.",
            "Feature",
        ),
    }
    for part, (title, lead, name) in named.items():
        if cells := getattr(audit, part):
            options, note = cell_options(cells)
            charts[part] = forest(title, lead, level, options, choose=name, note=note)
    if audit.sizes:
        lead = "From the shortest to the longest: are long and short intervals covered alike?"
        columns = coverage_columns((c.label, c, region_state(c)) for c in audit.sizes)
        charts["sizes"] = forest("Coverage by length", lead, level, [("", columns)])
    return charts


def cell_options(cells: Sequence[Cell]) -> tuple[list[tuple[str, Any]], str]:
    """What the rows are parted by, the most significant first, each with its parts in order."""
    by: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda one: one.p_value):
        by.setdefault(cell.by, []).append(cell)
    options = []
    for name, parts in list(by.items())[:MAX_OPTIONS]:
        kept = sorted(parts[:MAX_PARTS], key=lambda cell: cell.position)
        columns = coverage_columns((c.label, c, region_state(c)) for c in kept)
        options.append((short(name, LABEL), columns))
    notes = []
    if len(by) > MAX_OPTIONS:
        notes.append(f"The {MAX_OPTIONS} of {len(by):,} that are off most can be chosen.")
    if any(len(parts) > MAX_PARTS for parts in by.values()):
        notes.append(f"Of more than {MAX_PARTS} parts, those that are off most are shown.")
    return options, " ".join(notes)


def glance_chart(audit: Audit) -> dict[str, Any]:
    """All rows, and the part of each kind that covers least."""
    summary, slab = audit.summary, audit.slab
    level = summary.confidence_level
    rows: list[tuple[str, Any, str]] = [("All rows", summary, overall_state(summary))]
    for part in ("rules", "groups", "features", "sizes"):
        if tested := getattr(audit, part):
            worst = min(tested, key=lambda one: (region_state(one) != UNDER, one.gap))
            rows.append((f"{KINDS[part]}{worst.text}", worst, region_state(worst)))
    if slab.n:
        beyond = state(slab.coverage - level, audit.slab_p_value)
        rows.append((f"{KINDS['slab']}{audit.slab_text}", slab, beyond))
    lead, more = READING, {}
    if summary.n_calibration:
        lead += f" The box around all rows is what {say_calibration(summary)} explains."
        more["expected"] = [summary.expected_lower, summary.expected_upper]
    return forest("At a glance", lead, level, [("", coverage_columns(rows))], **more)
