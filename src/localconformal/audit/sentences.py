"""An audit and a comparison as plain text: sentences, and columns that line up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from localconformal.audit.significance import ALPHA
from localconformal.audit.summary import Summary
from localconformal.text import one_line, say_level, say_number, say_rows, say_share

if TYPE_CHECKING:
    from localconformal.audit.audit import Audit, Failure

#: Conditions are three at most, of names and labels that are cut where they are made.
MOST_LINES, WIDEST_SENTENCE = 10, 400
#: With fewer rows, the standard error of the excess risk is too small: by a third at 100.
FEWEST_RISK_ROWS = 500
TITLES = {
    "rules": "Rules",
    "features": "Bins of features",
    "groups": "Groups",
    "sizes": "Strata of the length",
}


def coverage_sentence(region: Any, confidence_level: float) -> str:
    """Which rows, their coverage with its band, how many they are, and the target.

    ``region`` is a rule, a cell or a failure.
    """
    return f"{one_line(region.text, WIDEST_SENTENCE)}: {coverage_phrase(region, confidence_level)}"


def coverage_phrase(region: Any, confidence_level: float) -> str:
    """71 % [64, 77] of 312 rows, target 90 %."""
    digits = digits_of_band(region.lower, region.upper, confidence_level)
    share, low, high = (
        f"{100 * value:.{digits}f}" for value in (region.coverage, region.lower, region.upper)
    )
    rows, target = say_rows(region.n), say_level(confidence_level)
    return f"{share} % [{low}, {high}] of {rows}, target {target}"


def digits_of_band(lower: float, upper: float, confidence_level: float) -> int:
    """Decimals of a band in per cent: none, or as few as keep the target in or out of it."""
    digits = 0 if upper - lower > 0.02 else 1
    outside = not lower <= confidence_level <= upper
    while digits < 3:
        low, high = round(100 * lower, digits), round(100 * upper, digits)
        if (not low <= 100 * confidence_level <= high) == outside:
            break
        digits += 1
    return digits


def say_band(lower: float, upper: float) -> str:
    """A band in per cent."""
    return f"{100 * lower:.1f} to {100 * upper:.1f}"


def probability(value: float) -> str:
    """A p-value; small ones by their bound."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def p_phrase(value: float) -> str:
    """p = 0.031, or p < 0.001."""
    return f"p {probability(value)}" if value < 0.001 else f"p = {probability(value)}"


