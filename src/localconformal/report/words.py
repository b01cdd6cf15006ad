"""The sentences at the head of the page: what was found, and what was promised."""

from __future__ import annotations

from typing import Any

from localconformal.audit import Audit, Failure
from localconformal.audit.accuracy import Accuracy
from localconformal.audit.sentences import coverage_phrase
from localconformal.report.expectation import say_calibration, say_expected
from localconformal.report.plain import CONDITIONS, PARAGRAPH, say_band, short, typeset
from localconformal.text import say_level, say_number, say_rows, say_share

ALPHA = 0.05
#: What one part of a family of tests is called, and several.
PARTS = {
    "rules": ("rule", "rules"),
    "features": ("feature bin", "feature bins"),
    "groups": ("group", "groups"),
    "sizes": ("length stratum", "length strata"),
    "slab": ("slab", "slabs"),
}
NO_MODEL = (
    "These intervals were made elsewhere: nothing is promised here. "
    "The audit says how they did on these rows, no more."
)


def headline(audit: Audit, found: Accuracy | None = None) -> dict[str, Any]:
    """Title, verdict and the figures beside them."""
    summary = audit.summary
    model = [found.warning] if found is not None and found.warning else []
    return {
        "text": f"{say_share(summary.coverage)} of {say_rows(summary.n)} "
        f"{'lies in its' if summary.n == 1 else 'lie in their'} interval. "
        f"The target is {say_level(summary.confidence_level)}.",
        "verdict": [overall_sentence(audit), *parts_sentences(audit), *model],
        "figures": figures(audit),
    }


def sides(audit: Audit) -> tuple[list[Failure], list[Failure]]:
    """Parts covered too rarely and parts covered too often, as everywhere on the page."""
    found = audit.failures(ALPHA)
    return [one for one in found if one.is_under], [one for one in found if not one.is_under]


def n_tested(audit: Audit) -> int:
    """How many parts of the rows were looked at one by one."""
    lists = (audit.rules, audit.features, audit.groups, audit.sizes)
    return sum(map(len, lists)) + (audit.slab.n > 0)


def overall_sentence(audit: Audit) -> str:
    """Is the coverage of all rows the target?"""
    summary = audit.summary
    if summary.p_value >= ALPHA:
        return "Over all rows the difference is within chance."
    drawn = say_calibration(summary)
    if summary.is_explained:
        return (
            f"Over all rows that is within what {drawn} explains: on as many rows, 95 % of such "
            f"sets cover {say_expected(summary)} %."
        )
    beyond = f" and {drawn} explain" if summary.n_calibration else " explains"
    if summary.coverage < summary.confidence_level:
        return (
            f"Over all rows that is less than chance{beyond}: the intervals are too short, or "
            "these rows differ from those they were made for."
        )
    return (
        f"Over all rows that is more than chance{beyond}: the intervals are longer than the "
        "target asks for."
    )


def parts_sentences(audit: Audit) -> list[str]:
    """Is it the target everywhere, and if not, where is it worst?"""
    tested, (under, over) = n_tested(audit), sides(audit)
    if tested == 0:
        return ["There were no parts of the rows to look at one by one."]
    if not under and not over:
        return [f"None of the {tested:,} parts looked at one by one is off by more than chance."]
    lines = []
    if under:
        lines.append(f"Coverage is too low, by more than chance, in {say_parts(under)}.")
        lines += worst_sentences(audit, under)
    else:
        lines.append(f"None of the {tested:,} parts looked at one by one is covered too rarely.")
    if over:
        lines.append(f"It is higher than asked in {say_parts(over)}.")
    return lines


def worst_sentences(audit: Audit, under: list[Failure]) -> list[str]:
    """Which of the parts is worst; where all rows are off, of those that differ from the others."""
    told, lines = under, []
    if audit.is_shifted:
        told = [failure for failure in under if failure.stands_out]
        lines.append(
            f"Of these, {say_parts(told)} also differ from the other rows."
            if told
            else "None of these differs from the other rows."
        )
    if told:
        worst = min(told, key=lambda failure: failure.gap)
        phrase = coverage_phrase(worst, audit.summary.confidence_level)
        lines.append(f"It fails most where {short(worst.text, CONDITIONS)}: {phrase}.")
    return lines


def say_parts(failures: list[Failure]) -> str:
    """2 rules, 5 feature bins and 1 group."""
    counted = []
    for part, (one, many) in PARTS.items():
        n = sum(failure.part == part for failure in failures)
        if n:
            counted.append(f"{n:,} {one if n == 1 else many}")
    return " and ".join([", ".join(counted[:-1])] * (len(counted) > 1) + counted[-1:])


def figures(audit: Audit) -> list[dict[str, str]]:
    """The four numbers to take home."""
    summary, (under, over) = audit.summary, sides(audit)
    length = f"median {typeset(say_number(summary.median_length))}"
    if summary.share_infinite > 0:
        infinite = say_number(100 * summary.share_infinite)
        finite = typeset(say_number(summary.mean_finite_length))
        length = f"{infinite} % are infinite, the others {finite}"
    band = f"95 % band: {say_band(summary)}"
    if summary.n_calibration:
        band += f"; {say_calibration(summary)} explains {say_expected(summary)}"
    often = f"; {len(over):,} covered too often" if over else ""
    rows = [
        ("Target", say_level(summary.confidence_level), "of rows in their interval"),
        ("Observed", say_share(summary.coverage), band),
        ("Mean length", typeset(say_number(summary.mean_length)), length),
        (
            "Coverage fails",
            f"{len(under):,} of {n_tested(audit):,}",
            f"parts of the rows, beyond chance{often}",
        ),
    ]
    return [{"label": label, "value": value, "detail": detail} for label, value, detail in rows]


def promise(audit: Audit, model: Any) -> dict[str, Any]:
    """What the model promises, in its own words; nothing where there is none to ask."""
    guarantee = getattr(model, "guarantee_", None)
    if guarantee is None:
        return {"known": False, "lines": [NO_MODEL]}
    lines = [short(line, PARAGRAPH) for line in str(guarantee).splitlines() if line.strip()]
    level, target = getattr(guarantee, "confidence_level", None), audit.summary.confidence_level
    if isinstance(level, float) and level != target:
        lines.append(f"The intervals on this page were made for {say_level(target)}.")
    return {"known": True, "lines": lines}
