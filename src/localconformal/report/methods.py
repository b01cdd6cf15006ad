"""Methods side by side: two tables and two charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from localconformal.audit import Comparison, Difference, Method
from localconformal.report.making import table
from localconformal.report.plain import LABEL, PARAGRAPH, TEXT, short, typeset
from localconformal.report.regions import coverage_columns, forest, overall_state
from localconformal.text import say_difference, say_number, say_share

MAX_METHODS = 60
#: Column -> field of a summary, and how it is said.
COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "coverage": ("coverage", say_share),
    "mean length": ("mean_length", say_number),
    "interval score": ("interval_score", say_number),
    "corr(length, covered)": ("length_coverage_corr", say_number),
    "worst slab": ("worst_slab_coverage", say_share),
    "excess risk": ("excess_risk_l1", say_number),
}
POINTS = "coverage, in points"
#: Metric -> what it is called; coverage is in points of a hundred, as on the rest of the page.
METRICS = {"interval_score": "interval score", "length": "length", "coverage": POINTS}


def describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """Coverage of each method, and their paired differences from the best."""
    shown = comparison.methods[:MAX_METHODS]
    paired = [in_points(row) for row in comparison.paired()]
    level = shown[0].summary.confidence_level
    columns = coverage_columns((m.name, m.summary, overall_state(m.summary)) for m in shown)
    lead = "On the same rows, with the exact 95 % band; the dashed line is the target."
    charts = {"methods": forest("Coverage of each method", lead, level, [("", columns)])}
    if paired:
        charts["differences"] = differences_chart(paired)
    left_out = len(comparison.methods) - MAX_METHODS
    notes = [f"The first {MAX_METHODS} methods are shown."] if left_out > 0 else []
    return {
        "heading": comparison.heading(),
        "tables": [methods_table(shown), differences_table(comparison, paired)],
        "charts": charts,
        "notes": notes + [short(note, PARAGRAPH) for note in comparison.notes[:MAX_METHODS]],
    }


def methods_table(methods: tuple[Method, ...]) -> dict[str, Any]:
    """One row a method."""
    rows = []
    for method in methods:
        said = [typeset(say(getattr(method.summary, name))) for name, say in COLUMNS.values()]
        rows.append([short(method.name), *said])
    return table("Methods", ("method", *COLUMNS), rows)


def differences_table(comparison: Comparison, paired: list[Difference]) -> dict[str, Any]:
    """One row for each method but the best."""
    found = {
        (row.method, row.metric): typeset(say_difference(row.difference, row.lower, row.upper))
        for row in paired
    }
    names = list(dict.fromkeys(row.method for row in paired))[:MAX_METHODS]
    rows = [[short(name), *(found[name, metric] for metric in METRICS)] for name in names]
    return table(comparison.differences_heading(), ("method", *METRICS.values()), rows)


def in_points(row: Difference) -> Difference:
    """A difference of coverage in points; the others as they are."""
    if row.metric != "coverage":
        return row
    names = ("difference", "error", "lower", "upper")
    return replace(row, **{name: 100 * getattr(row, name) for name in names})


def differences_chart(paired: list[Difference]) -> dict[str, Any]:
    """Paired differences from the best method, metric by metric."""
    options = []
    for metric, name in METRICS.items():
        rows = [row for row in paired if row.metric == metric][:MAX_METHODS]
        columns = {
            "label": [short(row.method, LABEL) for row in rows],
            "rows": [row.n for row in rows],
            "value": [row.difference for row in rows],
            "lower": [row.lower for row in rows],
            "upper": [row.upper for row in rows],
            "state": ["apart" if row.lower > 0 or row.upper < 0 else "within" for row in rows],
        }
        options.append((name, columns))
    lead = (
        f"Each method less {short(paired[0].reference, TEXT)}, row by row, with the 95 % "
        "confidence interval of the mean difference; lower scores and lengths are better."
    )
    return forest(
        "Differences between methods", lead, 0.0, options, choose="Metric", share=False, note=""
    )
