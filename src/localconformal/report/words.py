"""The sentences at the head of the page: what was found, and what was promised."""

from __future__ import annotations

from typing import Any

from localconformal.audit import Audit, Failure
from localconformal.audit.sentences import coverage_phrase
from localconformal.report.expectation import say_calibration, say_expected
from localconformal.report.plain import (
    CONDITIONS,
    PARAGRAPH,
    say_band,
    say_level,
    say_number,
    say_rows,
    say_share,
    short,
)

ALPHA = 0.05
#: What one part of a family of tests is called, and several.
PARTS = {
    "rules": ("rule", "rules"),
    "features": ("feature bin", "feature bins"),
    "groups": ("group", "groups"),
    "sizes": ("length stratum", "length strata"),
}
NO_MODEL = (
    "These intervals were made elsewhere: nothing is promised here. "
    "The audit says how they did on these rows, no more."
)


def headline(audit: Audit) -> dict[str, Any]:
    """Title, verdict and the figures beside them."""
    summary, failures = audit.summary, audit.failures(ALPHA)
    return {
        "text": f"{say_share(summary.coverage)} of {say_rows(summary.n)} "
        f"{'lies in its' if summary.n == 1 else 'lie in their'} interval. "
        f"The target is {say_level(summary.confidence_level)}.",
        "verdict": [overall_sentence(audit), *parts_sentences(audit, failures)],
        "figures": figures(audit, failures),
    }


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


def parts_sentences(audit: Audit, failures: tuple[Failure, ...]) -> list[str]:
    """Is it the target everywhere, and if not, where is it worst?"""
    tested = sum(len(getattr(audit, part)) for part in PARTS)
    if tested == 0:
        return ["There were no parts of the rows to look at one by one."]
    if not failures:
        return [f"None of the {tested} parts looked at one by one is off by more than chance."]
    told = failures
    lines = [f"Coverage is off by more than chance in {say_parts(failures)}."]
    if audit.is_shifted:
        told = tuple(failure for failure in failures if failure.stands_out)
        lines.append(
            f"Of these, {say_parts(told)} also differ from the other rows."
            if told
            else "None of these differs from the other rows."
        )
    worst = min(told, key=lambda failure: failure.gap, default=None)
    if worst is not None and worst.gap < 0:
        phrase = coverage_phrase(worst, audit.summary.confidence_level)
        lines.append(f"It fails most where {short(worst.text, CONDITIONS)}: {phrase}.")
    return lines


def say_parts(failures: tuple[Failure, ...]) -> str:
    """2 rules, 5 feature bins and 1 group."""
    counted = []
    for part, (one, many) in PARTS.items():
        n = sum(failure.part == part for failure in failures)
        if n:
            counted.append(f"{n} {one if n == 1 else many}")
    return " and ".join([", ".join(counted[:-1])] * (len(counted) > 1) + counted[-1:])


def figures(audit: Audit, failures: tuple[Failure, ...]) -> list[dict[str, str]]:
    """The four numbers to take home."""
    summary = audit.summary
    tested = sum(len(getattr(audit, part)) for part in PARTS)
    length = f"median {say_number(summary.median_length)}"
    if summary.share_infinite > 0:
        finite = say_number(summary.mean_finite_length)
        length = f"{100 * summary.share_infinite:.3g} % are infinite, the others {finite}"
    band = f"95 % band: {say_band(summary)}"
    if summary.n_calibration:
        band += f"; {say_calibration(summary)} explains {say_expected(summary)}"
    rows = [
        ("Target", say_level(summary.confidence_level), "of rows in their interval"),
        ("Observed", say_share(summary.coverage), band),
        ("Mean length", say_number(summary.mean_length), length),
        ("Off target", f"{len(failures)} of {tested}", "parts of the rows, beyond chance"),
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