def summary_lines(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, value and how to read it, of each number worth a line."""
    slab = "no row was left to report it on"
    if summary.worst_slab_n:
        band = f"[{100 * summary.worst_slab_lower:.1f}, {100 * summary.worst_slab_upper:.1f}]"
        slab = f"{band} on {say_rows(summary.worst_slab_n)} that did not find it"
    lines = [
        (
            "coverage",
            say_share(summary.coverage),
            f"[{100 * summary.lower:.1f}, {100 * summary.upper:.1f}], "
            f"{overall_verdict(summary)}, {p_phrase(summary.p_value)}",
        ),
        (
            "mean length",
            say_number(summary.mean_length),
            f"median {say_number(summary.median_length)}",
        ),
        ("interval score", say_number(summary.interval_score), "lower is better"),
        ("corr(length, covered)", say_number(summary.length_coverage_corr), "0 is ideal"),
        ("corr(length, error)", say_number(summary.length_error_corr), "higher tells more"),
        (
            "HSIC(length, covered)",
            say_number(summary.hsic),
            f"0 is ideal, {p_phrase(summary.hsic_p_value)}",
        ),
        ("worst slab", say_share(summary.worst_slab_coverage), slab),
        (
            "excess risk, L1",
            say_number(summary.excess_risk_l1),
            f"{risk_error(summary)}; 0 is ideal, below 0 is noise",
        ),
    ]
    if summary.share_infinite > 0:
        finite = (
            f"the finite ones are {say_number(summary.mean_finite_length)} long on average, median "
            f"{say_number(summary.median_finite_length)}"
        )
        lines.insert(2, ("infinite", f"{say_number(100 * summary.share_infinite)} %", finite))
    if summary.share_empty > 0:
        lines.insert(2, ("empty", f"{say_number(100 * summary.share_empty)} %", "cover nothing"))
    if summary.n_calibration:
        lines.insert(
            1,
            (
                "expected",
                f"{say_band(summary.expected_lower, summary.expected_upper)} %",
                f"with 95 % of calibration sets of {summary.n_calibration:,} rows",
            ),
        )
    return lines


def overall_verdict(summary: Summary) -> str:
    """Is the coverage of all rows the target, or what else explains it?"""
    if summary.p_value >= ALPHA:
        return "within chance of the target"
    if summary.is_explained:
        return f"within what a calibration set of {summary.n_calibration:,} rows explains"
    return "off the target"


def risk_error(summary: Summary) -> str:
    """The standard error of the excess risk, where it can be told."""
    if summary.excess_risk_n < FEWEST_RISK_ROWS:
        return "too few rows to tell its error"
    return f"± {say_number(summary.excess_risk_l1_error)}"


def heading(audit: Audit) -> str:
    """What was audited."""
    summary = audit.summary
    target = say_level(summary.confidence_level)
    return f"Coverage audit of {say_rows(summary.n)}, target {target}"


def audit_text(audit: Audit, rest: str = 'frame("failures")') -> str:
    """The whole audit as text; ``rest`` is where failures stand that it only counts."""
    lines = [heading(audit), *aligned(summary_lines(audit.summary)), ""]
    for part, title in TITLES.items():
        lines += part_lines(audit, part, title, rest)
    if audit.slab.n:
        lines += [slab_sentence(audit), ""]
    if audit.notes:
        lines += ["Notes", *(f"  - {' '.join(note.split())}" for note in audit.notes)]
    return "\n".join(lines).rstrip()


def part_lines(audit: Audit, part: str, title: str, rest: str) -> list[str]:
    """What is significant in one part, and how much was tested."""
    tested = getattr(audit, part)
    if not tested:
        return []
    level = audit.summary.confidence_level
    told = told_failures(audit, part)
    lines = [f"{title}: {part_verdict(audit, part)}"]
    lines += [f"  {coverage_sentence(one, level)}" for one in told[:MOST_LINES]]
    if len(told) > MOST_LINES:
        lines.append(f"  and {len(told) - MOST_LINES:,} more: see {rest}")
    return [*lines, ""]


def told_failures(audit: Audit, part: str) -> list[Failure]:
    """What is worth a line: where all rows are off the target, only what stands out from them."""
    hits = [one for one in audit.failures() if one.part == part]
    return [one for one in hits if one.stands_out] if audit.is_shifted else hits


def part_verdict(audit: Audit, part: str) -> str:
    """How many are significant; where all rows are off, how many differ from the others too."""
    tested = getattr(audit, part)
    gaps = [one.gap for one in tested if one.adjusted_p_value <= ALPHA]
    n_under = sum(gap < 0 for gap in gaps)
    text = verdict(n_under, len(gaps) - n_under, len(tested))
    told = len(told_failures(audit, part))
    if told == len(gaps):
        return text
    verb = "differs" if told <= 1 else "differ"
    return f"{text}, {told or 'none'} of them {verb} from the other rows too"


def slab_sentence(audit: Audit) -> str:
    """Which rows the worst slab holds, and their coverage."""
    phrase = coverage_phrase(audit.slab, audit.summary.confidence_level)
    return f"Worst slab: {one_line(audit.slab_text, WIDEST_SENTENCE)}: {phrase}"


def verdict(n_under: int, n_over: int, n_tested: int) -> str:
    """How many of how many are significant, on either side of the target.

    Examples
    --------
    >>> verdict(2, 1, 80)
    '2 of 80 are below the target and 1 above it by more than chance (5 %, Holm)'
    """
    chance = "by more than chance (5 %, Holm)"
    if n_under + n_over == 0:
        return f"none of {n_tested:,} is off the target {chance}"
    first, place = (n_under, "below") if n_under else (n_over, "above")
    verb = "is" if first == 1 else "are"
    both = f" and {n_over:,} above it" if n_under and n_over else ""
    return f"{first:,} of {n_tested:,} {verb} {place} the target{both} {chance}"


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Rows of texts as lines: the first and last column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for first, *middle, last in table:
        cells = [first.ljust(widths[0])]
        cells += [text.rjust(width) for text, width in zip(middle, widths[1:-1], strict=True)]
        lines.append(("  " + "  ".join([*cells, last])).rstrip())
    return lines
